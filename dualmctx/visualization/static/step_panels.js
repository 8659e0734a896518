// The sentences and tables of a step: of a simulation, the candidates of a selection, the output of the network and
// the backup; of a refinement, the nodes that a later tree takes over, and the mixing of two heads.

import { make, makeButton } from "/shared/dom.js";
import { isNumber } from "/shared/text.js";
import { TERM_HELP } from "./help.js";
import { headName, listCandidates, moveLine, nodeValue, playerName, rewardedView, treeName } from "./replay.js";
import { formatCount, formatShare, formatValue, makeNumber, makeScoreBar, makeShareBar, makeTable, makeValueBar,
  nameColumn, numberColumn, rangeOfScores, textColumn } from "./tables.js";

const LONGEST_LINE = 24;

export function moveName(node, action) {
  return node.names[node.legal.indexOf(action)];
}

// Returns the column with the names of the nodes, which select them.
export function nodeColumn(recording, select) {
  return nameColumn("node", ({ node }) => {
    const line = moveLine(recording, node);
    const text = line.length > LONGEST_LINE ? `… ${line.slice(line.indexOf(" ", line.length - LONGEST_LINE) + 1)}` : line;
    return makeButton(text, () => select(node), { class: "dv-link", title: line });
  });
}

const REASONS = {
  rule: "the move with the largest score",
  explore: "a move drawn at random (ε-greedy exploration outside the window), regardless of its score",
  root: "the move with the largest score by the rule of the root, among those that it considers",
  frozen: "a move drawn from the frozen visits, because the search of the opponent has stopped at this node",
};

// Each function that shows a phase returns its sentence and its table.
export const makeSentence = (words) => make("p", { class: "dv-sentence" }, words);

export function showSelection(recording, step, { phase }) {
  const row = step.path[phase.level];
  return [makeSentence(describeSelection(recording, row)), makeSelectionTable(recording, row)];
}

function describeSelection(recording, row) {
  const node = recording.nodes[row.node];
  const move = moveName(node, row.chosen ?? row.action);
  const target = row.child === null ? "has no node yet, so the path ends there" : "leads to the next node of the path";
  const halving = row.required_visits === undefined ? "" : ` Sequential Halving considers the moves with ${row.required_visits} visits.`;
  return `At ${moveLine(recording, row.node)}, ${playerName(recording, node.side)} chooses ${move}: `
    + `${REASONS[row.reason] ?? row.reason}.${halving} The move ${target}.`;
}

// The candidates of one selection, the best first.
function makeSelectionTable(recording, row) {
  const node = recording.nodes[row.node];
  const chosen = row.chosen ?? row.action;
  const candidates = listCandidates(row);
  const isMean = row.parts[0] === "Q" && candidates.every(({ q, addends }) => q === null || q === addends[0]);
  const hasFrozen = candidates.some((candidate) => candidate.frozen_visits !== undefined);
  const range = rangeOfScores(candidates);
  const scoreOf = ({ score }) => score ?? -Infinity;
  const compare = (a, b) => (scoreOf(a) === scoreOf(b) ? a.action - b.action : scoreOf(b) - scoreOf(a));
  const columns = [
    textColumn("", ({ action }) => action === chosen && ["▶", make("span", { class: "hidden-text" }, "chosen")]),
    nameColumn("move", ({ action }) => moveName(node, action)),
    numberColumn("P", TERM_HELP.P, "prior", formatShare, ({ prior }) => prior),
    numberColumn("N", TERM_HELP.N, "visits", formatCount, ({ visits }) => visits),
    hasFrozen && numberColumn("frozen N", TERM_HELP.frozen, "frozen-visits", formatCount, (candidate) => candidate.frozen_visits),
    !isMean && numberColumn("mean Q", TERM_HELP.Q, "q", formatValue, ({ q }) => q),
    ...row.parts.map((part, i) => numberColumn(i ? `+ ${part}` : part, TERM_HELP[part] ?? `Addend of the score: ${part}`,
      `addend-${i}`, formatValue, ({ addends }) => addends[i])),
    numberColumn("= score", TERM_HELP.score, "score", formatValue, ({ score }) => score),
    textColumn("bar", ({ addends }) => makeScoreBar(addends, range)),
  ];
  const omitted = row.omitted ? `; ${row.omitted} with smaller scores are left out` : "";
  return makeTable(`Candidates at ${moveLine(recording, row.node)}${omitted}`, columns, candidates.sort(compare),
    ({ action }) => ({ class: action === chosen && "dv-chosen", "data-action": action }));
}

export function showEvaluation(recording, step) {
  return [makeSentence(describeEvaluation(recording, step)), makeEvaluationTable(recording, step)];
}

function describeEvaluation(recording, step) {
  const { leaf, evaluation } = step;
  const name = moveLine(recording, leaf.node);
  if (leaf.is_terminal) return `The game is over at ${name}. Its result is exact; the network is not asked.`;
  if (!leaf.is_new) return `The path ends at ${name}, a node that exists already.`;
  if (!evaluation) return `${name} becomes a new node.`;
  const heads = recording.tree_heads.slice(0, step.tree + 1).map((head) => headName(recording, head));
  const source = heads.length > 1 ? `The heads ${heads.join(" and ")} evaluate it; the mixture of their outputs is` : `The ${heads[0]} head gives`;
  const player = playerName(recording, recording.nodes[leaf.node].side);
  return `${name} becomes a new node. ${source} its value for ${player}, who is to move, and a prior for each move.`;
}

// The output of the network for the new node, or the result of the game.
function makeEvaluationTable(recording, step) {
  const node = recording.nodes[step.leaf.node];
  if (!step.evaluation) {
    return make("p", {}, "Reward of the last move, for the player who made it: ", makeNumber(node.reward, formatValue, "reward"));
  }
  const { value, prior } = step.evaluation;
  return make("div", {}, make("p", { title: TERM_HELP.V }, "Value: ", makeNumber(value, formatValue, "value"), " ", makeValueBar(value)),
    makePriorTable("Prior of the moves", node, [["P", prior]]));
}

// Priors over the legal moves of a node; `priors` are pairs of a title and a prior. The largest of the last is first.
export function makePriorTable(caption, node, priors) {
  const [, last] = priors.at(-1);
  const order = node.legal.map((_, place) => place).sort((a, b) => last[b] - last[a] || a - b);
  const columns = [
    nameColumn("move", (place) => node.names[place]),
    ...priors.map(([title, prior], i) => numberColumn(title, TERM_HELP.P, `prior-${i}`, formatShare, (place) => prior[place])),
    textColumn("bar", (place) => makeShareBar(last[place])),
  ];
  return makeTable(caption, columns, order, (place) => ({ "data-action": node.legal[place] }));
}

export function showBackup(recording, step, { select }) {
  return [makeSentence(describeBackup(recording, step)), makeChangeTable(recording, step, select)];
}

function describeBackup(recording, step) {
  const outside = step.changes.filter((change) => change.in_window === false).length;
  const window = outside ? ` ${outside} of the nodes are outside the window (⊘) and keep their numbers.` : "";
  if (step.pending) return `This leaf waits for ${step.pending} more of the same step; their results are backed up together.`;
  return `The result goes up from ${moveLine(recording, step.leaf.node)} to the root: visits N and means, old → new. `
    + `V is in the view of the player to move, Q of the player who made the move.${window}`;
}

// The changes of a step, from the leaf to the root, per tree.
function makeChangeTable(recording, step, select) {
  const isKnown = (change) => typeof change.in_window === "boolean";
  const columns = [
    recording.trees.length > 1 && textColumn("tree", ({ tree }) => recording.trees[tree]),
    nodeColumn(recording, select),
    pairColumn("N", TERM_HELP.N, "visits", formatCount, ({ visits }) => visits),
    pairColumn("V (to move)", TERM_HELP.V, "value", formatValue,
      ({ node, value }) => value.map((mean) => (isNumber(mean) ? nodeValue(recording, node, mean) : null))),
    pairColumn("Q (who moved)", TERM_HELP.Q, "q", formatValue,
      ({ node, value }) => value.map((mean) => (node && isNumber(mean) ? rewardedView(recording, node, mean) : null))),
    step.changes.some(isKnown) && textColumn("window",
      (change) => (isKnown(change) ? (change.in_window ? "inside" : "⊘ outside") : ""), { help: TERM_HELP.window }),
  ];
  return makeTable("Backup: old → new", columns, step.changes, ({ node, tree }) => ({ "data-node": node, "data-tree": tree }));
}

// A column of old and new numbers; `read` returns both.
function pairColumn(title, help, field, format, read) {
  const show = ([before, after]) => (before === null ? format(null) : [
    makeNumber(before, format, `${field}-old`), before === after ? " = " : " → ", makeNumber(after, format, `${field}-new`)]);
  return { title, help, cell: (row) => make("td", {}, show(read(row))) };
}

export function showFrontier(recording, step, { select }) {
  const count = step.nodes.length;
  const waiting = step.num_waiting === undefined ? "" : ` of ${step.num_waiting}`;
  const nodes = `${count}${waiting} ${count === 1 && !waiting ? "node" : "nodes"}`;
  const sentence = `The ${treeName(recording, step.tree)} takes over ${nodes} that it has not evaluated yet (◆): `
    + `those through which most simulations of the ${treeName(recording, step.tree - 1)} have passed.`;
  const columns = [
    textColumn("rank", (candidate) => String(step.candidates.indexOf(candidate) + 1)),
    textColumn("", ({ chosen }) => (chosen ? "◆ taken over" : "waits")),
    nodeColumn(recording, select),
    numberColumn("passes", TERM_HELP.passes, "passes", formatCount, ({ passes }) => passes),
  ];
  // The candidates are in the order of priority.
  return [makeSentence(sentence), makeTable("Frontier, by passes", columns, step.candidates,
    ({ chosen, node }) => ({ class: chosen && "dv-chosen", "data-node": node }))];
}

export function showMixing(recording, step, { select }) {
  const head = headName(recording, step.head);
  const sentence = `The ${head} head evaluates these nodes. Its value and prior are mixed with those before${describeWeights(recording.options)}. `
    + "The nodes on which the heads disagree most come first. Where the game is over, only its result counts.";
  return [makeSentence(sentence), makeMixingTables(recording, step, select)];
}

// The weights of the outputs before; the head has the rest. Empty if the options do not have them.
function describeWeights(options) {
  const [value, prior] = [options?.value_mix, options?.prior_mix];
  return isNumber(value) && isNumber(prior) ? `, which have the weight ${value} for values and ${prior} for priors` : "";
}

// The outputs of a row that the tables compare: the name in the recording and in the title.
const OUTPUTS = [["before", "before"], ["head", "of the head"], ["after", "mixed"]];

// Values and priors before, from the head, and after mixing.
function makeMixingTables(recording, step, select) {
  const ranked = [...step.nodes].sort((a, b) => (b.distance ?? 0) - (a.distance ?? 0) || a.node - b.node);
  const columns = [
    nodeColumn(recording, select),
    ...OUTPUTS.map(([name, words], i) => numberColumn(`V ${words}`, i === 0 && TERM_HELP.V, `${name}-value`, formatValue, (row) => row[name]?.value)),
    textColumn("bar", (row) => makeValueBar(row.after?.value)),
    numberColumn("distance", TERM_HELP.distance, "distance", formatShare, ({ distance }) => distance),
  ];
  return make("div", {}, makeTable("Values before and after mixing", columns, ranked, ({ node }) => ({ "data-node": node })),
    make("h4", {}, "Priors before and after mixing"), ranked.map((row, i) => makePriorDetails(recording, row, i === 0)));
}

function makePriorDetails(recording, row, isOpen) {
  const node = recording.nodes[row.node];
  const line = moveLine(recording, row.node);
  const columns = [
    nameColumn("move", (place) => moveName(node, node.legal[place])),
    ...OUTPUTS.map(([name, words], i) => numberColumn(`P ${words}`, i === 0 && TERM_HELP.P, `${name}-prior`, formatShare,
      (place) => row[name]?.prior?.[place])),
  ];
  return make("details", { open: isOpen, "data-node": row.node }, make("summary", {}, line),
    makeTable(`Priors at ${line}`, columns, [...node.legal.keys()], (place) => ({ "data-action": node.legal[place] })));
}

export function showUpdate(recording, step, { select }) {
  const trees = [...new Set(step.changes.map((change) => change.tree))].map((tree) => treeName(recording, tree));
  const earlier = step.tree > 1 ? "the earlier trees" : `the ${treeName(recording, 0)}`;
  const sentence = `In the ${treeName(recording, step.tree)}, each mixed value counts as one visit of its node and of the nodes above. `
    + `In ${earlier}, visits stay, and the means are corrected by the difference between the mixed value and the value before. `
    + `Changed: ${trees.join(", ") || "none"}.`;
  return [makeSentence(sentence), makeChangeTable(recording, step, select)];
}
