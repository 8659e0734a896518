// The position that the Analyse view shows, with its running analysis and its exact values.

import { withoutLetters } from "/shared/text.js";
import { formatValue } from "./analysis_text.js";
import { createCache } from "./game.js";

const MAX_KEPT = 200;
// Milliseconds between a step and the search.
const WAIT = 60;
// position: the server's answer `position`; analysis, exact: the newest answers, or null;
// speed: simulations per second, or null; status: a sentence on the analysis; end: why there is nothing
// more to search, or null; hasFailed: whether the position could not be loaded.
const NOTHING = { position: null, analysis: null, exact: null, speed: null, status: "", end: null, hasFailed: false };

// Returns { current(), refresh(), setActive(isActive) }. `options` returns { isOn, variant, simulations };
// `onChange` is called when `current()` has changed. The last analysis of a position is kept, so that it
// is shown again when the user steps back.
export function createSession(context, options, onChange) {
  const { socket, store, getPosition, showError, announce } = context;
  const [analyses, exactValues] = [createCache(MAX_KEPT), createCache(MAX_KEPT)]; // by the key of the search and of the position
  let now = NOTHING;
  let [placeKey, loadedKey] = [null, null]; // the keys of the requested and the shown position
  let run = null; // the running search: its key, its stream, and its first answer
  let isActive = true;
  let pending = Promise.resolve(); // the last question for a position
  let pendingExact = Promise.resolve(); // the last question for exact values

  function change(changes) {
    now = { ...now, ...changes };
    onChange();
  }

  // Returns whether `current()` is the position of the store.
  async function refresh() {
    const { opened, view } = store.get();
    if (!isActive || !opened || view !== "analyse") {
      stopSearch();
      return false;
    }
    const place = store.position();
    const key = JSON.stringify(place);
    if (key !== placeKey && !(await load(place, key))) return false;
    if (key !== loadedKey || !isActive) return false; // is loading still, or failed, or the view was left
    search(place);
    return true;
  }

  // Returns whether the position was loaded and is still the one to show.
  //
  // One position is asked for at a time, and the search waits a moment, so that a key that is held
  // down does not send more messages than the server answers.
  async function load(place, key) {
    stopSearch();
    placeKey = key;
    const asked = pending.then(() => (key === placeKey ? getPosition(place) : null));
    pending = asked.catch(() => null);
    try {
      const position = await asked;
      if (key !== placeKey) return false;
      if (now.hasFailed) showError(null);
      change({ ...NOTHING, position, exact: exactValues.get(key) });
    } catch (error) {
      if (key !== placeKey) return false;
      change({ ...NOTHING, status: "This position cannot be shown.", hasFailed: true });
      showError(error);
      return false;
    }
    await new Promise((resolve) => setTimeout(resolve, WAIT));
    if (key !== placeKey) return false;
    loadedKey = key;
    loadExact(place, key);
    return true;
  }

  // Exact values are asked for one position at a time, as a solver may take long.
  async function loadExact(place, key) {
    if (!store.get().opened?.exact || now.position.is_over || now.exact) return;
    const isNeeded = () => key === placeKey && !now.exact;
    const asked = pendingExact.then(() => (isNeeded() ? socket.request({ type: "exact", ...place }) : null));
    pendingExact = asked.catch(() => null);
    try {
      const exact = await asked;
      if (exact === null || exact.value === null) return;
      exactValues.set(key, exact);
      if (key === placeKey) change({ exact });
    } catch (error) {
      showError(error);
    }
  }

  function search(place) {
    const { isOn, variant, simulations } = options();
    const key = JSON.stringify([place, variant, simulations]);
    if (now.position.is_over) {
      change({ status: `The game is over: ${withoutLetters(now.position.result?.text ?? "no winner")}.`, end: "Game over" });
    } else if (!isOn) {
      stopSearch();
      change({ analysis: analyses.get(key), speed: null, status: "Stopped.", end: null });
    } else if (key !== run?.key) {
      stopSearch();
      change({ analysis: analyses.get(key), speed: null, status: "Waiting for the search …", end: null });
      startSearch({ ...place, variant, simulations }, key);
    }
  }

  function startSearch(message, key) {
    const mine = { key, first: null };
    run = mine;
    mine.stream = socket.stream({ type: "analyse", ...message }, (answer) => run === mine && receive(answer), (error) => {
      if (run !== mine) return;
      change({ status: "The analysis has failed." });
      showError(error);
    });
  }

  function receive(answer) {
    if (answer.type === "stopped") return;
    analyses.set(run.key, answer);
    change({ analysis: answer, speed: measureSpeed(run, answer), status: answer.final ? "Finished." : "Running.",
      end: answer.final ? "Analysis finished" : null });
    if (!answer.final) return;
    announce(`Analysis finished after ${answer.simulations} simulations: `
      + `best move ${answer.line[0]}, value ${formatValue(answer.value)} for the side to move.`);
  }

  function stopSearch() {
    run?.stream?.stop();
    run = null;
  }

  return {
    current: () => now,
    refresh,
    setActive(next) {
      isActive = next;
      return refresh();
    },
  };
}

// Returns the simulations per second since the first answer, which may include a kept subtree; null
// until two answers are known.
function measureSpeed(run, answer) {
  // After an interruption of the connection, the server begins again.
  if (!run.first || answer.seconds < run.first.seconds) run.first = answer;
  const seconds = answer.seconds - run.first.seconds;
  return seconds > 0 ? (answer.simulations - run.first.simulations) / seconds : null;
}
