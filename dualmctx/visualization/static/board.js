// Draws the picture of a position: a grid of cells, see `games.picture`.

import { makeSvg } from "./elements.js";

const CELL_SIZE = 40;
// The solid symbols for both sides, as text and not as coloured pictures.
const PIECE_SYMBOLS = Object.fromEntries([..."kqrbnp"].map((piece, i) => [piece, [..."♚♛♜♝♞♟"][i] + "\ufe0e"]));

// Returns an SVG element with a description in words.
export function drawBoard(picture) {
  const rows = picture.rows;
  const width = Math.max(1, ...rows.map((row) => row.length));
  const marked = new Set((picture.marked || []).map(([row, column]) => `${row},${column}`));
  const cells = rows.flatMap((row, y) => row.map((cell, x) => (cell === "" ? null
    : drawSquare(picture, cell, x, y, marked.has(`${y},${x}`)))));
  const labels = [
    ...picture.row_labels.map((text, y) => drawLabel(text, -CELL_SIZE / 4, (y + 0.5) * CELL_SIZE)),
    ...picture.column_labels.map((text, x) => drawLabel(text, (x + 0.5) * CELL_SIZE, (rows.length + 0.3) * CELL_SIZE)),
  ];
  const margin = labels.length ? CELL_SIZE / 2 : 2;
  const size = [width * CELL_SIZE + 2 * margin, rows.length * CELL_SIZE + 2 * margin];
  const attributes = { viewBox: `${-margin} ${-margin} ${size.join(" ")}`, class: "dv-board", role: "img",
    "aria-label": `${picture.caption}. ${describeRows(rows)}`, width: size[0] };
  return makeSvg("svg", attributes, cells, labels);
}

function describeRows(rows) {
  return rows.map((row) => row.join(" ")).join(" / ");
}

function drawSquare(picture, cell, x, y, isMarked) {
  const isDark = picture.is_chess && (picture.rows.length - y + x) % 2 === 1;
  const kind = isMarked ? "dv-marked" : isDark ? "dv-dark" : picture.is_chess ? "dv-light" : "dv-plain";
  const side = { x: x * CELL_SIZE, y: y * CELL_SIZE, width: CELL_SIZE, height: CELL_SIZE };
  return makeSvg("g", {}, makeSvg("rect", { ...side, class: `dv-cell ${kind}` }),
    drawStone(cell, (x + 0.5) * CELL_SIZE, (y + 0.5) * CELL_SIZE, picture.is_chess));
}

function drawStone(cell, x, y, isChess) {
  if (cell === ".") return null;
  if (cell === "x" || cell === "o") {
    return makeSvg("circle", { cx: x, cy: y, r: 0.4 * CELL_SIZE, class: cell === "x" ? "dv-black" : "dv-white" });
  }
  const piece = isChess && PIECE_SYMBOLS[cell.toLowerCase()];
  if (!piece) return drawCentered(cell, x, y, [...cell].length > 1 ? 14 : 24, "dv-letter");
  return drawCentered(piece, x, y, 32, cell === cell.toUpperCase() ? "dv-white-piece" : "dv-black-piece");
}

function drawLabel(text, x, y) {
  return drawCentered(text, x, y, 12, "dv-label");
}

function drawCentered(text, x, y, size, kind) {
  return makeSvg("text", { x, y, "font-size": size, class: kind, "text-anchor": "middle", "dominant-baseline": "central" }, text);
}
