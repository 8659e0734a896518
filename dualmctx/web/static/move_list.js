// The list of moves, the steps through the game, and the earlier lines.

import { make, makeButton, makeIcon } from "/shared/dom.js";
import { chooseLine, goTo, step } from "./game.js";

// Adds the list to `root`. Returns update(state, annotate), to be called after each change.
//
// annotate(ply): of the move that leads to position `ply`, null or { sign, mark, text }: a sign
//   beside the name, a class, and a sentence for the pointer and for screen readers.
export function makeMoveList(root, { store }) {
  const list = make("ol", { class: "moves", "aria-label": "Moves of the game" });
  const lines = make("div", { class: "lines" });
  const steps = [
    makeIcon("|◀", "First position", () => goTo(store, 0)),
    makeIcon("◀", "Previous position", () => step(store, -1)),
    makeIcon("▶", "Next position", () => step(store, 1)),
    makeIcon("▶|", "Last position", () => goTo(store, Infinity)),
  ];
  root.append(make("div", { class: "row steps", role: "group", "aria-label": "Steps through the game" }, steps), list, lines);
  let drawn = null;

  return (state, annotate = () => null) => {
    const place = state.ply ?? state.moves.length;
    const notes = state.moves.map((_, i) => annotate(i + 1));
    const next = JSON.stringify([state.moves, notes]);
    if (drawn !== next) {
      drawn = next;
      list.replaceChildren(...state.moves.map((name, i) => make("li", {}, makeMove(name, i + 1, notes[i], store))));
    }
    [...list.children].forEach((item, i) => {
      const isShown = i + 1 === place;
      item.firstChild.setAttribute("aria-current", isShown ? "step" : "false");
      if (isShown) scrollInto(list, item);
    });
    steps.forEach((button, i) => (button.disabled = place === (i < 2 ? 0 : state.moves.length)));
    drawLines(lines, state, store);
  };
}

function makeMove(name, ply, note, store) {
  const attributes = note ? { class: note.mark, title: note.text, "aria-label": `${ply}. ${note.text}` } : {};
  return makeButton(`${ply}. ${name}${note?.sign ? ` ${note.sign}` : ""}`, () => goTo(store, ply), attributes);
}

// Scrolls the list alone, not the page.
function scrollInto(list, item) {
  const top = item.offsetTop - list.offsetTop;
  if (top < list.scrollTop || top + item.offsetHeight > list.scrollTop + list.clientHeight) {
    list.scrollTop = top - list.clientHeight / 2;
  }
}

function drawLines(root, state, store) {
  root.hidden = state.lines.length === 0;
  root.replaceChildren(make("p", { class: "note" }, "Earlier lines:"), ...state.lines.map((line) => {
    const first = line.findIndex((move, i) => move !== state.moves[i]);
    const start = first < 0 ? line.length - 1 : first;
    const rest = line.slice(start, start + 4).join(" ");
    const dots = line.length > start + 4 ? " …" : "";
    return makeButton(`${start + 1}. ${rest}${dots}`, () => chooseLine(store, line), {
      "aria-label": `Return to the line with move ${start + 1}, ${line[start]}`,
    });
  }));
}
