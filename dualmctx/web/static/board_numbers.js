// The numbers of the analysis on the board: one of them per move, with a bar and the rank.

import { formatCount, formatExact, formatShare, formatValue, rankMoves } from "./analysis_text.js";

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

// Returns the items of `board.setOverlay`. The bar is always the improved policy.
//
// number: a key of NUMBERS; exact: exact values by name, or null; entries: of the position.
export function makeOverlay(analysis, number, exact, entries) {
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

// Moves without a rank come last.
const compareRanks = (a, b) => (a.rank < b.rank ? -1 : Number(a.rank > b.rank));

// Several moves of chess end on one cell, which has room for the best of them.
function keepBestPerCell(items, entries) {
  const cells = new Map(entries.map((entry) => [entry.action, entry.shown && entry.shown.join(",")]));
  const taken = new Set();
  return items.sort(compareRanks).filter(({ action }) => {
    const cell = cells.get(action);
    if (!cell) return true;
    const isFree = !taken.has(cell);
    taken.add(cell);
    return isFree;
  });
}

function formatShort(count) {
  return count < 10_000 ? String(count) : `${formatCount(count / 1000)}k`;
}
