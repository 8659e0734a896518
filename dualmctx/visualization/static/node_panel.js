// The details of one node: its position, its numbers in each tree, and the outputs of the heads for it.

import { make } from "/shared/dom.js";
import { drawBoard, shapeOf } from "/shared/draw_board.js";
import { TERM_HELP } from "./help.js";
import { edgeValue, headName, moveLine, nodeValue, playerName } from "./replay.js";
import { makePriorTable } from "./step_panels.js";
import { formatCount, formatExact, formatValue, makeNumber, makeTable, nameColumn, numberColumn } from "./tables.js";

// Returns the content of the panel for a node at the replay's position. `seen` counts the steps whose
// network outputs are shown, which is one more while a step is under way.
export function makeNodeDetails(replay, index, seen) {
  const { recording } = replay;
  const node = recording.nodes[index];
  const outputs = [...(index === 0 ? rootOutputs(recording) : []), ...replay.outputs[index].filter(({ position }) => position <= seen)];
  const board = node.picture && drawBoard({ picture: node.picture, shape: shapeOf(recording.game) }, recording.game).svg;
  return [
    make("h3", {}, moveLine(recording, index)),
    make("p", { class: "dv-note" }, describeNodeState(recording, node)),
    make("div", { class: "dv-node-parts" }, board, make("div", {},
      makeTreeNumbers(replay, index), makeResult(recording, node), outputs.map((output) => makeOutputLine(recording, output)))),
    makePriors(recording, node, outputs),
  ];
}

function describeNodeState(recording, node) {
  const created = node.parent < 0 ? "The root" : `Node ${node.index}, created in step ${node.step + 1}`;
  const end = node.is_terminal ? "; the game is over here." : `; ${playerName(recording, node.side)} is to move.`;
  return `${created}, depth ${node.depth}${end}`;
}

function makeTreeNumbers(replay, index) {
  const { recording, visits, values } = replay;
  const valueOf = (tree) => (visits[tree][index] > 0 ? nodeValue(recording, index, values[tree][index]) : null);
  const columns = [
    nameColumn("tree", (tree) => recording.trees[tree]),
    numberColumn("N", TERM_HELP.N, "visits", formatCount, (tree) => visits[tree][index]),
    numberColumn("V", TERM_HELP.V, "value", formatValue, valueOf),
    numberColumn("Q", TERM_HELP.Q, "q", formatValue, (tree) => (index ? edgeValue(replay, tree, index) : null)),
  ];
  return makeTable("Numbers of the node", columns, [...recording.trees.keys()], (tree) => ({ "data-tree": tree }));
}

// The exact value, and the result where the game is over.
function makeResult(recording, node) {
  const { exact, reward } = node;
  const word = exact > 0 ? "win" : exact < 0 ? "loss" : "draw";
  return [
    (exact ?? null) !== null && make("p", {}, "Exact value: ", makeNumber(exact, formatExact, "exact"),
      ` (${word} for ${playerName(recording, node.side)})`),
    node.is_terminal && make("p", {}, "Result of the game for ", playerName(recording, recording.nodes[node.parent].side),
      ", who made the last move: ", makeNumber(reward, formatValue, "reward")),
  ];
}

function makeOutputLine(recording, output) {
  const mixed = output.mixed ? [", mixed ", makeNumber(output.mixed.value, formatValue, "mixed-value")] : [];
  return make("p", { title: TERM_HELP.V }, `${headName(recording, output.head)} head: V `,
    makeNumber(output.value, formatValue, "head-value"), mixed);
}

// The outputs of the heads for the root, which is evaluated before the first step.
function rootOutputs({ root }) {
  return root.heads.map((row, head) => ({ position: 0, mixed: null, head, ...row }));
}

// The prior of the root, and the one with noise if the search had any.
function rootPriors(root) {
  const hasNoise = root.noisy_prior.some((share, i) => share !== root.prior[i]);
  return [["P used", root.prior], ...(hasNoise ? [["P with noise", root.noisy_prior]] : [])];
}

function makePriors(recording, node, outputs) {
  const columns = outputs.filter((output) => output.prior).flatMap((output) => [
    [`P ${headName(recording, output.head)}`, output.prior], ...(output.mixed ? [["P mixed", output.mixed.prior]] : [])]);
  if (node.parent < 0) columns.push(...rootPriors(recording.root));
  return columns.length && node.legal.length ? makePriorTable("Priors of the heads", node, columns) : null;
}
