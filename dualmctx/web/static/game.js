// The moves of the game: how a move, an undo or a step through the game changes the state.

import { capitalize } from "/shared/text.js";

const MAX_KEPT = 500;
const MAX_LINES = 8;

// Returns the name of a side, as the first word of a sentence.
export function nameSide({ opened }, side) {
  return capitalize(opened?.players[side] ?? ["first player", "second player"][side]);
}

// Returns a map that forgets its oldest entries.
export function createCache(size) {
  const entries = new Map();
  return {
    get: (key) => entries.get(key) ?? null,
    delete: (key) => entries.delete(key),
    set(key, value) {
      entries.set(key, value);
      if (entries.size > size) entries.delete(entries.keys().next().value);
    },
  };
}

// Returns getPosition(position): a promise of the server's answer, kept for repeated questions.
export function createPositions(socket) {
  const kept = createCache(MAX_KEPT);
  return (position) => {
    const key = JSON.stringify(position);
    if (!kept.get(key)) {
      const answer = socket.request({ type: "position", ...position });
      answer.catch(() => kept.delete(key));
      kept.set(key, answer);
    }
    return kept.get(key);
  };
}

// Plays a move in the position that is shown. If other moves followed there, they are kept as an
// earlier line, to which the user can return.
//
// push: whether the back button takes the move back.
export function playMove(store, name, { push = true } = {}) {
  const { moves, ply, lines } = store.get();
  const shown = ply ?? moves.length;
  if (moves[shown] === name) {
    goTo(store, shown + 1);
    return;
  }
  const next = [...moves.slice(0, shown), name];
  store.set({ moves: next, ply: null, lines: keepLine(lines, moves, next), resigned: null }, { push });
}

// Returns the earlier lines with `moves`, without those that `next` or another line continues.
function keepLine(lines, moves, next) {
  const continues = (long, short) => short.every((move, i) => move === long[i]);
  const others = lines.filter((line) => !continues(next, line) && !continues(moves, line));
  const isLost = !continues(next, moves) && !others.some((line) => continues(line, moves));
  return (isLost ? [...others, moves] : others).slice(-MAX_LINES);
}

// Makes an earlier line the game; the present one becomes an earlier line.
export function chooseLine(store, line) {
  const { moves, lines } = store.get();
  store.set({ moves: line, ply: null, lines: keepLine(lines, moves, line), resigned: null }, { push: true });
}

// Shows the position after `ply` moves.
export function goTo(store, ply) {
  const count = store.get().moves.length;
  const place = Math.min(Math.max(ply, 0), count);
  store.set({ ply: place === count ? null : place });
}

// Shows a position some moves later, or earlier for a negative number.
export function step(store, number) {
  const { moves, ply } = store.get();
  goTo(store, (ply ?? moves.length) + number);
}

export function startNewGame(store, changes = {}) {
  const fresh = { moves: [], ply: null, fen: null, lines: [], resigned: null, paused: false };
  store.set({ ...fresh, ...changes }, { push: true });
}

// Takes back the moves since the last one of a human; without a human, one move.
export async function undoMove(store, getPosition) {
  const { moves, first, second, resigned } = store.get();
  if (resigned !== null) {
    store.set({ resigned: null }, { push: true });
    return;
  }
  const players = [first, second];
  const isOfHuman = async (ply) => players[(await getPosition(store.position(ply))).side] === "human";
  let ply = moves.length - 1;
  if (players.includes("human")) {
    while (ply >= 0 && !(await isOfHuman(ply))) ply -= 1;
  }
  // The first move may be the engine's: it stays, or the engine would only repeat it.
  if (ply < 0 || store.get().moves !== moves) return;
  store.set({ moves: moves.slice(0, ply), ply: null, paused: false }, { push: true });
}
