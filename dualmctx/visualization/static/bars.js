// Small bars beside numbers. The numbers are in the text; the bars are hidden from screen readers.

import { isNumber, makeSvg } from "./elements.js";

const BAR_WIDTH = 96;
const BAR_HEIGHT = 12;

// A bar for a share in [0, 1].
export function makeShareBar(share) {
  const width = BAR_WIDTH * Math.min(1, Math.max(0, share || 0));
  return makeBar(makeSvg("rect", { class: "dv-bar", y: 2, width, height: 8 }));
}

// A bar to the left or right of the middle, for a value in [-1, 1].
export function makeValueBar(value) {
  const size = isNumber(value) ? Math.min(1, Math.abs(value)) * BAR_WIDTH / 2 : 0;
  const x = value < 0 ? BAR_WIDTH / 2 - size : BAR_WIDTH / 2;
  return makeBar(makeSvg("rect", { class: `dv-bar ${value < 0 ? "dv-bad" : "dv-good"}`, x, y: 2, width: size, height: 8 }),
    makeSvg("path", { class: "dv-axis", d: `M${BAR_WIDTH / 2} 0V${BAR_HEIGHT}` }));
}

// The addends of a score, one after the other from zero: the first is solid, the others outlined.
export function makeScoreBar(addends, low, high) {
  const scale = BAR_WIDTH / (high - low || 1);
  let start = 0;
  const parts = addends.filter(isNumber).map((addend, i) => {
    const [from, to] = [Math.min(start, start + addend), Math.max(start, start + addend)];
    start += addend;
    return makeSvg("rect", { class: i ? "dv-bar dv-bar-open" : "dv-bar", x: (from - low) * scale, y: i ? 3 : 1,
      width: (to - from) * scale, height: i ? 6 : 10 });
  });
  return makeBar(...parts, makeSvg("path", { class: "dv-axis", d: `M${-low * scale} 0V${BAR_HEIGHT}` }));
}

// The range of the partial sums of all candidates, with zero.
export function rangeOfScores(candidates) {
  let [low, high] = [0, 0];
  for (const { addends } of candidates) {
    let sum = 0;
    for (const addend of addends.filter(isNumber)) {
      sum += addend;
      low = Math.min(low, sum);
      high = Math.max(high, sum);
    }
  }
  return [low, high];
}

function makeBar(...children) {
  return makeSvg("svg", { class: "dv-bar-box", width: BAR_WIDTH, height: BAR_HEIGHT, "aria-hidden": "true" }, ...children);
}
