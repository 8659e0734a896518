// The value of the search, and the exact result, over the game, drawn as SVG.

import { make, makeSvg } from "/shared/dom.js";
import { MARKS, formatExact, formatValue } from "./analysis_text.js";

const [WIDTH, HEIGHT] = [480, 190];
// Room for the point of the first position beside the axis.
const INDENT = 12;
// The signs of the marks have a line of their own, above the curve.
const [LEFT, RIGHT, TOP, BOTTOM] = [34, 10, 30, 22];
const SIGNS = 9;

// Returns { element, update(rows, ply, players) }. The rows are those of the review. `onChoose` is called
// with the ply of a point that the user chooses.
//
// One point at a time is reached by the Tab key: the one of the shown position. The arrow keys step
// through the game, and the focus follows.
export function makeCurve({ onChoose }) {
  const figure = makeSvg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curve", role: "group" });
  const caption = make("figcaption");
  const element = make("figure", { class: "curve-frame", hidden: true }, figure, caption);
  let drawn = null;

  function update(rows, ply, players) {
    element.hidden = rows.length === 0;
    if (rows.length === 0) return;
    if (drawn !== rows) draw(rows, players);
    const hadFocus = figure.contains(document.activeElement);
    figure.querySelectorAll(".curve-point").forEach((point, place) => {
      const isShown = place === ply;
      point.setAttribute("tabindex", isShown || (ply >= rows.length && place === 0) ? "0" : "-1");
      point.classList.toggle("now", isShown);
      point.setAttribute("aria-current", String(isShown));
      if (isShown && hadFocus) point.focus({ preventScroll: true });
    });
  }

  function draw(rows, players) {
    drawn = rows;
    const hasExact = rows.some((row) => row.exact !== null);
    figure.setAttribute("aria-label", `Value over the game in the view of ${players[0]}`);
    figure.replaceChildren(
      ...drawAxes(rows.length),
      drawPath(rows, (row) => row.value_first, "curve-value"),
      hasExact ? drawPath(rows, exactOf, "curve-exact") : "",
      ...rows.map((row) => drawPoint(row, rows.length, players, onChoose)));
    caption.textContent = `+1: ${players[0]} wins, −1: ${players[1]} wins. Solid: search.`
      + `${hasExact ? " Dashed: exact." : ""} ?? blunder, ? mistake, ?! inaccuracy.`;
  }

  return { element, update };
}

// Returns the exact value in the view of the first side, or null.
function exactOf({ exact, side }) {
  if (exact === null) return null;
  return side === 0 ? exact.value : -exact.value;
}

const xOf = (ply, count) => LEFT + INDENT + ((WIDTH - LEFT - RIGHT - INDENT) * ply) / Math.max(1, count - 1);
const yOf = (value) => TOP + ((HEIGHT - TOP - BOTTOM) * (1 - value)) / 2;

function drawAxes(count) {
  const label = (x, y, anchor, text) => makeSvg("text", { class: "curve-label", x, y, "text-anchor": anchor }, text);
  const lines = [1, 0, -1].flatMap((value) => [
    makeSvg("line", { class: "curve-grid", x1: LEFT, x2: WIDTH - RIGHT, y1: yOf(value), y2: yOf(value) }),
    label(LEFT - 6, yOf(value), "end", ["−1", "0", "+1"][value + 1]),
  ]);
  const step = Math.max(1, Math.ceil((count - 1) / 10));
  const numbers = [];
  for (let ply = 0; ply < count; ply += step) numbers.push(label(xOf(ply, count), HEIGHT - 6, "middle", String(ply)));
  return [...lines, ...numbers];
}

// Returns the line through all known values; it is interrupted where a value is unknown.
function drawPath(rows, read, name) {
  const values = rows.map(read);
  const parts = values.map((value, i) => (value === null ? ""
    : `${(values[i - 1] ?? null) === null ? "M" : "L"}${xOf(i, rows.length).toFixed(1)} ${yOf(value).toFixed(1)}`));
  return makeSvg("path", { class: name, d: parts.join("") });
}

// Draws a position; the mark is that of the move played in it.
function drawPoint(row, count, players, onChoose) {
  const [x, y] = [xOf(row.ply, count), yOf(row.value_first ?? 0)];
  const mark = MARKS[row.mark];
  const choose = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onChoose(row.ply);
  };
  const label = describePoint(row, players);
  return makeSvg("g", {
    class: `curve-point ${row.mark ?? ""} ${row.value_first === null ? "unknown" : ""}`,
    role: "button", tabindex: -1, "data-ply": row.ply, "data-value": String(row.value_first),
    "aria-label": label, onclick: choose, onkeydown: choose,
  },
  makeSvg("title", {}, label),
  makeSvg("rect", { class: "curve-target", x: x - 8, y: TOP - 8, width: 16, height: HEIGHT - TOP - BOTTOM + 16 }),
  makeSvg("line", { class: "curve-cursor", x1: x, x2: x, y1: TOP - 6, y2: HEIGHT - BOTTOM + 6 }),
  mark
    ? makeSvg("path", { class: "curve-dot", d: `M${x} ${y - 6}l6 6l-6 6l-6 -6z` })
    : makeSvg("circle", { class: "curve-dot", cx: x, cy: y, r: 3.5 }),
  mark && makeSvg("text", { class: "curve-mark", x, y: SIGNS, "text-anchor": "middle" }, mark.sign));
}

// Returns the sentence on a position that the pointer and a screen reader show.
function describePoint(row, players) {
  const parts = [`Position ${row.ply}: value ${formatValue(row.value_first)} for ${players[0]}`];
  if (row.exact !== null) parts.push(`exact: ${formatExact(exactOf(row))}`);
  if (row.is_over) parts.push("the game is over");
  if (row.played !== null) parts.push(describeMove(row, players));
  return `${parts.join("; ")}.`;
}

// Returns a text such as "X plays b2, blunder: loses 1.20 against a3".
export function describeMove({ side, played, mark, exact, loss, best }, players) {
  const text = `${players[side]} plays ${played}`;
  if (mark === null) return text;
  const reason = exact === null ? `loses ${loss.toFixed(2)} against ${best}`
    : `turns a ${formatExact(exact.value)} into a ${formatExact(exact.played_value)}; best: ${exact.best.join(", ")}`;
  return `${text}, ${MARKS[mark].text}: ${reason}`;
}
