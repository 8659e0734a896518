// Texts of numbers, and of the sides and trees of a game. A minus is U+2212.

export const NONE = "–";

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// A value in [-1, 1] or a score, with a sign. A value that rounds to zero has none.
export function formatSigned(value, digits) {
  if (!isNumber(value)) return NONE;
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
}

export function capitalize(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Returns a text about the sides of a game for a page with discs: "black" for "x (black)".
export function withoutLetters(text) {
  return String(text).replace(/\b[xo] \(([^)]+)\)/g, "$1");
}

// Returns the name of a tree with the word "tree", which the only tree of a search is called already.
export function labelTree(name) {
  return /\btree\b/.test(name) ? name : `${name} tree`;
}
