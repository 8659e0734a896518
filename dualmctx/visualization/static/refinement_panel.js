// The tables of a refinement: the nodes that a later tree takes over, and the mixing of two heads.

import { makeValueBar } from "./bars.js";
import { formatCount, formatShare, formatValue, isNumber, makeElement, makeNumber, makeTable } from "./elements.js";
import { TERM_HELP } from "./help.js";
import { headName, moveLine, treeName } from "./replay.js";
import { makeLongTable, makeNodeButton, moveName } from "./simulation_panel.js";

export function describeFrontier(recording, step) {
  const count = step.nodes.length;
  const waiting = step.num_waiting === undefined ? "" : ` of ${step.num_waiting}`;
  const nodes = `${count}${waiting} ${count === 1 && !waiting ? "node" : "nodes"}`;
  return `The ${treeName(recording, step.tree)} takes over ${nodes} that it has not evaluated yet (◆): `
    + `those through which most simulations of the ${treeName(recording, step.tree - 1)} have passed.`;
}

// The frontier in the order of priority.
export function makeFrontierTable(recording, step, select) {
  const rows = step.candidates.map((candidate, rank) => makeElement("tr", { class: candidate.chosen ? "dv-chosen" : false, "data-node": candidate.node },
    makeElement("td", {}, String(rank + 1)),
    makeElement("td", {}, candidate.chosen ? "◆ taken over" : "waits"),
    makeElement("th", { scope: "row" }, makeNodeButton(recording, candidate.node, select)),
    makeNumber(candidate.passes, formatCount, "passes", "td")));
  return makeLongTable("Frontier, by passes", ["rank", "", "node", ["passes", TERM_HELP.passes]], rows);
}

export function describeMixing(recording, step) {
  const head = headName(recording, step.head ?? recording.tree_heads[step.tree]);
  return `The ${head} head evaluates these nodes. Its value and prior are mixed with those before${describeWeights(recording.options)}. The nodes on which the heads disagree most come first. Where the game is over, only its result counts.`;
}

// The weights of the outputs before; the head has the rest. Empty if the options do not have them.
function describeWeights(options) {
  const [value, prior] = [options?.value_mix, options?.prior_mix];
  return isNumber(value) && isNumber(prior) ? `, which have the weight ${value} for values and ${prior} for priors` : "";
}

// Values and priors before, from the head, and after mixing.
export function makeMixingTables(recording, step, select) {
  const ranked = [...step.nodes].sort((a, b) => (b.distance ?? 0) - (a.distance ?? 0) || a.node - b.node);
  const rows = ranked.map((row) => makeElement("tr", { "data-node": row.node },
    makeElement("th", { scope: "row" }, makeNodeButton(recording, row.node, select)),
    ...["before", "head", "after"].map((name) => makeNumber(row[name]?.value, formatValue, `${name}-value`, "td")),
    makeElement("td", {}, makeValueBar(row.after?.value)),
    makeNumber(row.distance, formatShare, "distance", "td")));
  const headers = ["node", ["V before", TERM_HELP.V], "V of the head", "V mixed", "bar", ["distance", TERM_HELP.distance]];
  return makeElement("div", {}, makeLongTable("Values before and after mixing", headers, rows),
    makeElement("h4", {}, "Priors before and after mixing"), ...ranked.map((row, i) => makePriorDetails(recording, row, i === 0)));
}

function makePriorDetails(recording, row, isOpen) {
  const node = recording.nodes[row.node];
  const rows = node.legal.map((action, place) => makeElement("tr", { "data-action": action },
    makeElement("th", { scope: "row" }, moveName(node, action)),
    ...["before", "head", "after"].map((name) => makeNumber(row[name]?.prior?.[place], formatShare, `${name}-prior`, "td"))));
  return makeElement("details", { open: isOpen, "data-node": row.node },
    makeElement("summary", {}, moveLine(recording, row.node)),
    makeTable(`Priors at ${moveLine(recording, row.node)}`, ["move", ["P before", TERM_HELP.P], "P of the head", "P mixed"], rows));
}

export function describeUpdate(recording, step) {
  const trees = [...new Set(step.changes.map((change) => change.tree))].map((tree) => treeName(recording, tree));
  const earlier = step.tree > 1 ? "the earlier trees" : `the ${treeName(recording, 0)}`;
  return `In the ${treeName(recording, step.tree)}, each mixed value counts as one visit of its node and of the nodes above. `
    + `In ${earlier}, visits stay, and the means are corrected by the difference between the mixed value and the value before. `
    + `Changed: ${trees.join(", ") || "none"}.`;
}
