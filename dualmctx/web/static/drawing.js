// Draws the picture of a position as SVG. Colours are in style.css.

import { makeSvg } from "./dom.js";
import { withoutLetters } from "./game.js";

export const CELL = 40;
const HEX_HEIGHT = 0.866 * CELL;
// A picture of a single row is broken into rows of at most this many cells.
const LONGEST_ROW = 9;
// The solid symbols for both sides, as text and not as coloured pictures.
const GLYPHS = Object.fromEntries([..."kqrbnp"].map((piece, i) => [piece, "♚♛♜♝♞♟"[i] + "\ufe0e"]));
const PIECES = { k: "king", q: "queen", r: "rook", b: "bishop", n: "knight", p: "pawn" };
// Rows and columns of the marked points of a Go board, by its size.
const STARS = { 9: [2, 4, 6], 13: [3, 6, 9], 19: [3, 9, 15] };

export const keyOf = (row, column) => `${row},${column}`;

const widthOf = (rows) => Math.max(1, ...rows.map((row) => row.length));

// Returns the geometry of a board: the centre of a cell and the size of the drawing.
//
// flip: whether the board is turned by half a turn.
export function createGeometry({ picture, shape }, flip) {
  const { rows } = picture;
  const [height, width] = [rows.length, widthOf(rows)];
  if (shape === "hex") return hexGeometry(rows);
  const columns = height === 1 && width > LONGEST_ROW ? Math.ceil(width / Math.ceil(width / LONGEST_ROW)) : width;
  const turn = (row, column) => (flip ? [height - 1 - row, width - 1 - column] : [row, column]);
  return {
    centre(row, column) {
      const [y, x] = turn(row, column);
      return [((x % columns) + 0.5) * CELL, (y + Math.floor(x / columns) + 0.5) * CELL];
    },
    size: [columns * CELL, height * Math.ceil(width / columns) * CELL],
    outline: `M${-CELL / 2} ${-CELL / 2}h${CELL}v${CELL}h${-CELL}z`,
  };
}

// Rows of a picture of Hex are shifted by whole cells; the drawing shifts each by half a cell.
function hexGeometry(rows) {
  const height = rows.length;
  const radius = CELL / Math.sqrt(3);
  const corners = Array.from({ length: 6 }, (_, i) => {
    const angle = (Math.PI / 3) * i + Math.PI / 6;
    return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
  });
  return {
    centre: (row, column) => [(column - Math.floor(row / 2) + row / 2 + 0.5) * CELL, row * HEX_HEIGHT + radius],
    size: [(rows[0].length + (height - 1) / 2) * CELL, (height - 1) * HEX_HEIGHT + 2 * radius],
    outline: `M${corners.join("L")}z`,
  };
}

// Returns { svg, cells, overlay, geometry }.
//
// cells: from keyOf(row, column), the element of each cell of the grid.
// overlay: an empty group above the cells.
export function drawBoard(position, game, flip) {
  const { picture } = position;
  const geometry = createGeometry(position, flip);
  const cells = new Map();
  const rows = picture.rows.map((row, y) => makeSvg("g", { role: "row" }, row.map((text, x) => {
    if (text === "") return null;
    const cell = drawCell(position, geometry, y, x);
    cells.set(keyOf(y, x), cell);
    return cell;
  })));
  const overlay = makeSvg("g", { class: "overlay" });
  const [left, top, right, bottom] = margins(position);
  const [width, height] = geometry.size;
  const svg = makeSvg("svg", {
    viewBox: `${-left} ${-top} ${width + left + right} ${height + top + bottom}`,
    class: `board board-${position.shape} game-${game.replace(/\W/g, "-")} ${kindOf(picture, game)}`,
    role: "grid",
    "aria-label": withoutLetters(picture.caption),
  }, drawGround(position, geometry), ...drawLabels(position, geometry), ...rows, overlay);
  // Small boards are not drawn larger than their cells are comfortable.
  const scale = width > 4 * CELL ? 2 : 3;
  svg.style.setProperty("--board-width", `${(width + left + right) * scale}px`);
  svg.style.setProperty("--board-ratio", String((width + left + right) / (height + top + bottom)));
  return { svg, cells, overlay, geometry };
}

// Games whose cells have letters, also while all cells are empty.
const LETTER_GAMES = ["tic_tac_toe"];

function kindOf({ rows, is_chess: isChess }, game) {
  if (isChess) return "is-chess";
  if (LETTER_GAMES.includes(game)) return "has-letters";
  return rows.flat().every((text) => ["", ".", "x", "o"].includes(text)) ? "" : "has-letters";
}

function margins({ picture, shape }) {
  if (shape === "hex") return [CELL * 1.1, CELL * 0.8, CELL * 0.5, CELL * 0.4];
  const [left, bottom] = [picture.row_labels.length, picture.column_labels.length];
  return [left ? CELL * 0.6 : 3, 3, 3, bottom ? CELL * 0.6 : 3];
}

// Draws the board below its cells.
function drawGround({ picture, shape }, geometry) {
  const [width, height] = geometry.size;
  if (shape === "hex") return drawEdges(picture.rows, geometry);
  const ground = makeSvg("rect", { class: "ground", x: -2, y: -2, width: width + 4, height: height + 4, rx: 4 });
  return makeSvg("g", {}, ground, shape === "points" ? drawLines(picture.rows.length) : null);
}

function drawLines(size) {
  const [first, last] = [CELL / 2, (size - 0.5) * CELL];
  const lines = Array.from({ length: size }, (_, i) => {
    const place = (i + 0.5) * CELL;
    return `M${first} ${place}H${last}M${place} ${first}V${last}`;
  });
  const stars = (STARS[size] ?? []).flatMap((y) => (STARS[size] ?? []).map((x) => makeSvg("circle", {
    class: "star", cx: (x + 0.5) * CELL, cy: (y + 0.5) * CELL, r: 3,
  })));
  return makeSvg("g", {}, makeSvg("path", { class: "lines", d: lines.join("") }), stars);
}

// Draws the edges of Hex: the first player connects top and bottom, the second left and right.
function drawEdges(rows, geometry) {
  const last = rows.length - 1;
  const [top, topRight] = [geometry.centre(0, 0), geometry.centre(0, rows[0].length - 1)];
  const start = Math.floor(last / 2);
  const [low, lowRight] = [geometry.centre(last, start), geometry.centre(last, rows[last].length - 1)];
  const half = CELL / 2 + 8;
  const tall = CELL * 0.78;
  const path = (name, ...points) => makeSvg("path", { class: `edge ${name}`, d: `M${points.map((p) => p.join(" ")).join("L")}z` });
  const corners = [
    [top[0] - half * 1.25, top[1] - tall], [topRight[0] + half * 0.6, topRight[1] - tall],
    [lowRight[0] + half * 1.25, lowRight[1] + tall], [low[0] - half * 0.6, low[1] + tall],
  ];
  const middle = [0, 1].map((i) => corners.reduce((sum, corner) => sum + corner[i], 0) / 4);
  return makeSvg("g", {},
    path("edge-first", corners[0], corners[1], middle), path("edge-first", corners[2], corners[3], middle),
    path("edge-second", corners[1], corners[2], middle), path("edge-second", corners[3], corners[0], middle));
}

function drawLabels({ picture, shape }, geometry) {
  const { rows, row_labels: rowLabels, column_labels: columnLabels } = picture;
  const label = (text, x, y) => makeSvg("text", { class: "label", x, y, "aria-hidden": "true" }, text);
  if (shape === "hex") {
    const letters = rows[0].map((_, x) => label(columnName(x), geometry.centre(0, x)[0] - 8, -CELL * 0.6));
    const numbers = rows.map((_, y) => {
      const [x, height] = geometry.centre(y, Math.floor(y / 2));
      return label(String(y + 1), x - CELL * 1.15, height);
    });
    return [...letters, ...numbers];
  }
  const below = geometry.size[1] + CELL * 0.33;
  return [
    ...rowLabels.map((text, y) => label(text, -CELL * 0.33, geometry.centre(y, 0)[1])),
    ...columnLabels.map((text, x) => label(text, geometry.centre(0, x)[0], below)),
  ];
}

const columnName = (x) => (x < 26 ? "" : columnName(Math.floor(x / 26) - 1)) + String.fromCharCode(97 + (x % 26));

function drawCell({ picture, shape, result }, geometry, y, x) {
  const text = picture.rows[y][x];
  const isIn = (cells) => cells.some(([row, column]) => row === y && column === x);
  const isMarked = isIn(picture.marked);
  const isWinning = isIn(result?.cells ?? []);
  const shade = picture.is_chess ? ["light", "dark"][(picture.rows.length - y + x) % 2] : "";
  const [left, top] = geometry.centre(y, x);
  return makeSvg("g", {
    class: `cell ${shade} ${isMarked ? "marked" : ""} ${isWinning ? "winning" : ""}`,
    role: "gridcell",
    tabindex: -1,
    "data-row": y,
    "data-column": x,
    "aria-label": `${describeCell(picture, shape, y, x)}${isMarked ? ", last move" : ""}${isWinning ? ", wins" : ""}`,
    transform: `translate(${left.toFixed(2)} ${top.toFixed(2)})`,
  },
  makeSvg("path", { class: "square", d: geometry.outline }),
  shape === "square" && !picture.is_chess ? makeSvg("circle", { class: "hole", r: 0.41 * CELL }) : null,
  drawContent(text, picture.is_chess),
  isMarked ? drawMark(text, picture.is_chess) : null,
  makeSvg("circle", { class: "target", r: 0.13 * CELL }),
  makeSvg("path", { class: "ring", d: geometry.outline, transform: "scale(0.93)" }));
}

// Draws a stone, a piece of chess, or text; nothing for an empty cell.
export function drawContent(text, isChess) {
  if (text === ".") return null;
  if (text === "x" || text === "o") {
    return makeSvg("circle", { class: `stone ${text === "x" ? "stone-first" : "stone-second"}`, r: 0.41 * CELL });
  }
  const piece = isChess && GLYPHS[text.toLowerCase()];
  if (piece) {
    return makeSvg("text", { class: `piece ${isUpper(text) ? "piece-white" : "piece-black"}`, "font-size": 34 }, piece);
  }
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

const isUpper = (text) => text !== text.toLowerCase();

// Returns the words for a cell that a screen reader says.
function describeCell(picture, shape, y, x) {
  const text = picture.rows[y][x];
  const [row, column] = [picture.row_labels[y], picture.column_labels[x]];
  let place = `row ${y + 1}, column ${x + 1}`;
  if (shape === "hex") place = `${columnName(x - Math.floor(y / 2))}${y + 1}`;
  else if (row && column) place = `${column}${row}`;
  else if (column) place = `column ${column}, row ${picture.rows.length - y}`;
  return `${place}: ${describeContent(text, picture.is_chess)}`;
}

export function describeContent(text, isChess) {
  if (text === ".") return "empty";
  if (text === "x" || text === "o") return text === "x" ? "black stone" : "white stone";
  const piece = isChess && PIECES[text.toLowerCase()];
  return piece ? `${isUpper(text) ? "white" : "black"} ${piece}` : text;
}
