"use strict";
// Steps through the games of a report. `make_replays` describes the data.

const CELL = 40;
// The solid symbols for both sides, as text and not as coloured pictures.
const PIECES = Object.fromEntries([..."kqrbnp"].map((piece, i) => [piece, "♚♛♜♝♞♟"[i] + "\ufe0e"]));

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

// Returns the drawing of a board as SVG: the cells, the stones or pieces, and the labels.
function drawBoard(board, width, data, marked) {
  const height = board.length / width;
  const cells = board.map((number, i) => {
    const cell = data.cells[number];
    if (cell === "") return "";
    const [x, y] = [i % width, Math.floor(i / width)];
    const fill = marked.includes(i) ? "#b9d977" : data.is_chess ? ["#f0e2c8", "#c19a6b"][(height - y + x) % 2] : "#fff";
    const square = `<rect x="${x * CELL}" y="${y * CELL}" width="${CELL}" height="${CELL}" fill="${fill}" stroke="#888"/>`;
    return square + drawCell(cell, (x + 0.5) * CELL, (y + 0.5) * CELL, data.is_chess);
  });
  const labels = [
    ...data.row_labels.map((label, y) => drawText(label, -CELL / 4, (y + 0.5) * CELL, 12)),
    ...data.column_labels.map((label, x) => drawText(label, (x + 0.5) * CELL, (height + 0.3) * CELL, 12)),
  ];
  const margin = labels.length ? CELL / 2 : 1;
  const size = [width * CELL + 2 * margin, height * CELL + 2 * margin];
  return `<svg viewBox="${-margin} ${-margin} ${size.join(" ")}" width="${size[0]}" role="img" aria-label="board">${[...cells, ...labels].join("")}</svg>`;
}

function drawCell(cell, x, y, isChess) {
  if (cell === ".") return "";
  if (cell === "x" || cell === "o") {
    return `<circle cx="${x}" cy="${y}" r="${0.4 * CELL}" fill="${cell === "x" ? "#000" : "#fff"}" stroke="#000"/>`;
  }
  const piece = isChess && PIECES[cell.toLowerCase()];
  if (!piece) return drawText(cell, x, y, [...cell].length > 1 ? 14 : 24);
  const isWhite = cell === cell.toUpperCase();
  return drawText(piece, x, y, 32, `fill="${isWhite ? "#fff" : "#000"}" stroke="${isWhite ? "#000" : "#fff"}" stroke-width="0.7"`);
}

function drawText(text, x, y, size, style = "") {
  return `<text x="${x}" y="${y}" font-size="${size}" text-anchor="middle" dominant-baseline="central" ${style}>${escapeText(text)}</text>`;
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
      part("board").innerHTML = drawBoard(boards[position], game.width, data, position ? game.marked[position - 1] : []);
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
