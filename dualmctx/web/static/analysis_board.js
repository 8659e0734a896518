// The board of the Analyse view: the position with a number, a bar and the rank per move; the principal variation.

import { make, makeButton, setAttribute, setText } from "/shared/dom.js";
import { withoutLetters } from "/shared/text.js";
import { formatCount, formatExact, formatShare, formatValue, rankMoves } from "./analysis_text.js";
import { makeBoard } from "./board.js";
import { nameSide } from "./game.js";

// The numbers that can be on the board: title, the number of a move, and its text.
export const NUMBERS = {
  weight: { title: "Policy", read: (move) => move.weight, text: formatShare },
  visits: { title: "Visits", read: (move) => move.visits, text: formatShort },
  q: { title: "Q", read: (move) => move.q, text: formatValue },
  prior: { title: "Prior", read: (move) => move.prior.at(-1), text: formatShare },
  exact: { title: "Exact result", read: (move, exact) => exact?.[move.name], text: formatExact },
  none: { title: "Nothing" },
};

const MAX_RANK = 3;
// Moves below this policy without visits are left out where the board has many moves.
const LEAST_POLICY = 0.005;
const MANY_MOVES = 20;

function formatShort(count) {
  return count < 10_000 ? String(count) : `${formatCount(count / 1000)}k`;
}

// Returns { element, show(current), point(action) }: `show` takes `current()` of the session, and `point`
// marks a move, or none for null. `onMove` is called with the name of a move.
export function makeAnalysisBoard({ store }, onMove) {
  const caption = make("p", { class: "status position-caption" });
  const place = make("div");
  const board = makeBoard(place, { onMove: (entry) => onMove(entry.name) });
  const element = make("div", {}, caption, place);
  let shown = []; // the position and the options that are drawn
  let current = null;

  function show(next) {
    current = next;
    if (current.position) showPosition();
    else caption.textContent = current.status || "Loading the board …";
  }

  function showPosition() {
    const { position, analysis, exact } = current;
    const { ply, moves, number } = store.get();
    draw(position);
    caption.textContent = `Position ${ply ?? moves.length} of ${moves.length}: ${describeTurn(position, store.get())}`;
    board.setOverlay(makeOverlay(analysis, number, exact?.moves, position.entries));
  }

  // Draws a position only if it is not shown yet: a new drawing costs time and loses a chosen piece.
  function draw(position) {
    const { flip, opened } = store.get();
    const next = [position, flip, opened];
    if (next.every((value, i) => value === shown[i])) return;
    board.draw(position, { game: opened?.game ?? "", players: opened?.players, flip, isActive: !position.is_over });
    shown = next;
  }

  function point(action) {
    if (current?.position) board.setArrow(current.position.entries.find((entry) => entry.action === action) ?? null);
  }

  return { element, show, point };
}

function describeTurn(position, { opened }) {
  if (position.is_over) return `the game is over, ${withoutLetters(position.result?.text ?? "without a winner")}.`;
  return `${nameSide({ opened }, position.side)} to move.`;
}

// Returns the items of `board.setOverlay`. The bar is always the improved policy; `number` is a key of NUMBERS.
function makeOverlay(analysis, number, exact, entries) {
  if (number === "exact" && !analysis && exact) {
    return entries.map(({ action, name }) => ({ action, lines: [formatExact(exact[name])] }));
  }
  if (number === "none" || !analysis) return [];
  const ranks = rankMoves(analysis);
  const { read, text } = NUMBERS[number];
  const isShown = (move) => analysis.moves.length <= MANY_MOVES || move.visits > 0 || move.weight >= LEAST_POLICY;
  const items = analysis.moves.filter(isShown).map((move) => {
    const rank = ranks.get(move.action) ?? Infinity;
    return {
      action: move.action,
      rank,
      lines: [text(read(move, exact)), ...(rank <= MAX_RANK ? [`#${rank}`] : [])],
      bar: Math.min(Math.max(move.weight, 0), 1),
      tone: rank === 1 ? "best" : rank <= MAX_RANK ? "good" : null,
    };
  });
  return keepBestPerCell(items, entries);
}

// Several moves of chess end on one cell, which has room for the best of them. Moves without a rank come last.
function keepBestPerCell(items, entries) {
  const cells = new Map(entries.map((entry) => [entry.action, entry.shown?.join(",")]));
  const taken = new Set();
  return items.sort((a, b) => (a.rank < b.rank ? -1 : Number(a.rank > b.rank))).filter(({ action }) => {
    const cell = cells.get(action);
    const isFree = !cell || !taken.has(cell);
    taken.add(cell);
    return isFree;
  });
}

// The principal variation, whose moves are buttons. Returns { element, update(line) }. `onPlay` is called
// with the names of the moves up to the chosen one.
export function makePrincipalLine(onPlay) {
  const moves = make("div", { class: "line-moves", role: "group", "aria-label": "Principal variation" });
  const element = make("section", { "aria-label": "Principal variation" }, make("h3", {}, "Principal variation"), moves);
  let line = [];

  // A button stays while its text changes, so that it keeps the focus.
  function update(next) {
    line = next;
    const buttons = line.map((_, i) => moves.children[i] ?? makeButton("", () => onPlay(line.slice(0, i + 1))));
    if (buttons.length !== moves.children.length || line.length === 0) moves.replaceChildren(...buttons);
    buttons.forEach((button, i) => {
      setText(button, line[i]);
      setAttribute(button, "title", `Play ${line.slice(0, i + 1).join(" ")}`);
    });
    if (!line.length) moves.append("–");
  }

  update([]);
  return { element, update };
}
