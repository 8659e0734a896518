// The board of the Analyse view: the position with its numbers, or a preview of later moves.

import { makeOverlay } from "./board_numbers.js";
import { make } from "./dom.js";
import { nameSide, withoutLetters } from "./game.js";

// Returns { element, show(current), point(action) }.
//
// line: the principal variation, whose preview is shown; onMove: called with the name of a move.
// show: takes `current()` of the session; point: marks a move, or none for null.
export function makePositionBoard({ store, getPosition, makeBoard, showError }, line, onMove) {
  const caption = make("p", { class: "status position-caption" });
  const place = make("div", { class: "board-area" });
  const board = makeBoard(place, { onMove: (entry) => onMove(entry.name) });
  const element = make("div", { class: "position-board" }, caption, place);
  let shown = null; // the answer `position`, and the state that it was drawn with
  let current = null;

  function show(next) {
    current = next;
    if (!current.position) caption.textContent = current.status || "Loading the board …";
    else if (line.isActive()) showPreview(line.preview());
    else showPosition();
  }

  function showPosition() {
    const { position, analysis, exact } = current;
    draw(position, !position.is_over);
    caption.textContent = describe(position, store.get());
    board.setOverlay(makeOverlay(analysis, store.get().number, exact?.moves, position.entries));
  }

  async function showPreview(moves) {
    const before = store.position();
    try {
      const position = await getPosition({ ...before, moves: [...before.moves, ...moves] });
      if (line.preview().join() !== moves.join() || !line.isActive()) return;
      draw(position, false);
      caption.textContent = `Preview: ${describeTurn(position, store.get())}`;
    } catch (error) {
      showError(error);
    }
  }

  // Draws a position only if it is not shown yet: a new drawing costs time and loses a chosen piece.
  function draw(position, isActive) {
    const { flip, opened } = store.get();
    const isDrawn = shown && shown.position === position && shown.flip === flip && shown.opened === opened;
    if (isDrawn && shown.isActive === isActive) return;
    board.draw(position, { game: opened?.game ?? "", players: opened?.players, flip, isActive });
    shown = { position, flip, opened, isActive };
  }

  function point(action) {
    if (!current?.position || line.isActive()) return;
    board.setArrow(current.position.entries.find((entry) => entry.action === action) ?? null);
  }

  return { element, show, point };
}

function describe(position, { opened, ply, moves }) {
  return `Position ${ply ?? moves.length} of ${moves.length}: ${describeTurn(position, { opened })}`;
}

function describeTurn(position, { opened }) {
  if (position.is_over) return `the game is over, ${withoutLetters(position.result?.text ?? "without a winner")}.`;
  return `${nameSide({ opened }, position.side)} to move.`;
}
