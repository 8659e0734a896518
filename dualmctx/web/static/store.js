// The state of the page. Its lasting part is in the address after "#", so that reloading, the back
// button, bookmarks and links bring it back; the server keeps no game.

import { NUMBERS } from "./analysis_board.js";

// How a value is read from the address and written to it. The message of an Error of `read` continues "NAME in the address: ".
const text = { read: (value) => value, write: (value) => value };
const list = { read: (value) => (value ? value.split(",") : []), write: (values) => values.join(",") };
const flag = { read: (value) => value === "1", write: (value) => (value ? "1" : "0") };
// Names of moves have no spaces.
const lists = { read: (value) => value.split(" ").map(list.read), write: (lines) => lines.map(list.write).join(" ") };

function oneOf(...values) {
  return { read: (value) => check(value, values.includes(value), values.join(", ")), write: (value) => value };
}

function number(lowest, highest, isWhole) {
  const range = `a ${isWhole ? "whole " : ""}number from ${lowest} to ${highest}`;
  const isIn = (value) => value >= lowest && value <= highest && (!isWhole || Number.isInteger(value));
  return { read: (value) => Number(check(value, value.trim() !== "" && isIn(Number(value)), range)), write: String };
}

function numbers(lowest, highest) {
  const one = number(lowest, highest, true);
  return { read: (value) => list.read(value).map(one.read), write: list.write };
}

function check(value, isRight, range) {
  if (!isRight) throw new Error(`"${value}" is not ${range}`);
  return value;
}

const MAX_SIMULATIONS = 1_000_000;
// The lasting fields: the value if the address has none, and how a value is read and written.
const FIELDS = Object.entries({
  view: { initial: "play", ...oneOf("play", "analyse", "trees") },
  checkpoint: { initial: null, ...text }, // the name of a network; null for the server's default
  fen: { initial: null, ...text }, // the position from which the moves start; null for the start of the game
  moves: { initial: [], ...list }, // names of all moves of the game
  ply: { initial: null, ...number(0, 1_000, true) }, // moves before the position that is shown; null for all
  lines: { initial: [], ...lists }, // earlier continuations, each a list of all moves
  first: { initial: "human", ...oneOf("human", "engine") }, // who plays the first side
  second: { initial: "engine", ...oneOf("human", "engine") },
  variant: { initial: null, ...text }, // the search; null for the default search
  simulations: { initial: null, ...numbers(1, MAX_SIMULATIONS) }, // per tree; null for the variant's default
  temperature: { initial: 0, ...number(0, 10, false) },
  flip: { initial: false, ...flag }, // whether the board is seen from the second side
  resigned: { initial: null, ...number(0, 1, true) }, // the side that resigned
  analysing: { initial: true, ...flag }, // whether the analysis runs
  maximum: { initial: null, ...number(1, 999_999_999, true) }, // of its simulations; null for the server's limit
  number: { initial: "weight", ...oneOf(...Object.keys(NUMBERS)) }, // shown on the board of the analysis
});

// Fields that a reload loses.
const PASSING = {
  welcome: null, // the server's answer `welcome`
  opened: null, // the server's answer `opened` for the chosen network; null while it is loading
  paused: false, // whether the engine waits
};

const readParameters = () => new URLSearchParams(window.location.hash.slice(1).replaceAll("+", "%2B"));

const writeParameter = (name, value) => (
  `${encodeURIComponent(name)}=${encodeURIComponent(value).replaceAll("%2C", ",")}`);

function writeAddress(state) {
  const parts = FIELDS.map(([name, field]) => {
    const [value, initial] = [state[name], field.initial].map((x) => (x === null ? "" : field.write(x)));
    return value === initial ? "" : writeParameter(name, value);
  });
  return `#${parts.filter(Boolean).join("&")}`;
}

// Returns the store of this page:
//   get()                the state: an object that is never changed, with all fields above
//   set(changes, {push}) changes fields; `push` makes the back button return to the state before
//   subscribe(listener)  calls listener(state, before) after each change
//   position(ply)        the position after `ply` moves, by default the one that is shown, as the
//                        server's messages have it
//   problems()           messages on fields of the address that could not be read
export function createStore() {
  const listeners = [];
  let problems = [];
  let state = Object.freeze({ ...PASSING, ...read() });

  function read() {
    const given = readParameters();
    problems = [];
    const found = Object.fromEntries(FIELDS.map(([name, field]) => [name, readField(name, field, given.get(name))]));
    return { ...found, ply: found.ply < found.moves.length ? found.ply : null };
  }

  function readField(name, field, value) {
    try {
      return value === null ? field.initial : field.read(value);
    } catch (error) {
      problems.push(`${name} in the address: ${error.message}. The default is used.`);
      return field.initial;
    }
  }

  function change(changes, keepAddress) {
    const before = state;
    state = Object.freeze({ ...state, ...changes });
    keepAddress();
    listeners.forEach((listener) => listener(state, before));
  }

  function set(changes, { push = false } = {}) {
    change(changes, () => {
      const hash = writeAddress(state);
      if (hash === (window.location.hash || "#")) return;
      window.history[push ? "pushState" : "replaceState"](null, "", hash);
    });
  }

  // The back button, or an address typed by hand, which may name no network.
  window.addEventListener("popstate", () => {
    const found = read();
    change({ ...found, checkpoint: found.checkpoint ?? state.checkpoint, paused: false }, () => {});
  });

  function position(ply = state.ply ?? state.moves.length) {
    return { checkpoint: state.checkpoint, moves: state.moves.slice(0, ply), fen: state.fen };
  }

  return { get: () => state, set, position, problems: () => problems, subscribe: (listener) => listeners.push(listener) };
}
