// The list of moves, the steps through the game, and the earlier lines.

import { make, makeButton } from "./dom.js";
import { chooseLine, goTo } from "./game.js";

// Adds the list to `root`. Returns update(state), to be called after each change.
export function makeMoveList(root, { store }) {
  const list = make("ol", { class: "moves", "aria-label": "Moves of the game" });
  const lines = make("div", { class: "lines" });
  const shown = () => store.get().ply ?? store.get().moves.length;
  const steps = [
    ["|◀", "First position", () => goTo(store, 0)],
    ["◀", "Previous position", () => goTo(store, shown() - 1)],
    ["▶", "Next position", () => goTo(store, shown() + 1)],
    ["▶|", "Last position", () => goTo(store, Infinity)],
  ].map(([text, label, onclick]) => makeButton(text, onclick, { "aria-label": label, title: label }));
  root.append(make("div", { class: "row steps", role: "group", "aria-label": "Steps through the game" }, steps), list, lines);
  let drawn = null;

  function update(state) {
    const place = state.ply ?? state.moves.length;
    if (drawn !== state.moves) {
      drawn = state.moves;
      list.replaceChildren(...drawn.map((name, i) => make("li", {}, makeButton(`${i + 1}. ${name}`, () => goTo(store, i + 1)))));
    }
    [...list.children].forEach((item, i) => {
      const isShown = i + 1 === place;
      item.firstChild.setAttribute("aria-current", isShown ? "step" : "false");
      if (isShown) scrollInto(list, item);
    });
    [0, 1].forEach((i) => (steps[i].disabled = place === 0));
    [2, 3].forEach((i) => (steps[i].disabled = place === state.moves.length));
    drawLines(lines, state, store);
  }
  return update;
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
