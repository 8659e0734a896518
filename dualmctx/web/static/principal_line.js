// The principal variation: moves that can be shown on the board one after another, and played.

import { make, makeButton, setText } from "/shared/dom.js";

// Returns { element, update(line), preview(), step(number), cancel(), reset(), isActive() }.
//
// While a preview is shown, the line stays as it is, so that the moves do not change under the
// pointer. preview() returns the moves that are shown beyond the position, or []; reset() ends it
// without telling, when another position is shown.
// onPreview: called after each change of the preview.
// onPlay: called with the names of the moves to play.
export function makePrincipalLine({ onPreview, onPlay }) {
  const moves = make("span", { class: "line-moves", role: "group", "aria-label": "Principal variation" });
  const back = makeButton("Back to the position", () => show(0), { class: "line-back" });
  const play = makeButton("", () => {
    const names = preview();
    show(0);
    onPlay(names);
  }, { class: "line-play" });
  const text = make("p", { class: "line-text" });
  const controls = make("div", { class: "line-controls" }, text, play, back);
  const element = make("section", { class: "principal-line", "aria-label": "Principal variation" },
    make("h3", {}, "Principal variation"), moves, controls);
  let line = [];
  let latest = [];
  let count = 0;
  const preview = () => line.slice(0, count);

  function show(next) {
    count = Math.min(Math.max(next, 0), line.length);
    if (count === 0) line = latest;
    render();
    onPreview();
  }

  function render() {
    const buttons = line.map((_, i) => moves.children[i] ?? makeButton("", () => show(i + 1)));
    if (buttons.length !== moves.children.length || line.length === 0) moves.replaceChildren(...buttons);
    buttons.forEach((button, i) => {
      setText(button, line[i]);
      button.setAttribute("aria-pressed", String(i < count));
    });
    if (!line.length) moves.append("–");
    controls.hidden = count === 0;
    text.textContent = `Preview after ${preview().join(" ")}. The game is unchanged.`;
    play.textContent = count === 1 ? "Play this move" : `Play these ${count} moves`;
  }

  function update(next) {
    latest = next;
    if (count > 0) return;
    line = next;
    render();
  }

  function reset() {
    count = 0;
    update([]);
  }

  render();
  return { element, update, reset, preview, step: (number) => show(count + number), cancel: () => show(0), isActive: () => count > 0 };
}
