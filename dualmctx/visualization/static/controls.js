// The bar with which one steps through a recording.

import { makeElement, setText } from "./elements.js";

const SPEEDS = [["1 micro-step/s", 1000, false], ["3 micro-steps/s", 333, false], ["2 steps/s", 500, true], ["10 steps/s", 100, true]];

// Makes the bar. `on` has the listeners `phase(direction)`, `step(direction)`, `seek(step)`; `phase` and
// `step` return whether there was something to show.
export function makeControls(steps, on) {
  const controls = { timer: 0, on };
  const button = (name, symbol, help, onclick) => makeElement("button", { type: "button", class: `dv-${name}`, "aria-label": help, title: help, onclick }, symbol);
  controls.play = button("play", "▶ Play", "Play or pause (P)", () => togglePlay(controls));
  controls.slider = makeElement("input", { type: "range", min: 0, max: steps, step: 1, value: 0, class: "dv-slider", "aria-label": "step of the search",
    oninput: () => { stopPlaying(controls); on.seek(Number(controls.slider.value) - 1); } });
  controls.speed = makeElement("select", { "aria-label": "speed", onchange: () => restartPlaying(controls) },
    ...SPEEDS.map(([name], i) => makeElement("option", { value: i, selected: i === 1 }, name)));
  const press = (act, direction) => () => { stopPlaying(controls); act(direction); };
  controls.title = makeElement("strong", { class: "dv-step-title" });
  controls.phase = makeElement("span", { class: "dv-phase" });
  controls.count = makeElement("span", { class: "dv-note dv-step-count" });
  controls.element = makeElement("div", { class: "dv-controls", role: "group", "aria-label": "steps of the search" },
    makeElement("div", { class: "dv-buttons" },
      button("step-back", "◀◀", "Back to the step before (Page Up)", press(on.step, -1)),
      button("phase-back", "◀", "One micro-step back (←)", press(on.phase, -1)),
      controls.play,
      button("phase-next", "▶", "One micro-step forward (→)", press(on.phase, 1)),
      button("step-next", "▶▶", "To the end of the next step (Page Down)", press(on.step, 1)),
      controls.speed),
    makeElement("div", { class: "dv-timeline" }, controls.slider, controls.count),
    makeElement("p", { class: "dv-now", "aria-live": "polite" }, controls.title, " ", controls.phase));
  return controls;
}

export function showControls(controls, step, steps, [title, phase]) {
  controls.slider.value = String(step + 1);
  controls.slider.setAttribute("aria-valuetext", title);
  setText(controls.count, `step ${step + 1} of ${steps}`);
  setText(controls.title, title);
  setText(controls.phase, phase);
}

export function togglePlay(controls) {
  if (controls.timer) stopPlaying(controls);
  else startPlaying(controls);
}

function startPlaying(controls) {
  const [, pause, isWhole] = SPEEDS[controls.speed.value];
  const { on } = controls;
  controls.timer = setInterval(() => {
    if (!(isWhole ? on.step(1) : on.phase(1))) stopPlaying(controls);
  }, pause);
  setText(controls.play, "⏸ Pause");
}

export function stopPlaying(controls) {
  clearInterval(controls.timer);
  controls.timer = 0;
  setText(controls.play, "▶ Play");
}

function restartPlaying(controls) {
  if (!controls.timer) return;
  stopPlaying(controls);
  startPlaying(controls);
}
