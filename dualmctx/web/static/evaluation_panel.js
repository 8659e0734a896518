// The value of the position: by the search, by each tree and each head, and exactly.

import { make } from "/shared/dom.js";
import { capitalize, labelTree } from "/shared/text.js";
import { describeKept, disagrees, formatCount, formatExact, formatShare, formatValue } from "./analysis_text.js";

// Returns { element, update({ analysis, exact, side, opened, speed, maximum, status }) }.
export function makeEvaluationPanel() {
  const status = make("p", { class: "analysis-status" });
  const value = make("p");
  const list = make("dl", { class: "analysis-values" });
  const warning = make("p", { class: "disagreement" });
  const element = make("section", { "aria-label": "Value of the position" },
    status, value, list, warning);

  function update(shown) {
    const { analysis, side, opened } = shown;
    status.textContent = describeStatus(shown);
    value.replaceChildren(...(analysis && opened ? [
      make("strong", { class: "value-number", "data-value": String(analysis.value) }, formatValue(analysis.value)),
      ` for ${opened.players[side]}, who moves (−1 loss, +1 win)`,
    ] : []));
    list.replaceChildren(...(opened ? describeParts(shown) : []).flatMap(([name, text, number]) => [
      make("dt", {}, name), make("dd", { "data-value": String(number) }, text)]));
    warning.textContent = findDisagreements(shown).map((text) => `≠ ${text}`).join(" ");
    warning.hidden = !warning.textContent;
  }

  return { element, update };
}

// A search runs in whole steps, and may begin with simulations that were kept, so it can have more
// simulations than the maximum.
export function describeStatus({ analysis, speed, maximum, status }) {
  if (!analysis) return status;
  const { simulations: done, reused } = analysis;
  const most = formatCount(maximum);
  const reason = reused >= maximum ? `more than the maximum of ${most}` : `the maximum of ${most} in whole steps`;
  const count = done <= maximum ? `${formatCount(done)} of ${most} simulations` : `${formatCount(done)} simulations (${reason})`;
  return `${count}${describeKept(analysis)}${speed === null ? "" : `, ${formatCount(speed)} per second`}. ${status}`;
}

// Returns rows of a name, a text and a number: values of the trees, the heads, and exactly.
function describeParts({ analysis, exact, side, opened }) {
  const rows = [];
  const add = (names, numbers) => names.forEach((name, i) => rows.push([capitalize(name), formatValue(numbers[i]), numbers[i]]));
  if (analysis) {
    const { trees, heads } = analysis;
    if (trees.length > 1) add(trees.map(labelTree), analysis.tree_values);
    add(opened.heads.map((name) => `${name} head`), heads.value);
    if (heads.value.length > 1) rows.push(["Heads", describeHeads(heads), heads.distance]);
  }
  if (exact) rows.push(["Exact", `${formatExact(exact.value)} for ${opened.players[side]}`, exact.value]);
  return rows;
}

function describeHeads({ agree, distance }) {
  const text = `${agree ? "agree" : "disagree"} on the most probable move`;
  return distance === null ? text : `${text}; policies differ by ${formatShare(distance)}`;
}

// Returns sentences on where the search contradicts the exact values.
function findDisagreements({ analysis, exact }) {
  if (!analysis || !exact || exact.value === null) return [];
  const texts = [];
  const selected = analysis.line[0];
  const its = exact.moves[selected];
  if (its !== undefined && its !== exact.value) {
    const best = Object.keys(exact.moves).filter((name) => exact.moves[name] === exact.value);
    texts.push(`The search selects ${selected}, a ${formatExact(its)}; exactly best: ${best.join(", ")}.`);
  }
  if (disagrees(analysis.value, exact.value)) {
    texts.push(`The value ${formatValue(analysis.value)} is nearer to another result than the exact ${formatExact(exact.value)}.`);
  }
  return texts;
}
