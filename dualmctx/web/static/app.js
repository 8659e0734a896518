// The page: the tabs, the choice of the network, the connection, and messages.
//
// Each view is a module with a function start…(root, context), called when its tab is first
// opened. It may return { show, hide }, called when the tab is opened again and left.
//
// root: the view's own element, empty.
// context:
//   socket, store           see socket.js and store.js
//   getPosition(position)   promise of the server's answer `position`; answers are kept
//   playMove(name, {push})  plays a move in the position that is shown; see game.js
//   announce(text)          reads a text to users of screen readers
//   showError(error)        shows an Error or a text above the view; null removes it

import { make, setOptions } from "/shared/dom.js";
import { capitalize, withoutLetters } from "/shared/text.js";
import { startAnalyse } from "./analyse.js";
import { settleSearch } from "./engine.js";
import { createPositions, playMove, startNewGame } from "./game.js";
import { startPlay } from "./play.js";
import { connect } from "./socket.js";
import { createStore } from "./store.js";
import { startTrees } from "./trees.js";

const VIEWS = { play: startPlay, analyse: startAnalyse, trees: startTrees };

const part = (name) => document.getElementById(name);

function announce(text) {
  part("announcement").textContent = text;
}

function showError(error) {
  if (error?.name === "AbortError") return;
  const text = error === null ? "" : error.message ?? String(error);
  part("error").hidden = !text;
  part("error").replaceChildren(...text.split("\n").map((line) => make("p", {}, line)));
}

// Says which parts of the address could not be read.
function showProblems(store) {
  if (store.problems().length) showError(store.problems().join("\n"));
}

// Shows the newest progress of the server's work in the place of the connection; null removes it.
function showProgress(answer) {
  part("progress").hidden = !answer;
  part("connection").hidden = Boolean(answer);
  if (!answer) return;
  const share = answer.total ? ` ${answer.done} of ${answer.total}` : "";
  const time = answer.seconds === undefined ? "" : ` (${Math.round(answer.seconds)} s)`;
  part("progress").textContent = `${capitalize(answer.stage)}${share}${time} …`;
}

function showConnection({ isOpen, text }) {
  part("connection").textContent = isOpen ? "Connected" : text ? `${text} Trying again …` : "Connecting …";
  part("connection").classList.toggle("lost", !isOpen && text !== "");
  if (!isOpen && text) announce(text);
}

// Returns show(name), which shows a view, hides the others, and starts it if it is new.
function createTabs(context) {
  const names = Object.keys(VIEWS);
  const started = {};
  let shown = null;

  function chooseByKey(event, place) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const next = names.at((place + step) % names.length);
    context.store.set({ view: next });
    part(`tab-${next}`).focus();
  }

  names.forEach((name, place) => {
    part(`tab-${name}`).addEventListener("click", () => context.store.set({ view: name }));
    part(`tab-${name}`).addEventListener("keydown", (event) => chooseByKey(event, place));
  });
  return (name) => {
    started[shown]?.hide?.();
    shown = name;
    for (const key of names) {
      part(`view-${key}`).hidden = key !== name;
      part(`tab-${key}`).setAttribute("aria-selected", String(key === name));
      part(`tab-${key}`).tabIndex = key === name ? 0 : -1;
    }
    if (started[name]) started[name].show?.();
    else started[name] = VIEWS[name](part(`view-${name}`), context) ?? {};
  };
}

// Asks for the networks, then opens the chosen one whenever the choice changes.
async function startNetworks({ socket, store }) {
  let opening = null;
  async function open(checkpoint) {
    opening?.abort();
    opening = new AbortController();
    store.set({ opened: null });
    try {
      const opened = await socket.request({ type: "open", checkpoint }, { signal: opening.signal });
      settle({ ...opened, players: opened.players.map(withoutLetters) });
    } catch (error) {
      showError(error);
    }
  }
  // An address that was typed or copied may name a search that this network does not have.
  function settle(opened) {
    const { changes, problem } = settleSearch(opened, store.get());
    store.set({ opened, ...changes });
    if (problem) showError([...store.problems(), problem].join("\n"));
  }
  window.addEventListener("popstate", () => {
    const { opened } = store.get();
    if (opened) showError(null); // else it says why the network could not be opened
    showProblems(store);
    if (opened) settle(opened);
  });
  store.subscribe((state, before) => {
    part("checkpoint").value = state.checkpoint;
    if (!before.welcome || state.checkpoint === before.checkpoint) return;
    showError(null);
    open(state.checkpoint);
  });
  part("checkpoint").addEventListener("change", () => chooseNetwork(store, part("checkpoint").value));
  try {
    const welcome = await socket.request({ type: "hello" });
    const checkpoint = store.get().checkpoint ?? welcome.default;
    setOptions(part("checkpoint"), welcome.checkpoints.map((row) => [row.name, row.title]), checkpoint);
    store.set({ welcome, checkpoint });
    open(checkpoint);
  } catch (error) {
    showError(error);
  }
}

// Another network of the same game continues the game; another game, or another board of it, begins a new one.
function chooseNetwork(store, name) {
  const { welcome, checkpoint } = store.get();
  // Titles have the parameters of games.
  const titleOf = (key) => welcome.checkpoints.find((row) => row.name === key)?.title;
  const search = { checkpoint: name, variant: null, simulations: null };
  if (titleOf(name) === titleOf(checkpoint)) store.set(search, { push: true });
  else startNewGame(store, search);
}

function startPage() {
  const store = createStore();
  const socket = connect(showConnection, showProgress);
  const getPosition = createPositions(socket);
  const context = {
    socket, store, getPosition, announce, showError,
    playMove: (name, options) => playMove(store, name, options),
  };
  const showView = createTabs(context);
  showProblems(store);
  store.subscribe((state, before) => state.view !== before.view && showView(state.view));
  startNetworks(context);
  showView(store.get().view);
}

startPage();
