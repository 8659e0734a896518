// The position that the Analyse view shows, with its running analysis and its exact values.

import { createAnalysis } from "./analysis_stream.js";
import { formatValue } from "./analysis_text.js";
import { withoutLetters } from "./game.js";

const MAX_KEPT = 200;
// Milliseconds between a step and the search.
const WAIT = 60;
// position: the server's answer `position`; analysis, exact: the newest answers, or null;
// speed: simulations per second, or null; status: a sentence on the analysis; end: why there is nothing
// more to search, or null; hasFailed: whether the position could not be loaded.
const NOTHING = { position: null, analysis: null, exact: null, speed: null, status: "", end: null, hasFailed: false };

// Returns { current(), refresh(), setActive(isActive) }.
//
// The last analysis of a position is kept, so that it is shown again when the user steps back.
// options: returns { isOn, variant, simulations } for the analysis.
// onChange: called when `current()` has changed.
export function createSession(context, options, onChange) {
  const { socket, store, getPosition, showError, announce } = context;
  const [analyses, exactValues] = [createCache(), createCache()];
  const stream = createAnalysis(socket, {
    onAnswer,
    onError(error) {
      change({ status: "The analysis has failed." });
      showError(error);
    },
  });
  let now = NOTHING;
  let [placeKey, loadedKey, searchKey] = [null, null, null]; // the keys of the requested, the shown and the searched position
  let isActive = true;
  let pending = Promise.resolve(); // the last question for a position
  let pendingExact = Promise.resolve(); // the last question for exact values

  function change(changes) {
    now = { ...now, ...changes };
    onChange();
  }

  function onAnswer(analysis, speed) {
    analyses.set(searchKey, analysis);
    change({ analysis, speed, status: analysis.final ? "Finished." : "Running.", end: analysis.final ? "Analysis finished" : null });
    if (!analysis.final) return;
    announce(`Analysis finished after ${analysis.simulations} simulations: `
      + `best move ${analysis.line[0]}, value ${formatValue(analysis.value)} for the side to move.`);
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
    if (key !== loadedKey) return false; // is loading still, or failed
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
      return;
    }
    if (!isOn) {
      stopSearch();
      change({ analysis: now.analysis ?? analyses.get(key), speed: null, status: "Stopped.", end: null });
      return;
    }
    if (key === searchKey) return;
    searchKey = key;
    change({ analysis: analyses.get(key), speed: null, status: "Waiting for the search …", end: null });
    stream.start({ ...place, variant, simulations });
  }

  function stopSearch() {
    stream.stop();
    searchKey = null;
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

// Returns a map that forgets its oldest entries.
function createCache() {
  const entries = new Map();
  return {
    get: (key) => entries.get(key) ?? null,
    set(key, value) {
      entries.set(key, value);
      if (entries.size > MAX_KEPT) entries.delete(entries.keys().next().value);
    },
  };
}
