// The evaluation of all positions of the game, and a summary of the marked moves.

import { make, makeButton, makeField } from "/shared/dom.js";
import { NONE } from "/shared/text.js";
import { MARKS } from "./analysis_text.js";
import { describeMove } from "./curve.js";

const LEAVES_MOVE = { played: null, played_value: null, best_value: null, loss: null, mark: null };

// Returns { element, update(), rows() }: `rows` returns the rows that hold for the game of the store.
// `getVariant` returns the search of the view; `onChange` is called when there are new rows.
export function createReview({ socket, store, announce, showError }, getVariant, onChange) {
  const start = makeButton("Evaluate all positions", run, { disabled: true });
  const stop = makeButton("Stop", () => running?.abort(), { hidden: true });
  const simulations = make("input", { type: "number", min: 1, step: 1, inputmode: "numeric", placeholder: "default" });
  const status = make("p", { class: "review-status", role: "status" });
  const summary = make("table", { class: "review-summary", hidden: true });
  const element = make("div", {},
    make("div", { class: "row" }, start, stop, makeField("Simulations per position", simulations)), status, summary);
  let reviewed = null; // the message and its rows
  let running = null;
  let kept = { moves: null, reviewed: null, rows: [] };

  async function run() {
    const { moves, fen, checkpoint, welcome } = store.get();
    simulations.max = String(welcome?.limits.simulations ?? Infinity);
    if (!simulations.reportValidity()) return;
    const number = simulations.value === "" ? null : simulations.valueAsNumber;
    const message = { checkpoint, fen, moves, variant: getVariant(), simulations: number };
    const before = reviewed;
    running = new AbortController();
    show("Evaluating …");
    let end = "Stopped.";
    try {
      const answer = await socket.request({ type: "review", ...message }, { signal: running.signal });
      if (answer.type === "reviewed") {
        reviewed = { ...message, rows: answer.positions };
        end = `Evaluated ${answer.positions.length} positions.`;
      }
    } catch (error) {
      if (error.name !== "AbortError") end = "";
      showError(error);
    }
    running = null;
    show(end);
    if (end) announce(end);
    if (reviewed !== before) onChange();
  }

  function show(text) {
    status.textContent = text;
    start.disabled = Boolean(running) || !store.get().opened;
    stop.hidden = !running;
  }

  function rows() {
    const { moves, fen, checkpoint } = store.get();
    if (!reviewed || reviewed.fen !== fen || reviewed.checkpoint !== checkpoint) return [];
    if (kept.moves !== moves || kept.reviewed !== reviewed) kept = { moves, reviewed, rows: rowsOf(reviewed, moves) };
    return kept.rows;
  }

  function update() {
    const { moves, opened } = store.get();
    const known = rows();
    const count = moves.length + 1;
    if (opened) fillSummary(summary, known, opened.players);
    if (running) return;
    if (!known.length) show("");
    else if (known.length === count) show(`Evaluated ${count} positions.`);
    else show(`Evaluated ${known.length} of ${count} positions; the moves after them are new.`);
  }

  return { element, update, rows };
}

// Returns the rows of a review up to the first move that differs.
function rowsOf(reviewed, moves) {
  const differs = moves.findIndex((move, i) => move !== reviewed.moves[i]);
  const shared = differs < 0 ? moves.length : differs;
  if (shared >= reviewed.moves.length) return reviewed.rows;
  return [...reviewed.rows.slice(0, shared), { ...reviewed.rows[shared], ...LEAVES_MOVE }];
}

// Returns the note in the list of moves on the move that leads to position `ply`; null for none.
export function annotate(rows, ply, opened) {
  const row = rows[ply - 1];
  if (!row || row.played === null || !opened) return null;
  return { sign: MARKS[row.mark]?.sign ?? "", mark: row.mark, text: describeMove(row, opened.players) };
}

function fillSummary(summary, rows, players) {
  summary.hidden = !rows.some((row) => row.played !== null);
  if (summary.hidden) return;
  const kinds = Object.entries(MARKS);
  const count = (side, mark) => rows.filter((row) => row.side === side && row.mark === mark).length;
  summary.replaceChildren(
    make("caption", { class: "hidden-text" }, "Marked moves of both sides"),
    make("tr", {}, make("th", { scope: "col" }, "Side"),
      kinds.map(([, { sign, text }]) => make("th", { scope: "col" }, `${sign} ${text}`)),
      make("th", { scope: "col", title: "Mean loss of value per move, by the exact values where they are known, as the marks" }, "Mean loss")),
    ...players.map((player, side) => make("tr", { "data-side": side },
      make("th", { scope: "row" }, player),
      kinds.map(([mark]) => make("td", {}, String(count(side, mark)))),
      make("td", {}, meanLoss(rows.filter((row) => row.side === side))))));
}

function meanLoss(rows) {
  const losses = rows.map((row) => (row.exact ?? row).loss).filter((loss) => loss !== null);
  return losses.length ? (losses.reduce((sum, loss) => sum + loss, 0) / losses.length).toFixed(2) : NONE;
}
