// The engine as a player: its search, its strength, and the words for its answers.

import { describeKept, formatCount, formatValue } from "./analysis_text.js";

// Levels of strength: a factor of the search's default simulations, and the temperature at which
// the move is sampled from the policy (0: the best move).
const LEVELS = [
  ["Beginner", 1 / 16, 1],
  ["Easy", 1 / 4, 0.5],
  ["Normal", 1, 0],
  ["Strong", 4, 0],
];

// Returns the server's description of the chosen search; the first one is the default. Of equal
// searches, such as that of the training and a variant, only the first has a description.
export function chosenSearch({ opened: { searches }, variant }) {
  return searches.find(({ name }) => name === variant)
    ?? searches.find((row) => row.variant === variant) ?? searches[0];
}

// Returns the search of the state, or the default one if the network has no such search, as
// { changes, problem }: the fields to change, and a sentence on the address, or "".
export function settleSearch({ searches }, { variant, simulations }) {
  // "own" is not listed if the default search is the own one.
  const isKnown = [null, "own"].includes(variant) || searches.some((row) => [row.name, row.variant].includes(variant));
  const count = chosenSearch({ opened: { searches }, variant }).trees.length;
  const fits = simulations === null || [1, count].includes(simulations.length);
  if (isKnown && fits) return { changes: {}, problem: "" };
  const problem = isKnown
    ? `simulations in the address: ${simulations.length} numbers do not fit a search with ${count === 1 ? "one tree" : `${count} trees`}`
    : `variant in the address: "${variant}" is not in the list of searches`;
  return { changes: { simulations: null, ...(!isKnown && { variant: null }) }, problem: `${problem}. The default is used.` };
}

// Returns the levels of the chosen search as { name, simulations, temperature, text }.
export function strengthLevels(state) {
  const numbers = chosenSearch(state).simulations;
  // The limit is of all trees together.
  const largest = state.welcome.limits.simulations / numbers.reduce((sum, number) => sum + number, 0);
  return LEVELS.map(([name, factor, temperature]) => {
    const round = factor < largest ? Math.round : Math.floor;
    const simulations = numbers.map((number) => Math.max(1, round(number * Math.min(factor, largest))));
    return { name, simulations, temperature, text: `${name} (${simulations.join(" + ")}, ${temperature})` };
  });
}

// Describes an answer `searched`; `view` says whose the value is.
export function describeSearch(answer, view) {
  const { value, simulations, line } = answer;
  const rest = line?.length > 1 ? ` Expected line: ${line.slice(0, 6).join(" ")}.` : "";
  return `value ${formatValue(value)} for ${view} (−1 loss, +1 win), ${formatCount(simulations)} simulations${describeKept(answer)}.${rest}`;
}

// Returns { search(options), stop(), warmUp(state) }. A search is that of the position and the settings of
// the store, but for the options; a new one stops the one before.
export function createEngine({ socket, store }) {
  let running = null;
  let warming = null;
  const stop = () => running?.abort();

  function search(options = {}) {
    stop();
    running = new AbortController();
    const { variant, simulations, temperature } = store.get();
    const message = { type: "search", ...store.position(), variant, simulations, temperature, ...options };
    return socket.request(message, { signal: running.signal });
  }

  // Lets the server compile a search while the user still thinks. The answers are not needed. The
  // second search continues the tree of the first, which is a program of its own.
  function warmUp({ checkpoint, ...options }) {
    warming?.abort();
    warming = new AbortController();
    const { signal } = warming;
    const message = { type: "search", checkpoint, fen: null, ...options, temperature: 0 };
    const ask = (moves) => socket.request({ ...message, moves }, { signal });
    ask([]).then((answer) => ask([answer.name])).catch(() => null);
  }
  return { search, stop, warmUp };
}
