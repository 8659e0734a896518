// Cost so far and the most visited move of each tree, beside AlphaZero's tree at the same cost.

import { formatCount, formatShare, formatValue, makeElement, makeNumber, makeTable } from "./elements.js";
import { TERM_HELP } from "./help.js";
import { costAt, edgeValue, moveLine, treeName } from "./replay.js";
import { makeLongTable, makeNodeButton, playerName } from "./simulation_panel.js";

const MOST_DISAGREEMENTS = 10;

export function makeCostMeter(recording, position) {
  const [spent, total] = [costAt(recording, position), costAt(recording, recording.steps.length)];
  if (spent === null) return makeElement("p", { class: "dv-note" }, "The cost of this search in network blocks is not known, because of its rollouts.");
  return makeElement("div", { class: "dv-cost", title: TERM_HELP.blocks },
    makeElement("span", {}, "Cost: ", makeNumber(spent, formatCount, "blocks"), " of ", makeNumber(total, formatCount, "blocks-total"), " network blocks "),
    makeElement("progress", { max: total || 1, value: spent, "aria-label": "network blocks spent" }));
}

// One row per tree; `other` is the replay of the comparison, already at the same cost, or null.
export function makeStandings(replay, other) {
  const rows = replay.recording.trees.map((_, tree) => makeStandingRow(replay, tree, treeName(replay.recording, tree)));
  if (other) rows.push(makeStandingRow(other, 0, `${otherName(other)}, same cost`));
  const headers = ["tree", ["simulations", "Simulations of this tree so far"], "most visited move",
    ["its share of N", "Visits of the move divided by those of all moves of the root"],
    ["its Q", TERM_HELP.Q],
    ["in front since", "The step since which this move has the most visits"]];
  return makeTable("The most visited move of each tree so far", headers, rows);
}

export function otherName(other) {
  return other.recording.variant === "alphazero" ? "AlphaZero" : other.recording.variant;
}

function makeStandingRow(replay, tree, name) {
  const { recording, position } = replay;
  const leader = replay.leaders[tree][position];
  const cells = [makeElement("th", { scope: "row" }, name),
    makeNumber(countSimulations(replay, tree), formatCount, "simulations", "td")];
  if (leader.node < 0) return makeElement("tr", { "data-tree": tree }, ...cells, ...Array.from({ length: 4 }, () => makeElement("td", {}, "–")));
  const total = replay.children[0].reduce((sum, node) => sum + replay.visits[tree][node], 0);
  return makeElement("tr", { "data-tree": tree, "data-node": leader.node }, ...cells,
    makeElement("td", {}, moveLine(recording, leader.node)),
    makeNumber(replay.visits[tree][leader.node] / total, formatShare, "share", "td"),
    makeNumber(edgeValue(replay, tree, leader.node), formatValue, "q", "td"),
    makeElement("td", {}, leader.since ? `step ${leader.since}` : "start"));
}

// A refinement counts as one simulation of its tree for each node that it takes over.
function countSimulations(replay, tree) {
  let count = 0;
  for (const step of replay.recording.steps.slice(0, replay.position)) {
    if (step.tree === tree) count += step.kind === "refinement" ? step.nodes.length : 1;
  }
  return count;
}

// The nodes on which the heads differ most, among those that both have evaluated so far.
export function makeDisagreements(replay, select) {
  const rows = replay.outputs.flatMap((list, node) => list
    .filter((output) => output.mixed && output.position <= replay.position)
    .map((output) => ({ node, ...output })));
  rows.sort((a, b) => (b.distance ?? 0) - (a.distance ?? 0) || a.node - b.node);
  if (!rows.length) return makeElement("p", { class: "dv-note" }, "No node has been evaluated by both heads yet.");
  return makeLongTable("Where the heads disagree most", ["node", ["V before", TERM_HELP.V], ["V of the later head", TERM_HELP.V], ["distance", TERM_HELP.distance]],
    rows.slice(0, MOST_DISAGREEMENTS).map((row) => makeElement("tr", { "data-node": row.node },
      makeElement("th", { scope: "row" }, makeNodeButton(replay.recording, row.node, select)),
      makeNumber(row.before.value, formatValue, "before-value", "td"),
      makeNumber(row.value, formatValue, "head-value", "td"),
      makeNumber(row.distance, formatShare, "distance", "td"))));
}

export function describeResult(recording) {
  const { result } = recording;
  const root = recording.nodes[0];
  const place = root.legal.indexOf(result.action);
  const move = place < 0 ? `action ${result.action}` : root.names[place];
  return makeElement("p", {}, "At its end the search plays ", makeElement("b", {}, move), ", with weight ",
    makeNumber(result.weights[place], formatShare, "result-weight"), " in its policy, value ", makeNumber(result.value, formatValue, "result-value"), ` for ${playerName(recording, root.side)}, who moves.`);
}
