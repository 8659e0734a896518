// Draws the picture of a position as SVG. Colours are in shared.css.

import { makeSvg } from "./dom.js";
import { withoutLetters } from "./text.js";

export const CELL = 40;
const HEX_HEIGHT = 0.866 * CELL;
// A picture of a single row is broken into rows of at most this many cells.
const LONGEST_ROW = 9;
// The solid symbols for both sides, as text and not as coloured pictures.
const PIECES = {
  k: ["king", "♚\ufe0e"], q: ["queen", "♛\ufe0e"], r: ["rook", "♜\ufe0e"],
  b: ["bishop", "♝\ufe0e"], n: ["knight", "♞\ufe0e"], p: ["pawn", "♟\ufe0e"],
};
// Rows and columns of the marked points of a Go board, by its size.
const STARS = { 9: [2, 4, 6], 13: [3, 6, 9], 19: [3, 9, 15] };
// Games whose cells have letters, also while all cells are empty.
const LETTER_GAMES = ["tic_tac_toe"];

export const keyOf = (row, column) => `${row},${column}`;

// Returns the shape of the cells of a game: square, hex, or points where lines cross.
export function shapeOf(game) {
  return game === "hex" ? "hex" : /^go_[0-9]+x[0-9]+$/.test(game) ? "points" : "square";
}

// Returns { svg, cells, overlay, geometry }.
//
// cells: from keyOf(row, column), the element of each cell of the grid.
// overlay: an empty group above the cells.
// geometry: `centre(row, column)` is the centre of a cell, `size` that of the drawing.
//
// position: { picture, shape, result }. The cells of a picture are texts: "x" and "o" are stones,
//   "." is an empty cell, and "" is no cell. `result.cells` are the winning cells.
// game: the name of the game, for its colours.
// flip: whether the board is turned by half a turn.
// isGrid: whether the cells can be chosen; otherwise the board is one image for screen readers.
export function drawBoard(position, game, { flip = false, isGrid = false } = {}) {
  const { picture, shape } = position;
  const geometry = shape === "hex" ? hexGeometry(picture.rows) : createGeometry(picture.rows, flip);
  const cells = new Map();
  const rows = picture.rows.map((row, y) => makeSvg("g", { role: isGrid && "row" }, row.map((text, x) => {
    if (text === "") return null;
    cells.set(keyOf(y, x), drawCell(position, geometry, y, x, isGrid));
    return cells.get(keyOf(y, x));
  })));
  const overlay = makeSvg("g", { class: "overlay" });
  const [left, top, right, bottom] = margins(picture, shape);
  const [width, height] = [geometry.size[0] + left + right, geometry.size[1] + top + bottom];
  const words = picture.rows.map((row) => row.join(" ")).join(" / ");
  const svg = makeSvg("svg", {
    viewBox: `${-left} ${-top} ${width} ${height}`,
    class: `board board-${shape} game-${game.replace(/\W/g, "-")} ${kindOf(picture, game)}`,
    role: isGrid ? "grid" : "img",
    "aria-label": isGrid ? withoutLetters(picture.caption) : `${picture.caption}. ${words}`,
  }, drawGround(picture.rows, shape, geometry), drawLabels(picture, shape, geometry), rows, overlay);
  // Small boards are not drawn larger than their cells are comfortable.
  const scale = geometry.size[0] > 4 * CELL ? 2 : 3;
  svg.style.setProperty("--board-width", `${width * scale}px`);
  svg.style.setProperty("--board-ratio", String(width / height));
  return { svg, cells, overlay, geometry };
}

function createGeometry(rows, flip) {
  const [height, width] = [rows.length, Math.max(1, ...rows.map((row) => row.length))];
  const columns = height === 1 && width > LONGEST_ROW ? Math.ceil(width / Math.ceil(width / LONGEST_ROW)) : width;
  return {
    centre(row, column) {
      const [y, x] = flip ? [height - 1 - row, width - 1 - column] : [row, column];
      return [((x % columns) + 0.5) * CELL, (y + Math.floor(x / columns) + 0.5) * CELL];
    },
    size: [columns * CELL, height * Math.ceil(width / columns) * CELL],
    outline: `M${-CELL / 2} ${-CELL / 2}h${CELL}v${CELL}h${-CELL}z`,
  };
}

// Rows of a picture of Hex are shifted by whole cells; the drawing shifts each by half a cell.
function hexGeometry(rows) {
  const radius = CELL / Math.sqrt(3);
  const corners = Array.from({ length: 6 }, (_, i) => {
    const angle = (Math.PI / 3) * i + Math.PI / 6;
    return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
  });
  return {
    centre: (row, column) => [(column - Math.floor(row / 2) + row / 2 + 0.5) * CELL, row * HEX_HEIGHT + radius],
    size: [(rows[0].length + (rows.length - 1) / 2) * CELL, (rows.length - 1) * HEX_HEIGHT + 2 * radius],
    outline: `M${corners.join("L")}z`,
  };
}

function kindOf({ rows, is_chess: isChess }, game) {
  if (isChess) return "is-chess";
  const hasLetters = LETTER_GAMES.includes(game) || rows.flat().some((text) => !["", ".", "x", "o"].includes(text));
  return hasLetters ? "has-letters" : "";
}

function margins({ row_labels: rowLabels, column_labels: columnLabels }, shape) {
  if (shape === "hex") return [CELL * 1.1, CELL * 0.8, CELL * 0.5, CELL * 0.4];
  return [rowLabels.length ? CELL * 0.6 : 3, 3, 3, columnLabels.length ? CELL * 0.6 : 3];
}

// Draws the board below its cells.
function drawGround(rows, shape, geometry) {
  const [width, height] = geometry.size;
  if (shape === "hex") return drawEdges(rows, geometry);
  const ground = makeSvg("rect", { class: "ground", x: -2, y: -2, width: width + 4, height: height + 4, rx: 4 });
  return makeSvg("g", {}, ground, shape === "points" && drawLines(rows.length));
}

function drawLines(size) {
  const [first, last] = [CELL / 2, (size - 0.5) * CELL];
  const lines = Array.from({ length: size }, (_, i) => {
    const place = (i + 0.5) * CELL;
    return `M${first} ${place}H${last}M${place} ${first}V${last}`;
  });
  const stars = STARS[size] ?? [];
  const dots = stars.flatMap((y) => stars.map((x) => (
    makeSvg("circle", { class: "star", cx: (x + 0.5) * CELL, cy: (y + 0.5) * CELL, r: 3 }))));
  return makeSvg("g", {}, makeSvg("path", { class: "lines", d: lines.join("") }), dots);
}

// Draws the edges of Hex: the first player connects top and bottom, the second left and right.
function drawEdges(rows, { centre }) {
  const last = rows.length - 1;
  const [top, topRight] = [centre(0, 0), centre(0, rows[0].length - 1)];
  const [low, lowRight] = [centre(last, Math.floor(last / 2)), centre(last, rows[last].length - 1)];
  const [half, tall] = [CELL / 2 + 8, CELL * 0.78];
  const corners = [
    [top[0] - half * 1.25, top[1] - tall], [topRight[0] + half * 0.6, topRight[1] - tall],
    [lowRight[0] + half * 1.25, lowRight[1] + tall], [low[0] - half * 0.6, low[1] + tall],
  ];
  const middle = [0, 1].map((i) => corners.reduce((sum, corner) => sum + corner[i], 0) / 4);
  const path = (name, i) => makeSvg("path", {
    class: `edge ${name}`, d: `M${[corners[i], corners[(i + 1) % 4], middle].map((point) => point.join(" ")).join("L")}z`,
  });
  return makeSvg("g", {}, path("edge-first", 0), path("edge-first", 2), path("edge-second", 1), path("edge-second", 3));
}

function drawLabels({ rows, row_labels: rowLabels, column_labels: columnLabels }, shape, { centre, size }) {
  const label = (text, x, y) => makeSvg("text", { class: "label", x, y, "aria-hidden": "true" }, text);
  if (shape === "hex") {
    const letters = rows[0].map((_, x) => label(columnName(x), centre(0, x)[0] - 8, -CELL * 0.6));
    const numbers = rows.map((_, y) => {
      const [x, height] = centre(y, Math.floor(y / 2));
      return label(String(y + 1), x - CELL * 1.15, height);
    });
    return [...letters, ...numbers];
  }
  return [
    ...rowLabels.map((text, y) => label(text, -CELL * 0.33, centre(y, 0)[1])),
    ...columnLabels.map((text, x) => label(text, centre(0, x)[0], size[1] + CELL * 0.33)),
  ];
}

const columnName = (x) => (x < 26 ? "" : columnName(Math.floor(x / 26) - 1)) + String.fromCharCode(97 + (x % 26));

function drawCell({ picture, shape, result }, geometry, y, x, isGrid) {
  const text = picture.rows[y][x];
  const isIn = (cells) => cells.some(([row, column]) => row === y && column === x);
  const isMarked = isIn(picture.marked);
  const isWinning = isIn(result?.cells ?? []);
  const shade = picture.is_chess ? ["light", "dark"][(picture.rows.length - y + x) % 2] : "";
  const [left, top] = geometry.centre(y, x);
  const label = `${describeCell(picture, shape, y, x)}${isMarked ? ", last move" : ""}${isWinning ? ", wins" : ""}`;
  return makeSvg("g", {
    class: `cell ${shade} ${isMarked ? "marked" : ""} ${isWinning ? "winning" : ""}`,
    ...(isGrid && { role: "gridcell", tabindex: -1, "data-row": y, "data-column": x, "aria-label": label }),
    transform: `translate(${left.toFixed(2)} ${top.toFixed(2)})`,
  },
  makeSvg("path", { class: "square", d: geometry.outline }),
  shape === "square" && !picture.is_chess && makeSvg("circle", { class: "hole", r: 0.41 * CELL }),
  drawContent(text, picture.is_chess),
  isMarked && drawMark(text, picture.is_chess),
  isGrid && makeSvg("circle", { class: "target", r: 0.13 * CELL }),
  isGrid && makeSvg("path", { class: "ring", d: geometry.outline, transform: "scale(0.93)" }));
}

// Draws a stone, a piece of chess, or text; nothing for an empty cell.
export function drawContent(text, isChess) {
  if (text === ".") return null;
  if (text === "x" || text === "o") {
    return makeSvg("circle", { class: `stone ${text === "x" ? "stone-first" : "stone-second"}`, r: 0.41 * CELL });
  }
  const [, glyph] = (isChess && PIECES[text.toLowerCase()]) || [];
  if (glyph) return makeSvg("text", { class: `piece piece-${sideOf(text)}`, "font-size": 34 }, glyph);
  const size = text.length === 1 ? 22 : Math.max(5, Math.min(18, 62 / text.length));
  return makeSvg("text", { class: "letter", "font-size": size.toFixed(1) }, text);
}

// Marks the last move: a ring on a stone, corners around a piece or a letter.
function drawMark(text, isChess) {
  if (text === "x" || text === "o") return makeSvg("circle", { class: "mark", r: 0.17 * CELL });
  // Within the lines between the cells.
  const far = (isChess ? 0.47 : 0.41) * CELL;
  const near = far - 0.17 * CELL;
  const corners = [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([i, j]) => (
    `M${i * near} ${j * far}H${i * far}V${j * near}`));
  return makeSvg("path", { class: `mark-corners ${isChess ? "" : "on-panel"}`, d: corners.join("") });
}

const sideOf = (piece) => (piece === piece.toLowerCase() ? "black" : "white");

// Returns the words for a cell that a screen reader says.
function describeCell(picture, shape, y, x) {
  const [row, column] = [picture.row_labels[y], picture.column_labels[x]];
  let place = `row ${y + 1}, column ${x + 1}`;
  if (shape === "hex") place = `${columnName(x - Math.floor(y / 2))}${y + 1}`;
  else if (row && column) place = `${column}${row}`;
  else if (column) place = `column ${column}, row ${picture.rows.length - y}`;
  return `${place}: ${describeContent(picture.rows[y][x], picture.is_chess)}`;
}

function describeContent(text, isChess) {
  if (text === ".") return "empty";
  if (text === "x" || text === "o") return text === "x" ? "black stone" : "white stone";
  const [name] = (isChess && PIECES[text.toLowerCase()]) || [];
  return name ? `${sideOf(text)} ${name}` : text;
}
