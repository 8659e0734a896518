// The table of all legal moves with the statistics of the search, sorted by any column.

import { make, makeButton } from "/shared/dom.js";
import { labelTree } from "/shared/text.js";
import { disagrees, formatCount, formatExact, formatShare, formatValue, rankMoves } from "./analysis_text.js";

const QVALUE_HELP = "Mean value of the move in the search, from −1 to +1, in the view of the side to move";
const POLICY_HELP = "Improved policy: the share that the search gives to the move; ranks follow it";

const NO_NUMBERS = { visits: null, q: null, weight: null, prior: [] };

// Returns the columns: key, title, help, the number to sort by, the text, and whether it has a bar.
function makeColumns(heads, hasExact, trees) {
  const tree = labelTree(trees.at(-1) ?? "tree");
  const share = (key, title, help, read) => ({ key, title, help, read, text: formatShare, hasBar: true });
  const exact = {
    key: "exact", title: "Exact", help: "Result under perfect play, for the side to move",
    read: (move) => move.exact, text: formatExact, isResult: true,
  };
  return [
    { key: "rank", title: "#", help: "Rank by the policy of the search", read: (move) => move.rank, text: formatCount, ascends: true },
    { key: "name", title: "Move", help: "Click on a move to play it", read: (move) => move.name, ascends: true, isName: true },
    { key: "visits", title: trees.length > 1 ? `Visits, ${tree}` : "Visits", help: `Visits in the ${tree}`, read: (move) => move.visits, text: formatCount },
    { key: "q", title: "Q", help: QVALUE_HELP, read: (move) => move.q, text: formatValue },
    ...(hasExact ? [exact] : []),
    share("weight", "Policy", POLICY_HELP, (move) => move.weight),
    ...heads.map((head, i) => share(`prior-${i}`, heads.length > 1 ? `Prior, ${head}` : "Prior",
      `Probability of the move by the network's ${head} head`, (move) => move.prior[i] ?? null)),
  ];
}

// Returns { element, setColumns(heads, hasExact, trees), update(analysis, exact, entries) }. `onMove` is called
// with the name of a chosen move, `onHover` with the action under the pointer or with the focus, null after it.
export function makeMoveTable({ onMove, onHover }) {
  const head = make("tr");
  const body = make("tbody");
  const note = make("p", { class: "note policy-note" });
  const element = make("div", {},
    make("div", { class: "table-frame", tabindex: 0, role: "region", "aria-label": "Legal moves" },
      make("table", { class: "move-table" }, make("thead", {}, head), body)), note);
  const rows = new Map(); // from a move to its row, whose cells are those of the columns
  let columns = [];
  let moves = [];
  let sorted = { key: "rank", descends: false };

  function sortBy({ key, ascends }) {
    sorted = { key, descends: sorted.key === key ? !sorted.descends : !ascends };
    showSorting();
    order();
  }

  function showSorting() {
    columns.forEach(({ key }, i) => {
      head.children[i].setAttribute("aria-sort", key !== sorted.key ? "none" : sorted.descends ? "descending" : "ascending");
    });
  }

  // Moving rows in the document takes the focus from them.
  function order() {
    const { read } = columns.find(({ key }) => key === sorted.key) ?? columns[0];
    const sign = sorted.descends ? -1 : 1;
    const isUnknown = (move) => Number(read(move) === null);
    moves.sort((a, b) => isUnknown(a) - isUnknown(b) || sign * compare(read(a), read(b)) || compare(a.rank, b.rank) || a.action - b.action);
    const places = moves.map(rowOf);
    if (places.length === body.children.length && places.every((row, i) => body.children[i] === row)) return;
    const focused = document.activeElement;
    body.replaceChildren(...places);
    if (focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
  }

  function setColumns(heads, hasExact, trees) {
    columns = makeColumns(heads, hasExact, trees);
    if (!columns.some(({ key }) => key === sorted.key)) sorted = { key: "rank", descends: false };
    head.replaceChildren(...columns.map((column) => make("th", { scope: "col", "data-key": column.key },
      makeButton(column.title, () => sortBy(column), { title: `${column.help}. Sort.` }))));
    rows.clear();
    moves = [];
    body.replaceChildren();
    showSorting();
  }

  // The same action may be another move in another position.
  function rowOf(move) {
    const key = `${move.action} ${move.name}`;
    if (!rows.has(key)) rows.set(key, makeRow(move));
    return rows.get(key);
  }

  function makeRow({ action, name }) {
    const button = makeButton(name, () => onMove(name), { title: `Play ${name}` });
    return make("tr", {
      "data-action": action,
      onmouseenter: () => onHover(action), onmouseleave: () => onHover(null),
      onfocusin: () => onHover(action), onfocusout: () => onHover(null),
    }, columns.map(({ key, isName }) => (isName ? make("th", { scope: "row" }, button) : make("td", { "data-key": key }))));
  }

  function updateRow(row, move) {
    row.classList.toggle("best", move.rank === 1);
    columns.forEach((column, i) => column.isName || updateCell(row.children[i], column, move));
  }

  // analysis: an answer `analysis` or null; exact: exact values by name, or null; entries: the legal
  // moves, which are shown without numbers until there is an analysis.
  function update(analysis, exact, entries) {
    const ranks = analysis ? rankMoves(analysis) : new Map();
    moves = (analysis?.moves ?? entries).map((move) => (
      { ...NO_NUMBERS, ...move, rank: ranks.get(move.action) ?? null, exact: exact?.[move.name] ?? null }));
    for (const move of moves) updateRow(rowOf(move), move);
    element.hidden = moves.length === 0;
    note.textContent = describeNumbers(analysis, exact);
    if (columns.length) order();
  }

  return { element, setColumns, update };
}

// Returns how the numbers of the table follow from the search.
function describeNumbers(analysis, exact) {
  const view = `${exact ? "Q and exact results are" : "Q is"} in the view of the side to move.`;
  if (!analysis) return view;
  const last = analysis.trees.length > 1 ? " Q is that of the last tree that visited the move." : "";
  return `${analysis.policy}${last} ${view}`;
}

function updateCell(cell, column, move) {
  const value = column.read(move);
  const isWrong = column.isResult && disagrees(move.q, value);
  cell.textContent = column.text(value) + (isWrong ? " ≠ Q" : "");
  cell.dataset.value = String(value);
  cell.title = isWrong ? "The search's Q is nearer to another result" : value === null ? "" : String(value);
  cell.classList.toggle("bar", Boolean(column.hasBar));
  if (column.hasBar) cell.style.setProperty("--share", `${100 * (value ?? 0)}%`);
}

// Compares numbers or texts; unknown values are the largest.
function compare(a, b) {
  if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
  return (a ?? Infinity) === (b ?? Infinity) ? 0 : (a ?? Infinity) - (b ?? Infinity);
}
