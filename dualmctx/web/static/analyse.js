// The Analyse view: a running analysis of the position that is shown, and the review of the game.

import { listenToKeys, make } from "/shared/dom.js";
import { makeAnalysisBoard, makePrincipalLine } from "./analysis_board.js";
import { createSession } from "./analysis_session.js";
import { makeCurve } from "./curve.js";
import { makeEvaluationPanel } from "./evaluation_panel.js";
import { goTo, step } from "./game.js";
import { makeMoveList } from "./move_list.js";
import { makeMoveTable } from "./move_table.js";
import { makeRecordInput, makeTextFields } from "./record.js";
import { annotate, createReview } from "./review.js";
import { makeAnalysisSettings } from "./settings.js";

// Starts the view; see app.js for the arguments.
export function startAnalyse(root, context) {
  const { store } = context;
  const settings = makeAnalysisSettings(context);
  const session = createSession(context, settings.options, () => showSession());
  const view = makeView(root, context, settings);
  const showSession = () => view.showSession(session.current());
  const isShown = () => store.get().view === "analyse";

  async function update(state) {
    if (!isShown()) return;
    view.update(state);
    if (await session.refresh()) showSession();
  }

  listenToSteps(store, isShown);
  store.subscribe(update);
  update(store.get());
  return { show: () => session.setActive(true).then(() => update(store.get())), hide: () => session.setActive(false) };
}

// Elements that use the keys of the steps themselves.
const KEY_USERS = "input, select, textarea, summary, dialog, [role=tablist], .table-frame";

// Keys step through the game.
function listenToSteps(store, isShown) {
  const keys = {
    ArrowLeft: () => step(store, -1),
    ArrowRight: () => step(store, 1),
    Home: () => goTo(store, 0),
    End: () => goTo(store, Infinity),
  };
  listenToKeys(keys, ({ target }) => !isShown() || target.closest?.(KEY_USERS));
}

// Returns { update(state), showSession(current) }.
function makeView(root, context, settings) {
  const { store } = context;
  const parts = makeParts(context, settings);
  layOut(root, parts, settings);
  let [columns, position] = ["", null];

  function update(state) {
    const rows = parts.review.rows();
    settings.update(state);
    parts.record.update();
    parts.review.update();
    parts.texts.update(state);
    parts.moves.update(state, (ply) => annotate(rows, ply, state.opened));
    if (state.opened) parts.curve.update(rows, state.ply ?? state.moves.length, state.opened.players);
  }

  function showSession(current) {
    const { opened } = store.get();
    const { trees, simulations } = settings.options();
    settings.showEnd(current.end);
    if (opened) setColumns(opened, trees);
    if (position !== current.position) {
      position = current.position;
      parts.texts.show(position);
    }
    parts.line.update(current.analysis?.line ?? []);
    parts.board.show(current);
    parts.table.update(current.analysis, current.exact?.moves ?? null, position?.entries ?? []);
    parts.evaluation.update({ ...current, opened, side: position?.side, maximum: simulations });
  }

  function setColumns({ heads, exact }, trees) {
    const next = JSON.stringify([heads, exact, trees]);
    if (next !== columns) parts.table.setColumns(heads, Boolean(exact), trees);
    columns = next;
  }

  parts.onReview = () => update(store.get());
  return { update, showSession };
}

function makeParts(context, settings) {
  const { store } = context;
  const play = (name) => {
    context.playMove(name);
    // The engine of the Play view does not answer a move of the analysis.
    store.set({ paused: true });
  };
  const openRecord = (changes) => store.set({ ...changes, ply: changes.moves.length ? 0 : null, lines: [], resigned: null, paused: true }, { push: true });
  const parts = { onReview: () => {} };
  parts.line = makePrincipalLine((names) => names.forEach(play));
  parts.board = makeAnalysisBoard(context, play);
  parts.table = makeMoveTable({ onMove: play, onHover: parts.board.point });
  parts.evaluation = makeEvaluationPanel();
  parts.review = createReview(context, () => settings.options().variant, () => parts.onReview());
  parts.curve = makeCurve({ onChoose: (ply) => goTo(store, ply) });
  parts.moves = { element: make("div", { class: "game-moves" }) };
  parts.moves.update = makeMoveList(parts.moves.element, context);
  parts.record = makeRecordInput(context, "analysis-record", openRecord);
  parts.texts = makeTextFields();
  return parts;
}

function layOut(root, parts, settings) {
  const panel = (title, ...children) => make("details", { class: "panel", open: true }, make("summary", {}, title), children);
  const record = make("details", { class: "record-input" }, make("summary", {}, "Open a record"), parts.record.elements);
  root.append(make("div", { class: "split analyse" },
    make("div", { class: "board-side" }, settings.search, parts.board.element, parts.moves.element, parts.line.element, settings.display),
    make("div", { class: "panels" },
      panel("Evaluation", parts.evaluation.element, parts.table.element),
      panel("Review of the game", parts.review.element, parts.curve.element),
      panel("Record and export", record, parts.texts.element))));
}
