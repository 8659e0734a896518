// The state of the page. Its lasting part is in the address after "#", so that reloading, the back
// button, bookmarks and links bring it back; the server keeps no game.

const text = { read: (value) => value, write: (value) => value };
const list = {
  read: (value) => (value ? value.split(",") : []),
  write: (values) => values.join(","),
};
const flag = { read: (value) => value === "1", write: (value) => (value ? "1" : "") };

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

const readParameters = () => new URLSearchParams(window.location.hash.slice(1).replaceAll("+", "%2B"));

const writeParameter = (name, value) => (
  `${encodeURIComponent(name)}=${encodeURIComponent(value).replaceAll("%2C", ",")}`);

function check(value, isRight, range) {
  if (!isRight) throw new Error(`"${value}" is not ${range}`);
  return value;
}

// The lasting fields: the value if the address has none, and how a value is read and written.
// A view may add its own with `store.addField`.
const FIELDS = new Map([
  // "play", "analyse" or "trees"
  ["view", { initial: "play", ...oneOf("play", "analyse", "trees") }],
  // the name of a network; null for the server's default
  ["checkpoint", { initial: null, ...text }],
  // the position from which the moves start; null for the start of the game
  ["fen", { initial: null, ...text }],
  // names of all moves of the game
  ["moves", { initial: [], ...list }],
  // number of moves before the position that is shown; null for all
  ["ply", { initial: null, ...number(0, 1_000, true) }],
  // earlier continuations that were replaced by other moves, each a list of all moves
  ["lines", {
    initial: [],
    read: (value) => value.split(" ").map(list.read), // names of moves have no spaces
    write: (lines) => lines.map(list.write).join(" "),
  }],
  // who plays the first and the second side
  ["first", { initial: "human", ...oneOf("human", "engine") }],
  ["second", { initial: "engine", ...oneOf("human", "engine") }],
  // the search; null for the network's own
  ["variant", { initial: null, ...text }],
  // simulations per tree; null for the variant's default
  ["simulations", { initial: null, ...numbers(1, 1_000_000) }],
  ["temperature", { initial: 0, ...number(0, 10, false) }],
  // whether the board is seen from the second side
  ["flip", { initial: false, ...flag }],
  // the side that resigned, 0 or 1
  ["resigned", { initial: null, ...number(0, 1, true) }],
]);

// Fields that a reload loses.
const PASSING = {
  welcome: null, // the server's answer `welcome`
  opened: null, // the server's answer `opened` for the chosen network; null while it is loading
  paused: false, // whether the engine waits
};

// Returns the store of this page:
//   get()                the state: an object that is never changed, with all fields above
//   set(changes, {push}) changes fields; `push` makes the back button return to the state before
//   subscribe(listener)  calls listener(state, before) after each change
//   position(ply)        the position after `ply` moves, by default the one that is shown, as the
//                        server's messages have it
//   problems()           messages on fields of the address that could not be read
//   addField(name, field)  adds a lasting field: {initial, read(text), write(value)}; errors of
//                        `read` are Errors whose message continues "NAME in the address: "
export function createStore() {
  const fields = new Map(FIELDS);
  const listeners = new Set();
  let problems = [];
  let state = Object.freeze({ ...PASSING, ...read() });

  function read() {
    const given = readParameters();
    problems = [];
    const found = Object.fromEntries([...fields].map(([name, field]) => [name, readField(name, field, given.get(name))]));
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

  function address() {
    const parts = [...fields].map(([name, field]) => {
      const [value, initial] = [state[name], field.initial].map((x) => (x === null ? "" : field.write(x)));
      return value === initial ? "" : writeParameter(name, value);
    });
    // A view that is not loaded yet adds its fields later.
    const others = [...readParameters()].filter(([name]) => !fields.has(name)).map(([name, value]) => writeParameter(name, value));
    return `#${[...parts, ...others].filter(Boolean).join("&")}`;
  }

  function change(changes, keepAddress) {
    const before = state;
    state = Object.freeze({ ...state, ...changes });
    keepAddress();
    listeners.forEach((listener) => listener(state, before));
  }

  function set(changes, { push = false } = {}) {
    change(changes, () => {
      const hash = address();
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

  function addField(name, field) {
    fields.set(name, field);
    state = Object.freeze({ ...state, [name]: read()[name] });
  }

  return {
    get: () => state,
    set,
    position,
    addField,
    problems: () => problems,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
