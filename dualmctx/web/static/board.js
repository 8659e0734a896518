// A board on which moves are entered by mouse, touch or keyboard.
//
// const board = makeBoard(root, { onMove(entry) });
// board.draw(position, { game, players, flip, isActive })  draws the server's answer `position`;
//   `players` are the names of both sides; `isActive` says whether moves can be entered
// board.setOverlay([{ action, lines, bar, tone }])  writes on the board: `action` is the number of
//   a legal move, shown on its cell or beside its button; `lines` are up to three short texts,
//   `bar` is a number from 0 to 1 or null, and `tone` is "best", "good" or null. Drawing a
//   position removes the overlay.
// board.setArrow(entry | null)  marks the cells of a move, such as a hint
//
// Arrow keys move between cells, Home and End within a row, Enter and Space choose, Escape drops
// the chosen piece. Moves that no cell enters are buttons below the board.

import { make, makeButton, makeSvg } from "/shared/dom.js";
import { CELL, drawBoard, drawContent, keyOf } from "/shared/draw_board.js";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const isAt = (cell, key) => Boolean(cell) && keyOf(...cell) === key;

export function makeBoard(root, { onMove = () => {} } = {}) {
  const frame = make("div", { class: "board-frame" });
  const buttons = make("div", { class: "move-buttons", role: "group", "aria-label": "Moves" });
  root.append(frame, buttons);
  let drawn = null; // the drawing, the position and the options of `draw`
  let start = null; // key of the chosen first cell
  let focused = null; // key of the cell that the Tab key reaches
  let pointed = null; // key of the cell under the mouse, since it moved

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
    const list = position.entries.filter((entry) => entry.targets.length === 0);
    buttons.hidden = list.length === 0;
    buttons.replaceChildren(...list.map((entry) => (
      makeButton(entry.name, () => onMove(entry), { "data-action": entry.action, disabled: !isActive }))));
    showTargets();
    if (hadFocus) focus();
  }

  // Shows which cells can be chosen now. Dots are left out where every empty cell is a target.
  function showTargets() {
    const { cells, position: { picture: { rows } } } = drawn;
    const targets = new Set([...cells.keys()].filter((key) => endsAt(key).length));
    const isPlain = [...cells.keys()].every((key) => targets.has(key) || textAt(rows, key) !== ".");
    cells.forEach((cell, key) => {
      const isTarget = targets.has(key);
      const isStart = startsAt(key).length > 0;
      const kinds = { "is-target": isTarget, dotted: isTarget && !isPlain, "is-start": isStart, chosen: key === start };
      for (const [kind, isOn] of Object.entries(kinds)) cell.classList.toggle(kind, isOn);
      cell.setAttribute("aria-selected", String(key === start));
      cell.setAttribute("aria-disabled", String(!isTarget && !isStart));
      cell.setAttribute("tabindex", key === focused ? "0" : "-1");
    });
  }

  function choose(key) {
    const [ends, starts] = [endsAt(key), startsAt(key)];
    if (ends.length === 1) onMove(ends[0]);
    else if (ends.length > 1) openChooser(root, ends, drawn.position.picture.is_chess, onMove);
    else start = starts.length && start !== key ? key : null;
    showTargets();
  }

  // Shows where the stone would lie.
  function preview(key) {
    if (!drawn) return;
    drawn.svg.querySelector(".ghost")?.remove();
    const entry = key && start === null ? endsAt(key)[0] : null;
    if (!entry?.shown || textAt(drawn.position.picture.rows, keyOf(...entry.shown)) !== ".") return;
    const { side } = drawn.position;
    const ghost = drawContent(drawn.players[side]?.length === 1 ? drawn.players[side] : "xo"[side], false);
    ghost.classList.add("ghost");
    drawn.cells.get(keyOf(...entry.shown))?.append(ghost);
  }

  function point(key) {
    if (key === pointed) return;
    pointed = key;
    preview(key);
  }

  function setOverlay(items) {
    if (!drawn) return;
    drawn.overlay.replaceChildren();
    buttons.querySelectorAll(".button-overlay").forEach((element) => element.remove());
    for (const item of items) {
      const cell = drawn.position.entries.find((entry) => entry.action === item.action)?.shown;
      if (cell) drawn.overlay.append(drawItem(item, drawn.geometry.centre(...cell)));
      else buttons.querySelector(`[data-action="${item.action}"]`)?.append(makeItem(item));
    }
  }

  function setArrow(entry) {
    if (!drawn) return;
    root.querySelectorAll(".hinted").forEach((element) => element.classList.remove("hinted"));
    if (!entry) return;
    const cells = [entry.start, entry.shown].filter(Boolean).map((cell) => drawn.cells.get(keyOf(...cell)));
    for (const element of [...cells, buttons.querySelector(`[data-action="${entry.action}"]`)]) element?.classList.add("hinted");
  }

  function focus() {
    const cell = drawn.cells.get(focused);
    if (cell && entries().some((entry) => entry.targets.length)) cell.focus();
    else (buttons.querySelector("button") ?? cell)?.focus();
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
    const next = findNext(drawn, key, event.key);
    if (event.key === "Escape") start = null;
    else if (event.key === "Enter" || event.key === " ") choose(key);
    else if (next) focused = next;
    else return;
    event.preventDefault();
    showTargets();
    if (next) drawn.cells.get(next).focus();
  });
  // Not "pointerover": a new drawing below a mouse at rest would show a stone that nobody asked for.
  frame.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(keyAt(event)));
  frame.addEventListener("pointerleave", () => point(null));
  frame.addEventListener("focusin", (event) => preview(event.target.matches(":focus-visible") ? keyAt(event) : null));
  frame.addEventListener("focusout", () => preview(null));
  return { draw, setOverlay, setArrow };
}

// Asks which of several moves with the same cells is meant, as in a promotion.
function openChooser(root, list, isChess, onMove) {
  const close = (entry) => {
    dialog.close();
    if (entry) onMove(entry);
  };
  const dialog = make("dialog", { class: "chooser", "aria-label": "Choose the move", onclose: () => dialog.remove() },
    make("p", {}, "Choose the move:"),
    list.map((entry) => makeButton(nameChoice(entry.name, isChess), () => close(entry))),
    makeButton("Cancel", () => close(null)));
  root.append(dialog);
  dialog.showModal();
}

function nameChoice(name, isChess) {
  const piece = isChess && { q: "Queen", r: "Rook", b: "Bishop", n: "Knight" }[name.at(-1)];
  return piece ? `${piece} (${name})` : name;
}

const textAt = (rows, key) => {
  const [row, column] = key.split(",").map(Number);
  return rows[row]?.[column];
};

// Returns the key of the cell that an arrow key, Home or End leads to, or null.
function findNext({ cells, flip }, key, name) {
  const [row, column] = key.split(",").map(Number);
  const places = [...cells.keys()].map((other) => other.split(",").map(Number));
  const inRow = places.filter(([y]) => y === row).map((place) => keyOf(...place));
  if (name === "Home" || name === "End") return inRow.at((name === "Home") === !flip ? 0 : -1);
  const [down, right] = STEPS[name]?.map((number) => (flip ? -number : number)) ?? [0, 0];
  if (right) return inRow[inRow.indexOf(key) + right] ?? null;
  if (!down) return null;
  // Rows of Hex are shifted, so the cell straight below may not exist.
  return places.map((_, i) => keyOf(row + down, column + i * down)).find((other) => cells.has(other)) ?? null;
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
    bar !== null && makeSvg("rect", {
      class: "overlay-bar", x: -width / 2 + 2, y: height / 2 - 5, width: Math.max(0.5, bar * (width - 4)), height: 3,
    }));
}

function makeItem({ lines, bar = null, tone = null }) {
  const strip = make("span", { class: "button-bar" });
  strip.style.width = `${100 * (bar ?? 0)}%`;
  return make("span", { class: `button-overlay ${tone ?? ""}` }, lines.join(" · "), bar !== null && strip);
}
