// The bar with which one steps through a recording.

import { make, makeIcon, setOptions, setText } from "/shared/dom.js";

// Names of the speeds, their pauses in milliseconds, and whether a whole step is shown at once.
const SPEEDS = [["1 micro-step/s", 1000, false], ["3 micro-steps/s", 333, false], ["2 steps/s", 500, true], ["10 steps/s", 100, true]];

// Makes the bar. `on` has the listeners `phase(direction)`, `step(direction)`, `seek(step)`; `phase` and
// `step` return whether there was something to show.
// Returns { element, slider, show(step, [title, phase]), togglePlay(), stop() }.
export function makeControls(steps, on) {
  let timer = 0;
  const press = (act, direction) => () => { stop(); act(direction); };
  const play = makeIcon("▶ Play", "Play or pause (P)", togglePlay, { class: "dv-play" });
  const slider = make("input", { type: "range", min: 0, max: steps, step: 1, value: 0, class: "dv-slider", "aria-label": "step of the search",
    oninput: () => press(on.seek, Number(slider.value) - 1)() });
  const speed = make("select", { "aria-label": "speed", onchange: () => timer && start() });
  setOptions(speed, SPEEDS.map(([name], i) => [i, name]), 1);
  const title = make("strong");
  const phase = make("span", { class: "dv-phase" });
  const count = make("span", { class: "dv-note dv-step-count" });
  const element = make("div", { class: "dv-controls", role: "group", "aria-label": "steps of the search" },
    make("div", { class: "dv-buttons" },
      makeIcon("◀◀", "Back to the step before (Page Up)", press(on.step, -1)),
      makeIcon("◀", "One micro-step back (←)", press(on.phase, -1)),
      play,
      makeIcon("▶", "One micro-step forward (→)", press(on.phase, 1)),
      makeIcon("▶▶", "To the end of the next step (Page Down)", press(on.step, 1)),
      speed),
    make("div", { class: "dv-timeline" }, slider, count),
    make("p", { class: "dv-now", "aria-live": "polite" }, title, " ", phase));

  function start() {
    const [, pause, isWhole] = SPEEDS[speed.value];
    clearInterval(timer);
    timer = setInterval(() => {
      if (!(isWhole ? on.step(1) : on.phase(1))) stop();
    }, pause);
    setText(play, "⏸ Pause");
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    setText(play, "▶ Play");
  }

  function togglePlay() {
    if (timer) stop();
    else start();
  }

  function show(step, [stepTitle, phaseName]) {
    slider.value = String(step + 1);
    slider.setAttribute("aria-valuetext", stepTitle);
    setText(count, `step ${step + 1} of ${steps}`);
    setText(title, stepTitle);
    setText(phase, phaseName);
  }

  return { element, slider, show, togglePlay, stop };
}
