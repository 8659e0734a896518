// The sentences and tables of a refinement: the nodes that a later tree takes over, and the mixing of two heads.

import { make } from "/shared/dom.js";
import { isNumber } from "/shared/text.js";
import { TERM_HELP } from "./help.js";
import { headName, moveLine, treeName } from "./replay.js";
import { makeChangeTable, makeSentence, moveName, nodeColumn } from "./simulation_panel.js";
import { formatCount, formatShare, formatValue, makeTable, makeValueBar, nameColumn, numberColumn, textColumn } from "./tables.js";

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
  const head = headName(recording, step.head ?? recording.tree_heads[step.tree]);
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
