// Numbers and sentences of the analysis. Values are in [-1, 1].

import { NONE, formatSigned, isNumber } from "/shared/text.js";

export const MARKS = {
  blunder: { sign: "??", text: "blunder" },
  mistake: { sign: "?", text: "mistake" },
  inaccuracy: { sign: "?!", text: "inaccuracy" },
};

// Returns a value with its sign and two decimals, such as "+0.25".
export const formatValue = (value) => formatSigned(value, 2);

// Returns a probability in percent, with one decimal below ten percent.
export function formatShare(share) {
  if (!isNumber(share)) return NONE;
  const percent = 100 * share;
  if (percent > 0 && percent < 0.05) return "<0.1%";
  return `${percent.toFixed(percent > 0 && percent < 9.95 ? 1 : 0)}%`;
}

export function formatCount(count) {
  return isNumber(count) ? Math.round(count).toLocaleString("en") : NONE;
}

// Returns a text on the simulations of a search that were kept, such as ", 42 of them kept from an earlier search".
export function describeKept({ simulations, reused }) {
  const count = reused === simulations ? "all" : formatCount(reused);
  return reused ? `, ${count} of them kept from an earlier search` : "";
}

// Returns "win", "draw" or "loss" for an exact value of 1, 0 or -1.
export function formatExact(value) {
  return { "1": "win", "0": "draw", "-1": "loss" }[String(value)] ?? NONE;
}

// Returns the ranks of the moves with a policy, from 1, by their actions: first the selected move, then
// by policy; visits decide between equal ones.
export function rankMoves(analysis) {
  const selected = analysis.line_actions[0];
  const ranked = analysis.moves.filter((move) => move.weight > 0 || move.action === selected);
  const order = ranked.sort((a, b) =>
    (b.action === selected) - (a.action === selected) || b.weight - a.weight || b.visits - a.visits || a.action - b.action);
  return new Map(order.map((move, place) => [move.action, place + 1]));
}

// Whether the value of a search contradicts an exact value: it is nearer to another result.
export function disagrees(value, exact) {
  return isNumber(value) && isNumber(exact) && Math.abs(value - exact) > 0.5;
}
