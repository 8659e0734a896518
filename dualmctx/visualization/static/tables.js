// Numbers, tables and small bars of the viewer.

import { make, makeButton, makeSvg } from "/shared/dom.js";
import { NONE, formatSigned, isNumber } from "/shared/text.js";

// A value in [-1, 1] or a score, with a sign and three digits.
export function formatValue(value) {
  return value === 0 ? "0" : formatSigned(value, 3);
}

// The same for the boxes of a tree, with two digits.
export function formatShort(value) {
  return value === 0 ? "0" : formatSigned(value, 2);
}

// An exact value, without the digits of a whole number.
export function formatExact(value) {
  return Number.isInteger(value) ? formatSigned(value, 0) : formatValue(value);
}

// A probability with three digits.
export function formatShare(value) {
  return isNumber(value) ? value.toFixed(3) : NONE;
}

// A count; fractions (virtual or weighted visits) have two digits.
export function formatCount(value) {
  if (!isNumber(value)) return NONE;
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

// A rounded number. The attributes hold the full one: `data-value`, `title`, and `data-field`, its name.
export function makeNumber(value, format, field, tag = "span") {
  const full = String(value ?? "");
  return make(tag, { "data-value": full, "data-field": field, title: full || false }, format(value));
}

// Returns a column of numbers; `read` returns the number of a row.
export function numberColumn(title, help, field, format, read) {
  return { title, help, cell: (row) => makeNumber(read(row), format, field, "td") };
}

// Returns a column of texts or elements. `more.isText`: whether its title is on the left.
export function textColumn(title, read, more = {}) {
  return { title, isText: true, cell: (row) => make("td", {}, read(row)), ...more };
}

// Returns the column that names its row.
export function nameColumn(title, read) {
  return { title, isText: true, cell: (row) => make("th", { scope: "row" }, read(row)) };
}

const ROWS_AT_FIRST = 12;

// A table with a caption for screen readers, of which the first rows are shown, with a button for the rest.
//
// columns: of the functions above, or nothing for a column that is left out.
// describe(row): the attributes of a row; those of the class "dv-chosen" are always shown.
export function makeTable(caption, columns, rows, describe = () => ({})) {
  const present = columns.filter(Boolean);
  const head = present.map(({ title, help, isText }) => make("th", { scope: "col", title: help, class: isText && "dv-text" }, title));
  const lines = rows.map((row) => make("tr", describe(row), present.map(({ cell }) => cell(row))));
  const table = make("div", { class: "dv-scroll", tabindex: "0", role: "group", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, head)), make("tbody", {}, lines)));
  const rest = lines.filter((line, i) => i >= ROWS_AT_FIRST && !line.classList.contains("dv-chosen"));
  if (rest.length < 2) return table;
  const show = (isShown) => rest.forEach((line) => line.toggleAttribute("hidden", !isShown));
  show(false);
  const button = makeButton(`Show ${rest.length} more rows`, () => { show(true); button.remove(); }, { class: "dv-rest" });
  table.append(button);
  return table;
}

// The numbers are in the text; the bars are hidden from screen readers.
const BAR_WIDTH = 96;
const BAR_HEIGHT = 12;

// A bar for a share in [0, 1].
export function makeShareBar(share) {
  const width = BAR_WIDTH * Math.min(1, Math.max(0, share || 0));
  return makeBar(makeSvg("rect", { class: "dv-bar", y: 2, width, height: 8 }));
}

// A bar to the left or right of the middle, for a value in [-1, 1].
export function makeValueBar(value) {
  const size = isNumber(value) ? Math.min(1, Math.abs(value)) * BAR_WIDTH / 2 : 0;
  const x = value < 0 ? BAR_WIDTH / 2 - size : BAR_WIDTH / 2;
  return makeBar(makeSvg("rect", { class: `dv-bar ${value < 0 ? "dv-bad" : "dv-good"}`, x, y: 2, width: size, height: 8 }),
    makeSvg("path", { class: "dv-axis", d: `M${BAR_WIDTH / 2} 0V${BAR_HEIGHT}` }));
}

// The addends of a score, one after the other from zero: the first is solid, the others outlined.
export function makeScoreBar(addends, [low, high]) {
  const scale = BAR_WIDTH / (high - low || 1);
  const parts = listSpans(addends).map(([from, to], i) => makeSvg("rect", {
    class: i ? "dv-bar dv-bar-open" : "dv-bar", x: (Math.min(from, to) - low) * scale, y: i ? 3 : 1,
    width: Math.abs(to - from) * scale, height: i ? 6 : 10,
  }));
  return makeBar(...parts, makeSvg("path", { class: "dv-axis", d: `M${-low * scale} 0V${BAR_HEIGHT}` }));
}

// The range of the partial sums of all candidates, with zero.
export function rangeOfScores(candidates) {
  const sums = candidates.flatMap(({ addends }) => listSpans(addends).map(([, to]) => to));
  return [Math.min(0, ...sums), Math.max(0, ...sums)];
}

// The partial sums before and after each addend.
function listSpans(addends) {
  let sum = 0;
  return addends.filter(isNumber).map((addend) => [sum, sum += addend]);
}

function makeBar(...children) {
  return makeSvg("svg", { class: "dv-bar-box", width: BAR_WIDTH, height: BAR_HEIGHT, "aria-hidden": "true" }, ...children);
}
