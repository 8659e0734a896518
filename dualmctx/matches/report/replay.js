"use strict";
// Steps through the games of a report. `make_replays` describes the data.

const CELL = 40;

// Returns the boards of a game, one array of the numbers of cells per position.
function decodeBoards(game) {
  const boards = [game.start];
  for (const changes of game.changes) {
    const board = boards[boards.length - 1].slice();
    for (let i = 0; i < changes.length; i += 2) board[changes[i]] = changes[i + 1];
    boards.push(board);
  }
  return boards;
}

// Returns the indices of the cells that the move before a position has changed. Where most of the
// board changes, as in drawings from the view of the player to move, none is marked.
function markedCells(game, position) {
  const changes = position > 0 ? game.changes[position - 1] : [];
  const indices = changes.filter((_, i) => i % 2 === 0);
  return indices.length * 3 <= game.start.length ? indices : [];
}

// Describes a position: the last move, the player to move, and the result at the end.
function describePosition(game, position) {
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

function titleOf(game, number) {
  const result = { "1": "1–0", "0": "½–½", "-1": "0–1" }[game.result];
  return `${number + 1}. ${game.players[0]} – ${game.players[1]}: ${result}, ${game.moves.length} moves`;
}

function escapeText(text) {
  return text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
}

// Returns the drawing of a board as SVG.
function drawBoard(board, width, cells, marked) {
  const height = board.length / width;
  const parts = board.map((number, i) => {
    const cell = cells[number];
    if (cell === "") return "";
    const x = (i % width) * CELL;
    const y = Math.floor(i / width) * CELL;
    const fill = marked.includes(i) ? "#ffe9a8" : "#fff";
    const square = `<rect x="${x}" y="${y}" width="${CELL}" height="${CELL}" fill="${fill}" stroke="#888"/>`;
    const middle = `x="${x + CELL / 2}" y="${y + CELL / 2}"`;
    if (cell === "x" || cell === "o") {
      const stone = cell === "x" ? "#222" : "#fff";
      return `${square}<circle cx="${x + CELL / 2}" cy="${y + CELL / 2}" r="${0.38 * CELL}" fill="${stone}" stroke="#222"/>`;
    }
    if (cell === ".") return square;
    const size = [...cell].length > 1 ? 14 : 26;
    return `${square}<text ${middle} font-size="${size}" text-anchor="middle" dominant-baseline="central">${escapeText(cell)}</text>`;
  });
  const box = `-1 -1 ${width * CELL + 2} ${height * CELL + 2}`;
  return `<svg viewBox="${box}" width="${width * CELL}" role="img" aria-label="board">${parts.join("")}</svg>`;
}

function startViewer(root, data) {
  const part = (name) => root.querySelector(`.${name}`);
  const choice = part("choice");
  let game = null;
  let boards = [];
  let position = 0;

  function show(next) {
    position = Math.min(Math.max(next, 0), game.moves.length);
    if (boards.length) {
      part("board").innerHTML = drawBoard(boards[position], game.width, data.cells, markedCells(game, position));
      part("caption").textContent = data.captions[game.shown[position]];
    }
    part("status").textContent = describePosition(game, position);
    [...part("moves").children].forEach((move, i) => {
      move.classList.toggle("now", i + 1 === position);
    });
  }

  function choose(number) {
    game = data.games[number];
    boards = game.start ? decodeBoards(game) : [];
    part("moves").replaceChildren(...game.moves.map((text, i) => {
      const move = document.createElement("button");
      move.type = "button";
      move.textContent = `${i + 1}. ${text}`;
      move.classList.toggle("opening", i < game.opening);
      move.addEventListener("click", () => show(i + 1));
      return move;
    }));
    choice.value = String(number);
    // The first position that the players chose from.
    show(game.opening);
  }

  data.games.forEach((row, number) => {
    const option = document.createElement("option");
    option.value = String(number);
    option.textContent = titleOf(row, number);
    choice.append(option);
  });
  const steps = { first: () => show(0), back: () => show(position - 1), next: () => show(position + 1), last: () => show(game.moves.length) };
  for (const [name, step] of Object.entries(steps)) part(name).addEventListener("click", step);
  choice.addEventListener("change", () => choose(Number(choice.value)));
  document.addEventListener("keydown", (event) => {
    const isOther = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey;
    const step = { ArrowLeft: steps.back, ArrowRight: steps.next }[event.key];
    if (!step || isOther || event.target === choice) return;
    event.preventDefault();
    step();
  });
  choose(0);
}

if (typeof document !== "undefined") {
  const data = JSON.parse(document.getElementById("replay-data").textContent);
  startViewer(document.getElementById("replay"), data);
}
