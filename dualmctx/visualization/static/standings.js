// Cost so far and the most visited move of each tree, beside AlphaZero's tree at the same cost.

import { make } from "/shared/dom.js";
import { NONE } from "/shared/text.js";
import { TERM_HELP } from "./help.js";
import { costAt, edgeValue, mostVisited, moveLine, playerName, treeName } from "./replay.js";
import { moveName } from "./step_panels.js";
import { formatCount, formatShare, formatValue, makeNumber, makeTable, nameColumn, numberColumn, textColumn } from "./tables.js";

export function makeCostMeter(recording, position) {
  const [spent, total] = [costAt(recording, position), costAt(recording, recording.steps.length)];
  if (spent === null) return make("p", { class: "dv-note" }, "The cost of this search in network blocks is not known, because of its rollouts.");
  return make("div", { class: "dv-cost", title: TERM_HELP.blocks },
    make("span", {}, "Cost: ", makeNumber(spent, formatCount, "blocks"), " of ", makeNumber(total, formatCount, "blocks-total"), " network blocks "),
    make("progress", { max: total || 1, value: spent, "aria-label": "network blocks spent" }));
}

// One row per tree; `other` is the replay of the comparison, already at the same cost, or null.
export function makeStandings(replay, other) {
  const rows = replay.recording.trees.map((_, tree) => describeStanding(replay, tree, treeName(replay.recording, tree)));
  if (other) rows.push(describeStanding(other, 0, `${otherName(other)}, same cost`));
  const ofLeader = (column) => ({ ...column, cell: (row) => (row.node < 0 ? make("td", {}, NONE) : column.cell(row)) });
  const columns = [
    nameColumn("tree", ({ name }) => name),
    numberColumn("simulations", "Simulations of this tree so far", "simulations", formatCount, ({ simulations }) => simulations),
    ...[
      textColumn("most visited move", ({ recording, node }) => moveLine(recording, node), { isText: false }),
      numberColumn("its share of N", "Visits of the move divided by those of all moves of the root", "share", formatShare, ({ share }) => share),
      numberColumn("its Q", TERM_HELP.Q, "q", formatValue, ({ q }) => q),
    ].map(ofLeader),
  ];
  return makeTable("The most visited move of each tree so far", columns, rows,
    ({ tree, node }) => ({ "data-tree": tree, "data-node": node < 0 ? null : node }));
}

export function otherName(other) {
  return other.recording.variant === "alphazero" ? "AlphaZero" : other.recording.variant;
}

function describeStanding(replay, tree, name) {
  const { recording, position } = replay;
  const visits = replay.visits[tree];
  const node = mostVisited(replay.children[0], visits);
  const total = replay.children[0].reduce((sum, child) => sum + visits[child], 0);
  // A refinement counts as one simulation of its tree for each node that it takes over.
  const steps = recording.steps.slice(0, position).filter((step) => step.tree === tree);
  const simulations = steps.reduce((sum, step) => sum + (step.kind === "refinement" ? step.nodes.length : 1), 0);
  return { recording, tree, name, simulations, node, share: visits[node] / total, q: node < 0 ? null : edgeValue(replay, tree, node) };
}

export function describeResult(recording) {
  const { result, nodes: [root] } = recording;
  const weight = result.weights[root.legal.indexOf(result.action)];
  return make("p", {}, "At its end the search plays ", make("b", {}, moveName(root, result.action)), ", with weight ",
    makeNumber(weight, formatShare, "result-weight"), " in its policy, value ", makeNumber(result.value, formatValue, "result-value"),
    ` for ${playerName(recording, root.side)}, who moves.`);
}
