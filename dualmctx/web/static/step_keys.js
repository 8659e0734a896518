// Keys that step through the game or through the preview of the principal variation.

import { goTo } from "./game.js";

// Elements that use these keys themselves.
const OWN_KEYS = "input, select, textarea, summary, dialog, [role=tablist], .table-frame";

// Listens to the arrow keys, Home, End and Escape.
//
// line: the principal variation; isShown: whether the view is shown.
export function listenToSteps(store, line, isShown) {
  const now = () => store.get().ply ?? store.get().moves.length;
  const step = (number) => (line.isActive() ? line.step(number) : goTo(store, now() + number));
  const keys = {
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    Home: () => goTo(store, 0),
    End: () => goTo(store, Infinity),
  };
  document.addEventListener("keydown", (event) => {
    const isOther = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.defaultPrevented;
    if (isOther || !isShown() || event.target.closest?.(OWN_KEYS)) return;
    if (event.key === "Escape" && line.isActive()) line.cancel();
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
}
