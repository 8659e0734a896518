// The Play view: a game of humans and the engine.

import { make, makeButton } from "/shared/dom.js";
import { capitalize, withoutLetters } from "/shared/text.js";
import { makeBoard } from "./board.js";
import { createEngine, describeSearch } from "./engine.js";
import { nameSide, startNewGame, undoMove } from "./game.js";
import { makeMoveList } from "./move_list.js";
import { makeRecord } from "./record.js";
import { makeSettings } from "./settings.js";

// A change of these fields changes the position or who is to move.
const RELEVANT = [
  "welcome", "checkpoint", "fen", "moves", "ply", "first", "second", "variant", "simulations", "temperature",
  "resigned", "paused", "view",
];
// Pause between the moves of two engines, in milliseconds.
const WAIT = 400;

export function startPlay(root, context) {
  const { store, showError } = context;
  const view = makeLayout(root, context);
  const engine = createEngine(context);
  let warmed = ""; // the search that was compiled last
  let version = 0; // counts the updates, so that late answers to earlier ones are dropped

  async function update() {
    version += 1;
    const mine = version;
    engine.stop();
    view.isCurrent = false;
    delete view.status.dataset.shown;
    const state = store.get();
    if (!state.welcome || state.view !== "play") return;
    if (view.checkpoint !== state.checkpoint) view.status.textContent = "Loading the board …";
    try {
      const position = await context.getPosition(store.position());
      if (mine !== version) return;
      // The description of the network may have arrived in the meantime.
      showPosition(view, position, store.get());
      context.announce(describeChange(view, store.get()));
      if (isEngineToMove(position, state)) await playEngine(state, mine);
    } catch (error) {
      if (mine !== version) return;
      view.status.textContent = "The game has stopped. Start a new game, or take back a move.";
      showError(error);
    }
  }

  // Compiles the chosen search once the network is open and whenever the search changes.
  function warmUp({ view: shown, opened, checkpoint, variant, simulations }) {
    const wanted = JSON.stringify([checkpoint, variant, simulations]);
    if (shown !== "play" || !opened || wanted === warmed) return;
    warmed = wanted;
    engine.warmUp({ checkpoint, variant, simulations });
  }

  async function playEngine(state, mine) {
    if (state.first === state.second) await new Promise((resolve) => setTimeout(resolve, WAIT));
    if (mine !== version) return;
    const answer = await engine.search();
    if (mine !== version) return;
    view.comment.textContent = `The engine played ${answer.name}: ${describeSearch(answer, "itself")}`;
    context.playMove(answer.name, { push: false });
  }

  async function hint() {
    const mine = version;
    view.comment.textContent = "Searching for a hint …";
    try {
      const answer = await engine.search({ temperature: 0 });
      if (mine !== version) return;
      view.board.setArrow(view.position.entries.find((entry) => entry.action === answer.action));
      view.comment.textContent = `Hint: ${answer.name}, ${describeSearch(answer, "the side to move")}`;
      context.announce(view.comment.textContent);
    } catch (error) {
      // A second hint, which stops this one, keeps the text.
      if (mine !== version || error.name !== "AbortError") view.comment.textContent = "";
      if (mine === version) showError(error);
    }
  }

  function updateParts(state) {
    view.updates.forEach((listener) => listener(state));
    warmUp(state);
  }

  view.actions.hint.addEventListener("click", hint);
  store.subscribe((state, before) => {
    updateParts(state);
    if (before.welcome && (state.moves !== before.moves || state.checkpoint !== before.checkpoint)) {
      showError(null);
      if (state.moves.length < before.moves.length) view.comment.textContent = "";
    }
    if (RELEVANT.some((name) => state[name] !== before[name])) update();
    else if (view.position && (state.flip !== before.flip || state.opened !== before.opened)) {
      showPosition(view, view.position, state);
    }
  });
  updateParts(store.get());
  update();
  return { show: update, hide: engine.stop };
}

function makeLayout(root, context) {
  const { store, getPosition, showError } = context;
  const status = make("p", { class: "status", id: "status" });
  const detail = make("p", { class: "detail" });
  const banner = make("p", { class: "banner", hidden: true });
  const comment = make("p", { class: "comment" });
  const boardRoot = make("div");
  const actions = {
    new: makeButton("New game", () => startNewGame(store), { class: "main" }),
    undo: makeButton("Undo", () => undoMove(store, getPosition).catch(showError), { disabled: true }),
    hint: makeButton("Hint", () => {}, { disabled: true }),
    resign: makeButton("Resign", () => resign(view.position, store), { disabled: true }),
    pause: makeButton("Pause", () => store.set({ paused: !store.get().paused })),
    flip: makeButton("Flip board", () => store.set({ flip: !store.get().flip })),
  };
  const [moves, settings, record] = ["Moves", "Settings", "Record"].map((title) => (
    make("details", { class: "panel", open: title !== "Record" }, make("summary", {}, title))));
  root.append(make("div", { class: "split" },
    make("div", { class: "board-side" }, status, detail, banner, boardRoot,
      make("div", { class: "actions", role: "group", "aria-label": "Game" }, Object.values(actions)), comment),
    make("div", { class: "panels" }, moves, settings, record)));
  const board = makeBoard(boardRoot, { onMove: (entry) => view.isCurrent && context.playMove(entry.name) });
  const updates = [makeMoveList(moves, context), makeSettings(settings, context), makeRecord(record, context)];
  // `isCurrent`: whether the board shows the position of the state, and not one before it.
  const view = { status, detail, banner, comment, actions, board, updates, position: null, checkpoint: null, isCurrent: false };
  return view;
}

function showPosition(view, position, state) {
  const [players, isOver] = [playersOf(state), isGameOver(position, state)];
  const isLast = state.ply === null;
  const isHuman = players[position.side] === "human";
  const isActive = !isOver && (isHuman || !isLast);
  Object.assign(view, { position, checkpoint: state.checkpoint, isCurrent: true });
  view.board.draw(position, { game: gameOf(state), players: state.opened?.players, flip: state.flip, isActive });
  view.status.textContent = describeTurn(position, state, { isLast, isHuman, isOver });
  view.status.dataset.shown = state.ply ?? state.moves.length;
  view.detail.textContent = describeDetails(position.picture.caption);
  view.detail.hidden = !view.detail.textContent;
  view.banner.hidden = !isOver;
  view.banner.textContent = isOver ? describeResult(position, state) : "";
  const { actions } = view;
  actions.undo.disabled = state.moves.length === 0 && state.resigned === null;
  actions.hint.disabled = !isActive;
  actions.resign.disabled = isOver || !isLast || !players.includes("human");
  actions.pause.hidden = !players.includes("engine");
  actions.pause.textContent = state.paused ? "Continue" : "Pause";
  actions.flip.hidden = !position.picture.is_chess;
}

const playersOf = ({ first, second }) => [first, second];

// Whether the game is over in this position. `ply` is null at the end of the game.
const isGameOver = (position, { resigned, ply }) => position.is_over || (resigned !== null && ply === null);

function isEngineToMove(position, state) {
  return !isGameOver(position, state) && !state.paused && state.ply === null && playersOf(state)[position.side] === "engine";
}

// The human gives up, or the side to move if both are human.
function resign(position, store) {
  const { first, second } = store.get();
  const ofHuman = first === "human" ? 0 : 1;
  store.set({ resigned: first === second ? position.side : ofHuman }, { push: true });
}

const gameOf = ({ welcome, checkpoint }) => (
  welcome.checkpoints.find((row) => row.name === checkpoint)?.game ?? "");

function describeTurn(position, state, { isLast, isHuman, isOver }) {
  if (isOver) return "The game is over.";
  const side = nameSide(state, position.side);
  if (!isLast) return `Position after move ${state.ply} of ${state.moves.length}: ${side} to move. A move starts a new line.`;
  if (isHuman) return state.first === state.second ? `${side} to move.` : `Your move (${side}).`;
  return state.paused ? `The engine (${side}) is paused.` : `The engine (${side}) is thinking …`;
}

// Returns the words for screen readers: the last move, who is to move, and the result.
function describeChange({ status, banner }, { moves, ply }) {
  const count = ply ?? moves.length;
  const move = count ? `Move ${count}: ${moves[count - 1]}. ` : "";
  return `${move}${status.textContent} ${banner.textContent}`.trim();
}

// Returns the rest of a caption without the game, the side to move and the winner, such as the
// number of tests left.
function describeDetails(caption) {
  return caption.split(", ").slice(1).filter((part) => !/ won$|no winner/.test(part)).join(", ");
}

function describeResult({ result }, state) {
  const isResigned = state.resigned !== null;
  const winner = isResigned ? 1 - state.resigned : result?.winner ?? null;
  if (winner === null) return "Draw.";
  const text = isResigned ? `${nameSide(state, state.resigned)} resigned` : capitalize(withoutLetters(result.text));
  if (state.first !== state.second) return `${playersOf(state)[winner] === "human" ? "You win" : "The engine wins"}. ${text}`;
  return `${nameSide(state, winner)} wins.${isResigned ? ` ${text}` : ""}`;
}
