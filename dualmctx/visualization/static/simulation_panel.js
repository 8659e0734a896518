// The tables of a simulation: the candidates of a selection, the network's output, the backup.

import { makeScoreBar, makeShareBar, makeValueBar, rangeOfScores } from "./bars.js";
import { formatCount, formatShare, formatValue, isNumber, makeElement, makeNumber, makeTable,
  withoutLetters } from "./elements.js";
import { TERM_HELP } from "./help.js";
import { headName, listCandidates, moveLine, nodeValue, viewOfMover } from "./replay.js";

const ROWS_AT_FIRST = 12;
const LONGEST_LINE = 24;

export function playerName(recording, side) {
  return withoutLetters(recording.players[side] ?? `side ${side + 1}`);
}

export function moveName(node, action) {
  const place = node.legal.indexOf(action);
  return place < 0 ? `action ${action}` : node.names[place];
}

// A button that names a node and selects it.
export function makeNodeButton(recording, index, select) {
  const line = moveLine(recording, index);
  const text = line.length > LONGEST_LINE ? `… ${line.slice(line.indexOf(" ", line.length - LONGEST_LINE) + 1)}` : line;
  return makeElement("button", { type: "button", class: "dv-link", title: line, onclick: () => select(index) }, text);
}

const REASONS = {
  rule: "the move with the largest score",
  explore: "a move drawn at random (ε-greedy exploration outside the window), regardless of its score",
  root: "the move with the largest score by the rule of the root, among those that it considers",
  frozen: "a move drawn from the frozen visits, because the search of the opponent has stopped at this node",
};

export function describeSelection(recording, step, level) {
  const row = step.path[level];
  const node = recording.nodes[row.node];
  const chosen = row.chosen ?? row.action;
  const mover = playerName(recording, node.side);
  const target = row.child === null ? "has no node yet, so the path ends there" : "leads to the next node of the path";
  const halving = row.required_visits === undefined ? "" : ` Sequential Halving considers the moves with ${row.required_visits} visits.`;
  return `At ${moveLine(recording, row.node)}, ${mover} chooses ${moveName(node, chosen)}: ${REASONS[row.reason] ?? row.reason}.${halving} The move ${target}.`;
}

// The candidates of one selection, the best first.
export function makeSelectionTable(recording, row) {
  const node = recording.nodes[row.node];
  const parts = row.parts;
  const candidates = listCandidates(row);
  const isMean = parts[0] === "Q" && candidates.every(({ q, addends }) => q === null || q === addends[0]);
  const hasFrozen = candidates.some((candidate) => candidate.frozen_visits !== undefined);
  const headers = ["", "move", ["P", TERM_HELP.P], ["N", TERM_HELP.N], ...(hasFrozen ? [["frozen N", TERM_HELP.frozen]] : []), ...(isMean ? [] : [["mean Q", TERM_HELP.Q]]),
    ...parts.map((part, i) => [i ? `+ ${part}` : part, TERM_HELP[part] ?? `Addend of the score: ${part}`]), ["= score", TERM_HELP.score], "bar"];
  const range = rangeOfScores(candidates);
  const ranked = candidates.sort((a, b) => compareScores(a, b) || a.action - b.action);
  const chosen = row.chosen ?? row.action;
  const rows = ranked.map((candidate) => makeCandidateRow(node, candidate, candidate.action === chosen, { isMean, hasFrozen, range }));
  const omitted = row.omitted ? `; ${row.omitted} with smaller scores are left out` : "";
  return makeLongTable(`Candidates at ${moveLine(recording, row.node)}${omitted}`, headers, rows);
}

function compareScores(a, b) {
  const [x, y] = [a.score ?? -Infinity, b.score ?? -Infinity];
  return x === y ? 0 : y - x;
}

function makeCandidateRow(node, candidate, isChosen, look) {
  const { action, prior, visits, q, addends, score } = candidate;
  return makeElement("tr", { class: isChosen ? "dv-chosen" : false, "data-action": action },
    makeElement("td", {}, isChosen ? "▶" : "", makeElement("span", { class: "dv-unseen" }, isChosen ? "chosen" : "")),
    makeElement("th", { scope: "row" }, moveName(node, action)),
    makeNumber(prior, formatShare, "prior", "td"),
    makeNumber(visits, formatCount, "visits", "td"),
    look.hasFrozen ? makeNumber(candidate.frozen_visits, formatCount, "frozen-visits", "td") : null,
    look.isMean ? null : makeNumber(q, formatValue, "q", "td"),
    ...addends.map((addend, i) => makeNumber(addend, formatValue, `addend-${i}`, "td")),
    makeNumber(score, formatValue, "score", "td"),
    makeElement("td", {}, makeScoreBar(addends, ...look.range)));
}

// A table of which the first rows are shown, with a button for the rest.
export function makeLongTable(caption, headers, rows) {
  const table = makeTable(caption, headers, rows);
  const rest = rows.filter((row, i) => i >= ROWS_AT_FIRST && !row.classList.contains("dv-chosen"));
  if (rest.length < 2) return table;
  const show = (isShown) => rest.forEach((row) => row.toggleAttribute("hidden", !isShown));
  show(false);
  const button = makeElement("button", { type: "button", class: "dv-rest", onclick: () => { show(true); button.remove(); } }, `Show ${rest.length} more rows`);
  table.append(button);
  return table;
}

export function describeEvaluation(recording, step) {
  const { leaf, evaluation } = step;
  const node = recording.nodes[leaf.node];
  const name = moveLine(recording, leaf.node);
  if (leaf.is_terminal) return `The game is over at ${name}. Its result is exact; the network is not asked.`;
  if (!leaf.is_new) return `The path ends at ${name}, a node that exists already.`;
  if (!evaluation) return `${name} becomes a new node.`;
  const heads = recording.tree_heads.slice(0, step.tree + 1).map((head) => headName(recording, head));
  const source = heads.length > 1 ? `The heads ${heads.join(" and ")} evaluate it; the mixture of their outputs is` : `The ${heads[0]} head gives`;
  return `${name} becomes a new node. ${source} its value for ${playerName(recording, node.side)}, who is to move, and a prior for each move.`;
}

// The output of the network for the new node, or the result of the game.
export function makeEvaluationTable(recording, step) {
  const node = recording.nodes[step.leaf.node];
  if (!step.evaluation) {
    return makeElement("p", {}, "Reward of the last move, for the player who made it: ", makeNumber(node.reward, formatValue, "reward"));
  }
  const { value, prior } = step.evaluation;
  return makeElement("div", {}, makeElement("p", { title: TERM_HELP.V }, "Value: ", makeNumber(value, formatValue, "value"), " ", makeValueBar(value)),
    makePriorTable("Prior of the moves", node, [prior], ["P"]));
}

// Priors over the legal moves of a node, one column for each of `priors`, the largest of the last first.
export function makePriorTable(caption, node, priors, names) {
  const last = priors.at(-1);
  const order = node.legal.map((_, place) => place).sort((a, b) => last[b] - last[a] || a - b);
  const rows = order.map((place) => makeElement("tr", { "data-action": node.legal[place] },
    makeElement("th", { scope: "row" }, node.names[place]),
    ...priors.map((prior, i) => makeNumber(prior[place], formatShare, `prior-${i}`, "td")),
    makeElement("td", {}, makeShareBar(last[place]))));
  return makeLongTable(caption, ["move", ...names.map((name) => [name, TERM_HELP.P]), "bar"], rows);
}

export function describeBackup(recording, step) {
  const outside = step.changes.filter((change) => change.in_window === false).length;
  const window = outside ? ` ${outside} of the nodes are outside the window (⊘) and keep their numbers.` : "";
  if (step.pending) return `This leaf waits for ${step.pending} more of the same step; their results are backed up together.`;
  return `The result goes up from ${moveLine(recording, step.leaf.node)} to the root: visits N and means, old → new. `
    + `V is in the view of the player to move, Q of the player who made the move.${window}`;
}

// The changes of a step, from the leaf to the root, per tree.
export function makeChangeTable(recording, step, select) {
  const hasWindow = step.changes.some((change) => isBoolean(change.in_window));
  const hasTrees = recording.trees.length > 1;
  const headers = [...(hasTrees ? ["tree"] : []), "node", ["N", TERM_HELP.N], ["V (to move)", TERM_HELP.V],
    ["Q (who moved)", TERM_HELP.Q], ...(hasWindow ? [["window", TERM_HELP.window]] : [])];
  const rows = step.changes.map((change) => makeElement("tr", { "data-node": change.node, "data-tree": change.tree },
    hasTrees ? makeElement("td", {}, recording.trees[change.tree]) : null,
    makeElement("th", { scope: "row" }, makeNodeButton(recording, change.node, select)),
    makePair(change.visits, formatCount, "visits"),
    makePair(change.value.map((value) => (isNumber(value) ? nodeValue(recording, change.node, value) : null)), formatValue, "value"),
    makePair(change.value.map((value) => rewardedView(recording, change.node, value)), formatValue, "q"),
    hasWindow ? makeElement("td", {}, change.in_window === false ? "⊘ outside" : isBoolean(change.in_window) ? "inside" : "") : null));
  return makeLongTable("Backup: old → new", headers, rows);
}

function isBoolean(value) {
  return typeof value === "boolean";
}

function rewardedView(recording, index, value) {
  const node = recording.nodes[index];
  if (node.parent < 0 || !isNumber(value)) return null;
  return node.is_terminal ? node.reward : node.reward + viewOfMover(recording, node, value);
}

function makePair([before, after], format, field) {
  if (before === null) return makeElement("td", {}, format(null));
  return makeElement("td", {}, makeNumber(before, format, `${field}-old`), before === after ? " = " : " → ", makeNumber(after, format, `${field}-new`));
}
