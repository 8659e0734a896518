// The details of one node: its position, its numbers in each tree, and the outputs of the heads for it.

import { drawBoard } from "./board.js";
import { formatCount, formatExact, formatValue, makeElement, makeNumber, makeTable } from "./elements.js";
import { TERM_HELP } from "./help.js";
import { edgeValue, headName, moveLine, nodeValue } from "./replay.js";
import { makePriorTable, playerName } from "./simulation_panel.js";

// Returns the content of the panel for a node at the replay's position. `seen` counts the steps whose
// network outputs are shown, which is one more while a step is under way.
export function makeNodeDetails(replay, index, seen) {
  const { recording } = replay;
  const node = recording.nodes[index];
  const outputs = [...rootOutputs(recording, index), ...replay.outputs[index].filter(({ position }) => position <= seen)];
  return [
    makeElement("h3", {}, moveLine(recording, index)),
    makeElement("p", { class: "dv-note" }, describeNodeState(recording, node)),
    makeElement("div", { class: "dv-node-parts" },
      node.picture ? drawBoard(node.picture) : null,
      makeElement("div", {}, makeTreeNumbers(replay, index), makeExact(recording, node), makeReward(recording, node), ...outputs.map((output) => makeOutputLine(recording, output)))),
    makePriors(recording, node, outputs),
  ];
}

function describeNodeState(recording, node) {
  const created = node.parent < 0 ? "The root" : `Node ${node.index}, created in step ${node.step + 1}`;
  const end = node.is_terminal ? "; the game is over here." : `; ${playerName(recording, node.side)} is to move.`;
  return `${created}, depth ${node.depth}${end}`;
}

function makeTreeNumbers(replay, index) {
  const { recording } = replay;
  const rows = recording.trees.map((name, tree) => {
    const visits = replay.visits[tree][index];
    return makeElement("tr", { "data-tree": tree },
      makeElement("th", { scope: "row" }, name),
      makeNumber(visits, formatCount, "visits", "td"),
      makeNumber(visits > 0 ? nodeValue(recording, index, replay.values[tree][index]) : null, formatValue, "value", "td"),
      makeNumber(index ? edgeValue(replay, tree, index) : null, formatValue, "q", "td"));
  });
  return makeTable("Numbers of the node", ["tree", ["N", TERM_HELP.N], ["V", TERM_HELP.V], ["Q", TERM_HELP.Q]], rows);
}

function makeExact(recording, node) {
  if (node.exact === null || node.exact === undefined) return null;
  const word = node.exact > 0 ? "win" : node.exact < 0 ? "loss" : "draw";
  return makeElement("p", {}, "Exact value: ", makeNumber(node.exact, formatExact, "exact"), ` (${word} for ${playerName(recording, node.side)})`);
}

function makeReward(recording, node) {
  if (!node.is_terminal) return null;
  return makeElement("p", {}, "Result of the game for ", playerName(recording, recording.nodes[node.parent].side), ", who made the last move: ",
    makeNumber(node.reward, formatValue, "reward"));
}

function makeOutputLine(recording, output) {
  const mixed = output.mixed ? [", mixed ", makeNumber(output.mixed.value, formatValue, "mixed-value")] : [];
  return makeElement("p", { title: TERM_HELP.V }, `${headName(recording, output.head)} head: V `,
    makeNumber(output.value, formatValue, "head-value"), ...mixed);
}

// The outputs of the heads for the root, which is evaluated before the first step.
function rootOutputs(recording, index) {
  const root = recording.root;
  if (index !== 0 || !root || !Array.isArray(root.heads)) return [];
  return root.heads.map((row, head) => ({ position: 0, mixed: null, head, ...row }));
}

// The prior of the root, and the one with noise if the search had any.
function rootPriors(root) {
  if (!root?.prior) return [];
  const hasNoise = root.noisy_prior && root.noisy_prior.some((share, i) => share !== root.prior[i]);
  return hasNoise ? [["P used", root.prior], ["P with noise", root.noisy_prior]] : [["P used", root.prior]];
}

function makePriors(recording, node, outputs) {
  const columns = outputs.filter((output) => output.prior).flatMap((output) => {
    const name = headName(recording, output.head);
    return output.mixed?.prior ? [[`P ${name}`, output.prior], ["P mixed", output.mixed.prior]] : [[`P ${name}`, output.prior]];
  });
  if (node.parent < 0) columns.push(...rootPriors(recording.root));
  if (!columns.length || !node.legal.length) return null;
  return makePriorTable("Priors of the heads", node, columns.map(([, prior]) => prior), columns.map(([name]) => name));
}

