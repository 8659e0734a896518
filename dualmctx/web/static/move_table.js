// The table of all legal moves with the statistics of the search, sorted by any column.

import { make, makeButton } from "/shared/dom.js";
import { labelTree } from "/shared/text.js";
import { disagrees, formatCount, formatExact, formatShare, formatValue, rankMoves } from "./analysis_text.js";

const QVALUE_HELP = "Mean value of the move in the search, from −1 to +1, in the view of the side to move";
const POLICY_HELP = "Improved policy: the share that the search gives to the move; ranks follow it";

const NO_NUMBERS = { visits: null, q: null, weight: null, prior: [] };

// Returns the columns: key, title, help, the number to sort by, the text, and a bar's share or null.
function makeColumns(heads, hasExact, trees) {
  const tree = labelTree(trees.at(-1) ?? "tree");
  const share = (key, title, help, read) => ({ key, title, help, read, text: formatShare, bar: read });
  const priors = heads.map((head, i) => share(
    `prior-${i}`, heads.length > 1 ? `Prior, ${head}` : "Prior",
    `Probability of the move by the network's ${head} head`, (move) => move.prior[i] ?? null));
  const exact = {
    key: "exact", title: "Exact", help: "Result under perfect play, for the side to move",
    read: (move) => move.exact ?? null, text: formatExact, isResult: true,
  };
  return [
    { key: "rank", title: "#", help: "Rank by the policy of the search", read: (move) => move.rank, text: formatCount, ascends: true },
    { key: "name", title: "Move", help: "Click on a move to play it", read: (move) => move.name, ascends: true, isName: true },
    { key: "visits", title: trees.length > 1 ? `Visits, ${tree}` : "Visits", help: `Visits in the ${tree}`, read: (move) => move.visits, text: formatCount },
    { key: "q", title: "Q", help: QVALUE_HELP, read: (move) => move.q, text: formatValue },
    ...(hasExact ? [exact] : []),
    share("weight", "Policy", POLICY_HELP, (move) => move.weight),
    ...priors,
  ];
}

// Returns { element, setColumns(heads, hasExact, trees), update(analysis, exact, entries) }.
//
// onMove: called with the name of a move that the user chooses.
// onHover: called with the action under the pointer or with the focus, and with null after it.
export function makeMoveTable({ onMove, onHover }) {
  const head = make("tr");
  const body = make("tbody");
  const note = make("p", { class: "note policy-note" });
  const element = make("div", {},
    make("div", { class: "table-frame", tabindex: 0, role: "region", "aria-label": "Legal moves" },
      make("table", { class: "move-table" }, make("thead", {}, head), body)), note);
  const rows = new Map(); // from an action to { row, cells, button }
  let columns = [];
  let moves = [];
  let sorted = { key: "rank", descends: false };

  function sortBy(column) {
    const descends = sorted.key === column.key ? !sorted.descends : !column.ascends;
    sorted = { key: column.key, descends };
    showSorting();
    order();
  }

  function showSorting() {
    [...head.children].forEach((cell, i) => {
      const isSorted = columns[i].key === sorted.key;
      cell.setAttribute("aria-sort", !isSorted ? "none" : sorted.descends ? "descending" : "ascending");
    });
  }

  function order() {
    const column = columns.find(({ key }) => key === sorted.key) ?? columns[0];
    const isUnknown = (move) => Number(column.read(move) === null);
    const sign = sorted.descends ? -1 : 1;
    const next = [...moves].sort((a, b) => (
      isUnknown(a) - isUnknown(b) || sign * compare(column.read(a), column.read(b)) || compare(a.rank, b.rank) || a.action - b.action));
    const places = next.map((move) => rows.get(move.action).row);
    if (places.some((row, i) => body.children[i] !== row)) placeRows(places);
  }

  // Moving rows in the document takes the focus from them.
  function placeRows(places) {
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

  function makeRow(move) {
    const button = makeButton(move.name, () => onMove(move.name), { title: `Play ${move.name}` });
    const cells = columns.map((column) => column.isName
      ? make("th", { scope: "row" }, button) : make("td", { "data-key": column.key }));
    const row = make("tr", {
      "data-action": move.action,
      onmouseenter: () => onHover(move.action), onmouseleave: () => onHover(null),
      onfocusin: () => onHover(move.action), onfocusout: () => onHover(null),
    }, cells);
    return { row, cells };
  }

  function updateRow({ row, cells }, move) {
    row.classList.toggle("best", move.rank === 1);
    columns.forEach((column, i) => {
      if (!column.isName) updateCell(cells[i], column, move);
    });
  }

  // analysis: an answer `analysis` or null; exact: exact values by name, or null; entries: the legal
  // moves, which are shown without numbers until there is an analysis.
  function update(analysis, exact, entries) {
    const ranks = analysis ? rankMoves(analysis) : new Map();
    moves = (analysis?.moves ?? entries).map((move) => (
      { ...NO_NUMBERS, ...move, rank: ranks.get(move.action) ?? null, exact: exact?.[move.name] }));
    const present = new Set(moves.map((move) => move.action));
    [...rows.keys()].filter((action) => !present.has(action)).forEach((action) => rows.delete(action));
    for (const move of moves) {
      if (!rows.has(move.action)) rows.set(move.action, makeRow(move));
      updateRow(rows.get(move.action), move);
    }
    element.hidden = moves.length === 0;
    note.textContent = describeNumbers(analysis, exact);
    if (moves.length) order();
    else body.replaceChildren();
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
  if (column.bar) cell.style.setProperty("--share", `${100 * (value ?? 0)}%`);
  cell.classList.toggle("bar", Boolean(column.bar));
}

// Compares numbers or texts; unknown values are the largest.
function compare(a, b) {
  if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
  return (a ?? Infinity) === (b ?? Infinity) ? 0 : (a ?? Infinity) - (b ?? Infinity);
}
