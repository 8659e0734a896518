// The statistics of all trees of a recording after any number of steps.

import { labelTree, withoutLetters } from "/shared/text.js";

// Returns a replay at position 0, the roots alone. Position k is the state after the steps 0 … k − 1.
//
// visits, values: of each tree, the numbers of all nodes at the position; children: of each node;
// outputs: see `listOutputs`; finalVisits: of each node in all trees at the end, the order in which
// large trees are pruned.
export function makeReplay(recording) {
  const { nodes, steps } = recording;
  const numbers = () => recording.trees.map(() => new Float64Array(nodes.length));
  const replay = { recording, position: steps.length, visits: numbers(), values: numbers(), children: listChildren(nodes),
    outputs: listOutputs(recording) };
  const { visits, values } = replay;
  recording.root.trees.forEach((row, tree) => {
    visits[tree][0] = row.visits;
    values[tree][0] = row.value;
  });
  // The first change of a node has the numbers before it.
  seekReplay(replay, 0);
  seekReplay(replay, steps.length);
  replay.finalVisits = nodes.map((_, node) => visits.reduce((sum, row) => sum + row[node], 0));
  seekReplay(replay, 0);
  return replay;
}

function listChildren(nodes) {
  const children = nodes.map(() => []);
  for (const node of nodes) if (node.parent >= 0) children[node.parent].push(node.index);
  for (const list of children) list.sort((a, b) => nodes[a].action - nodes[b].action);
  return children;
}

// Moves the replay to a position, forward or back.
export function seekReplay(replay, position) {
  const steps = replay.recording.steps;
  while (replay.position < position) applyChanges(replay, steps[replay.position++].changes, 1);
  while (replay.position > position) applyChanges(replay, [...steps[--replay.position].changes].reverse(), 0);
}

function applyChanges({ visits, values }, changes, side) {
  for (const change of changes) {
    visits[change.tree][change.node] = change.visits[side];
    values[change.tree][change.node] = change.value[side];
  }
}

// Returns the node with the most visits, the first of equal ones; -1 without visits.
export function mostVisited(nodes, visits) {
  let best = -1;
  for (const node of nodes) if (visits[node] > (best < 0 ? 0 : visits[best])) best = node;
  return best;
}

// For each node whose game is not over, the outputs of the heads: {position, head, value, prior, mixed}, in order.
function listOutputs(recording) {
  const outputs = recording.nodes.map(() => []);
  recording.steps.forEach((step, number) => {
    const position = number + 1;
    if (step.kind === "simulation" && step.evaluation) {
      outputs[step.leaf.node].push({ position, ...step.evaluation, mixed: null });
    }
    const rows = step.kind === "refinement" ? step.nodes : [];
    for (const row of rows.filter(({ node }) => !recording.nodes[node].is_terminal)) {
      outputs[row.node].push({ position, head: step.head, ...row.head, mixed: row.after });
    }
  });
  return outputs;
}

// The candidates of a choice as rows; a recording has columns, and a column per part for the addends.
export function listCandidates({ candidates }) {
  const { action, addends, ...columns } = candidates;
  return action.map((number, i) => ({
    action: number,
    addends: addends.map((column) => column[i]),
    ...Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[i]])),
  }));
}

export function headName(recording, head) {
  return recording.heads.at(head);
}

export function treeName(recording, tree) {
  return labelTree(recording.trees[tree]);
}

export function playerName(recording, side) {
  return withoutLetters(recording.players[side]);
}

// A value in the view of the player who made the move to the node: the negative if the side changed.
export function viewOfMover(recording, node, value) {
  const parent = recording.nodes[node.parent];
  return parent && parent.side !== node.side ? -value : value;
}

// The mean value of a node in the view of the player to move. Where the game is over, the tree keeps 0
// and the result counts on the edge into the node; the value is then the result.
export function nodeValue(recording, index, value) {
  const node = recording.nodes[index];
  return node.is_terminal ? viewOfMover(recording, node, node.reward) : value;
}

// Q of the edge into a node, or null without visits.
export function edgeValue(replay, tree, index) {
  const node = replay.recording.nodes[index];
  if (!(replay.visits[tree][index] > 0)) return null;
  return node.parent < 0 ? replay.values[tree][index] : rewardedView(replay.recording, index, replay.values[tree][index]);
}

// The reward of the move to a node and a mean below it, in the view of the player who moved.
export function rewardedView(recording, index, value) {
  const node = recording.nodes[index];
  return node.is_terminal ? node.reward : node.reward + viewOfMover(recording, node, value);
}

// The moves from the root to a node, as text.
export function moveLine(recording, index) {
  const names = [];
  for (let node = recording.nodes[index]; node.parent >= 0; node = recording.nodes[node.parent]) names.unshift(node.move);
  return names.length ? names.join(" ") : "root";
}

// The number of steps of another recording that cost at most so many blocks (null: not known).
export function positionAtCost(recording, blocks) {
  if (blocks === null) return recording.steps.length;
  const count = recording.steps.findIndex((step) => step.blocks > blocks);
  return count < 0 ? recording.steps.length : count;
}

export function costAt(recording, position) {
  return position > 0 ? recording.steps[position - 1].blocks : recording.steps[0]?.blocks === null ? null : 0;
}
