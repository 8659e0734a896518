// Steps through the games of a report. `make_replays` describes the data.

import { listenToKeys, make, makeButton, makeField, makeIcon, setOptions } from "/shared/dom.js";
import { drawBoard, shapeOf } from "/shared/draw_board.js";

// Returns the boards of a game, one array of the numbers of cells per position.
export function decodeBoards(game) {
  const boards = [game.start];
  for (const changes of game.changes) {
    const board = boards.at(-1).slice();
    for (let i = 0; i < changes.length; i += 2) board[changes[i]] = changes[i + 1];
    boards.push(board);
  }
  return boards;
}

// Describes a position: the last move, the player to move, and the result at the end.
export function describePosition(game, position) {
  const count = game.moves.length;
  const names = game.players;
  if (position === 0) return `Start: ${names[0]} has the first side, ${names[1]} the second.`;
  const move = game.moves[position - 1];
  const text = position <= game.opening
    ? `Move ${position} of ${count}: ${move}, given by the opening.`
    : `Move ${position} of ${count}: ${names[game.sides[position - 1]]} played ${move}.`;
  return position < count ? `${text} ${names[game.sides[position]]} moves next.` : `${text} ${describeResult(game)}`;
}

function describeResult(game) {
  if (game.result !== 0) return `${game.players[game.result > 0 ? 0 : 1]} won.`;
  return game.is_over ? "The game is drawn." : "The game was cut short and counts as drawn.";
}

export function titleOf(game, number) {
  const result = { "1": "1–0", "0": "½–½", "-1": "0–1" }[game.result];
  return `${number + 1}. ${game.players[0]} – ${game.players[1]}: ${result}, ${game.moves.length} moves`;
}

// Returns the picture of a board. Shorter rows were filled with empty texts.
export function makePicture(data, game, board, position) {
  const rows = [];
  for (let i = 0; i < board.length; i += game.width) {
    const row = board.slice(i, i + game.width).map((number) => data.cells[number]);
    while (row.at(-1) === "") row.pop();
    rows.push(row);
  }
  const marked = position ? game.marked[position - 1] : [];
  const places = marked.map((i) => [Math.floor(i / game.width), i % game.width]);
  return { ...data, rows, marked: places, caption: data.captions[game.shown[position]] };
}

// Shows the games inside `root`.
export function startViewer(root, data) {
  const choice = make("select", { class: "choice", onchange: () => choose(Number(choice.value)) });
  const [frame, caption] = [make("div"), make("p", { class: "caption note" })];
  const status = make("p", { class: "status", "aria-live": "polite" });
  const moves = make("div", { class: "moves" });
  const step = (number) => show(position + number);
  root.append(make("p", {}, makeField("Game ", choice)), frame, caption, status, make("p", {},
    makeIcon("|◀", "first position", () => show(0), { class: "first" }), " ",
    makeIcon("◀", "one move back", () => step(-1), { class: "back" }), " ",
    makeIcon("▶", "one move forward", () => step(1), { class: "next" }), " ",
    makeIcon("▶|", "last position", () => show(Infinity), { class: "last" })), moves);
  let game = null;
  let boards = [];
  let position = 0;

  function show(next) {
    position = Math.min(Math.max(next, 0), game.moves.length);
    if (boards.length) {
      const picture = makePicture(data, game, boards[position], position);
      frame.replaceChildren(drawBoard({ picture, shape: shapeOf(data.game) }, data.game).svg);
      caption.textContent = picture.caption;
    }
    status.textContent = describePosition(game, position);
    [...moves.children].forEach((move, i) => move.classList.toggle("now", i + 1 === position));
  }

  function choose(number) {
    game = data.games[number];
    boards = game.start ? decodeBoards(game) : [];
    moves.replaceChildren(...game.moves.map((text, i) => (
      makeButton(`${i + 1}. ${text}`, () => show(i + 1), { class: i < game.opening && "opening" }))));
    // The first position that the players chose from.
    show(game.opening);
  }

  setOptions(choice, data.games.map((row, number) => [number, titleOf(row, number)]), 0);
  listenToKeys({ ArrowLeft: () => step(-1), ArrowRight: () => step(1) }, (event) => event.target === choice);
  choose(0);
}
