// The value of the search, and the exact result, over the game, drawn as SVG.

import { make, makeSvg } from "/shared/dom.js";
import { MARKS, formatExact, formatValue } from "./analysis_text.js";

const [WIDTH, HEIGHT] = [480, 190];
// Room for the point of the first position beside the axis.
const INDENT = 12;
// The signs of the marks have a line of their own, above the curve.
const [LEFT, RIGHT, TOP, BOTTOM] = [34, 10, 30, 22];
const SIGNS = 9;

// Returns { element, update(rows, ply, players) }.
//
// rows: of the review, for positions 0, 1, …; ply: the position that is shown.
// onChoose: called with the ply of a point that the user chooses.
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
    figure.querySelectorAll(".curve-point").forEach((point) => {
      const isShown = Number(point.dataset.ply) === ply;
      point.setAttribute("tabindex", isShown || (ply >= rows.length && point.dataset.ply === "0") ? "0" : "-1");
      point.classList.toggle("now", isShown);
      if (isShown) point.setAttribute("aria-current", "true");
      else point.removeAttribute("aria-current");
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
export function exactOf(row) {
  if (row.exact === null) return null;
  return row.side === 0 ? row.exact.value : -row.exact.value;
}

const xOf = (ply, count) => LEFT + INDENT + ((WIDTH - LEFT - RIGHT - INDENT) * ply) / Math.max(1, count - 1);
const yOf = (value) => TOP + ((HEIGHT - TOP - BOTTOM) * (1 - value)) / 2;

function drawAxes(count) {
  const lines = [1, 0, -1].flatMap((value) => [
    makeSvg("line", { class: "curve-grid", x1: LEFT, x2: WIDTH - RIGHT, y1: yOf(value), y2: yOf(value) }),
    makeSvg("text", { class: "curve-label", x: LEFT - 6, y: yOf(value), "text-anchor": "end" }, ["−1", "0", "+1"][value + 1]),
  ]);
  const step = Math.max(1, Math.ceil((count - 1) / 10));
  const plies = Array.from({ length: count }, (_, ply) => ply).filter((ply) => ply % step === 0);
  const numbers = plies.map((ply) => makeSvg("text", {
    class: "curve-label", x: xOf(ply, count), y: HEIGHT - 6, "text-anchor": "middle",
  }, String(ply)));
  return [...lines, ...numbers];
}

// Returns the line through all known values; it is interrupted where a value is unknown.
function drawPath(rows, read, name) {
  let isInterrupted = true;
  const parts = rows.map((row) => {
    const value = read(row);
    if (value === null) {
      isInterrupted = true;
      return "";
    }
    const part = `${isInterrupted ? "M" : "L"}${xOf(row.ply, rows.length).toFixed(1)} ${yOf(value).toFixed(1)}`;
    isInterrupted = false;
    return part;
  });
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
  mark ? makeSvg("text", { class: "curve-mark", x, y: SIGNS, "text-anchor": "middle" }, mark.sign) : null);
}

// Returns the sentence on a position that the pointer and a screen reader show.
export function describePoint(row, players) {
  const parts = [`Position ${row.ply}: value ${formatValue(row.value_first)} for ${players[0]}`];
  if (row.exact !== null) parts.push(`exact: ${formatExact(exactOf(row))}`);
  if (row.is_over) parts.push("the game is over");
  if (row.played !== null) parts.push(describeMove(row, players));
  return `${parts.join("; ")}.`;
}

// Returns a text such as "X plays b2, blunder: loses 1.20 against a3".
export function describeMove(row, players) {
  const text = `${players[row.side]} plays ${row.played}`;
  if (row.mark === null) return text;
  return `${text}, ${MARKS[row.mark].text}: ${describeLoss(row)}`;
}

function describeLoss(row) {
  if (row.exact === null) return `loses ${row.loss.toFixed(2)} against ${row.best}`;
  const { value, played_value: played, best } = row.exact;
  return `turns a ${formatExact(value)} into a ${formatExact(played)}; best: ${best.join(", ")}`;
}
