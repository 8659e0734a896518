// A board on which moves are entered by mouse, touch or keyboard.
//
// const board = makeBoard(root, { onMove(entry) });
// board.draw(position, { game, players, flip, isActive })  draws the server's answer `position`;
//   `players` are the names of both sides; `isActive` says whether moves can be entered
// board.setOverlay([{ action | cell, lines, bar, tone }])  writes on the board: `action` is the
//   number of a legal move, shown on its cell or beside its button; `cell` is [row, column];
//   `lines` are up to three short texts, `bar` is a number from 0 to 1 or null, and `tone` is
//   "best", "good", "bad" or null. Drawing a position removes the overlay.
// board.setArrow(entry | null)  marks the cells of a move, such as a hint
// board.focus()  moves the keyboard's focus to the board
//
// Arrow keys move between cells, Home and End within a row, Enter and Space choose, Escape drops
// the chosen piece. Moves that no cell enters are buttons below the board.

import { make, makeButton, makeSvg } from "/shared/dom.js";
import { CELL, drawBoard, drawContent, keyOf } from "/shared/draw_board.js";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function makeBoard(root, { onMove = () => {} } = {}) {
  const frame = make("div", { class: "board-frame" });
  const buttons = make("div", { class: "move-buttons", role: "group", "aria-label": "Moves" });
  root.append(frame, buttons);
  let drawn = null; // the drawing, the position and the options of `draw`
  let start = null; // key of the chosen first cell
  let focused = null; // key of the cell that the Tab key reaches
  let pointed = null; // key of the cell under the mouse, since it moved

  const isAt = (cell, key) => cell !== null && keyOf(...cell) === key;
  const entries = () => (drawn?.isActive ? drawn.position.entries : []);
  const startsAt = (key) => entries().filter((entry) => isAt(entry.start, key));
  const endsAt = (key) => entries().filter((entry) => (
    (start === null ? entry.start === null : isAt(entry.start, start))
    && entry.targets.some((cell) => isAt(cell, key))));

  function draw(position, { game = "", players = [], flip = false, isActive = false } = {}) {
    const hadFocus = frame.contains(document.activeElement);
    drawn = { ...drawBoard(position, game, { flip, isGrid: true }), position, players, flip, isActive };
    [start, pointed] = [null, null];
    if (!drawn.cells.has(focused)) focused = drawn.cells.keys().next().value ?? null;
    frame.replaceChildren(drawn.svg);
    drawButtons();
    showTargets();
    if (hadFocus) focus();
  }

  function drawButtons() {
    const list = drawn.position.entries.filter((entry) => entry.targets.length === 0);
    buttons.hidden = list.length === 0;
    buttons.replaceChildren(...list.map((entry) => makeButton(entry.name, () => onMove(entry), {
      "data-action": entry.action, disabled: !drawn.isActive,
    })));
  }

  // Shows which cells can be chosen now. Dots are left out where every empty cell is a target.
  function showTargets() {
    const { rows } = drawn.position.picture;
    const targets = new Set([...drawn.cells.keys()].filter((key) => endsAt(key).length));
    const isEmpty = (key) => textAt(rows, key) === ".";
    const isPlain = [...drawn.cells.keys()].every((key) => targets.has(key) || !isEmpty(key));
    drawn.cells.forEach((cell, key) => {
      cell.classList.toggle("is-target", targets.has(key));
      cell.classList.toggle("dotted", targets.has(key) && !isPlain);
      cell.classList.toggle("is-start", startsAt(key).length > 0);
      cell.classList.toggle("chosen", key === start);
      cell.setAttribute("aria-selected", String(key === start));
      cell.setAttribute("aria-disabled", String(!targets.has(key) && !startsAt(key).length));
      cell.setAttribute("tabindex", key === focused ? "0" : "-1");
    });
  }

  function choose(key) {
    const [ends, starts] = [endsAt(key), startsAt(key)];
    if (ends.length === 1) onMove(ends[0]);
    else if (ends.length > 1) openChooser(ends);
    else start = starts.length && start !== key ? key : null;
    showTargets();
  }

  // Asks which of several moves with the same cells is meant, as in a promotion.
  function openChooser(list) {
    const isChess = drawn.position.picture.is_chess;
    const close = (entry) => {
      dialog.close();
      if (entry) onMove(entry);
    };
    const dialog = make("dialog", { class: "chooser", "aria-label": "Choose the move", onclose: () => dialog.remove() },
      make("p", {}, "Choose the move:"),
      list.map((entry) => makeButton(nameChoice(entry.name, isChess), () => close(entry))),
      makeButton("Cancel", () => close(null), { class: "quiet" }));
    root.append(dialog);
    dialog.showModal();
  }

  // Shows where the stone would lie.
  function preview(key) {
    drawn.svg.querySelector(".ghost")?.remove();
    const entry = key && start === null ? endsAt(key)[0] : null;
    if (!entry?.shown || textAt(drawn.position.picture.rows, keyOf(...entry.shown)) !== ".") return;
    const { side } = drawn.position;
    const ghost = drawContent(drawn.players[side]?.length === 1 ? drawn.players[side] : "xo"[side], false);
    ghost.classList.add("ghost");
    drawn.cells.get(keyOf(...entry.shown))?.append(ghost);
  }

  function point(key) {
    if (!drawn || key === pointed) return;
    pointed = key;
    preview(key);
  }

  function setOverlay(items) {
    if (!drawn) return;
    drawn.overlay.replaceChildren();
    buttons.querySelectorAll(".button-overlay").forEach((element) => element.remove());
    for (const item of items) {
      const entry = drawn.position.entries.find((other) => other.action === item.action);
      const cell = item.cell ?? entry?.shown;
      if (cell) drawn.overlay.append(drawItem(item, drawn.geometry.centre(...cell)));
      else buttons.querySelector(`[data-action="${item.action}"]`)?.append(makeItem(item));
    }
  }

  function setArrow(entry) {
    if (!drawn) return;
    drawn.cells.forEach((cell) => cell.classList.remove("hinted"));
    buttons.querySelectorAll(".hinted").forEach((button) => button.classList.remove("hinted"));
    if (!entry) return;
    for (const cell of [entry.start, entry.shown]) {
      if (cell) drawn.cells.get(keyOf(...cell))?.classList.add("hinted");
    }
    buttons.querySelector(`[data-action="${entry.action}"]`)?.classList.add("hinted");
  }

  function focus() {
    const cell = drawn?.cells.get(focused);
    if (cell && entries().some((entry) => entry.targets.length)) cell.focus();
    else (buttons.querySelector("button") ?? cell)?.focus();
  }

  function moveFocus(key, event) {
    const next = findNext(drawn, key, event.key);
    if (!next) return;
    event.preventDefault();
    focused = next;
    showTargets();
    drawn.cells.get(next).focus();
  }

  const keyAt = (event) => {
    const cell = event.target.closest?.(".cell");
    return cell ? keyOf(cell.dataset.row, cell.dataset.column) : null;
  };
  frame.addEventListener("click", (event) => {
    const key = keyAt(event);
    if (!key) return;
    focused = key;
    choose(key);
  });
  frame.addEventListener("keydown", (event) => {
    const key = keyAt(event);
    if (!key || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") start = null;
    if (event.key === "Enter" || event.key === " ") choose(key);
    if (["Escape", "Enter", " "].includes(event.key)) event.preventDefault();
    if (event.key === "Escape") showTargets();
    moveFocus(key, event);
  });
  // Not "pointerover": a new drawing below a mouse at rest would show a stone that nobody asked for.
  frame.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(keyAt(event)));
  frame.addEventListener("pointerleave", () => point(null));
  frame.addEventListener("focusin", (event) => preview(event.target.matches(":focus-visible") ? keyAt(event) : null));
  frame.addEventListener("focusout", () => drawn && preview(null));
  return { draw, setOverlay, setArrow, focus };
}

const textAt = (rows, key) => {
  const [row, column] = key.split(",").map(Number);
  return rows[row]?.[column];
};

// Returns the key of the cell that an arrow key, Home or End leads to, or null.
function findNext({ cells, position, flip }, key, name) {
  const [row, column] = key.split(",").map(Number);
  const width = Math.max(...position.picture.rows.map((cellsOfRow) => cellsOfRow.length));
  const inRow = [...cells.keys()].filter((other) => Number(other.split(",")[0]) === row);
  if (name === "Home" || name === "End") return inRow.at((name === "Home") === !flip ? 0 : -1);
  const step = STEPS[name]?.map((number) => (flip ? -number : number));
  if (!step) return null;
  let [y, x] = [row + step[0], column + step[1]];
  // Rows of Hex are shifted, so the cell straight below may not exist.
  for (let tries = 0; tries < width && y >= 0 && x >= 0 && y < position.picture.rows.length && x < width; tries += 1) {
    if (cells.has(keyOf(y, x))) return keyOf(y, x);
    if (step[0]) x += step[0];
    else x += step[1];
  }
  return null;
}

function nameChoice(name, isChess) {
  const piece = isChess && { q: "Queen", r: "Rook", b: "Bishop", n: "Knight" }[name.at(-1)];
  return piece ? `${piece} (${name})` : name;
}

function drawItem({ lines, bar = null, tone = null }, [x, y]) {
  const width = CELL * 0.9;
  const height = 10 * lines.length + (bar === null ? 2 : 7);
  const texts = lines.map((text, i) => makeSvg("text", {
    class: "overlay-text", x: 0, y: 7 + 10 * i - height / 2, "font-size": Math.min(10, 56 / Math.max(1, text.length)).toFixed(1),
  }, text));
  const place = { x: -width / 2, y: -height / 2, width, height, rx: 3 };
  return makeSvg("g", { class: `overlay-item ${tone ?? ""}`, transform: `translate(${x} ${y})` },
    makeSvg("rect", { class: "overlay-panel", ...place }), texts,
    bar === null ? null : makeSvg("rect", {
      class: "overlay-bar", x: -width / 2 + 2, y: height / 2 - 5, width: Math.max(0.5, bar * (width - 4)), height: 3,
    }));
}

function makeItem({ lines, bar = null, tone = null }) {
  const strip = make("span", { class: "button-bar" });
  strip.style.width = `${100 * (bar ?? 0)}%`;
  return make("span", { class: `button-overlay ${tone ?? ""}` }, lines.join(" · "), bar === null ? null : strip);
}
