// Pan and zoom of a drawing. Panels that share a camera show the same part of their trees.

import { BOX_HEIGHT } from "./layout.js";

const SMALLEST_SCALE = 0.08;
const LARGEST_SCALE = 3;
const READABLE_SCALE = 0.78;
const MARGIN = 16;

export function makeCamera() {
  return { x: MARGIN, y: MARGIN, scale: 1, listeners: new Set() };
}

export function moveCamera(camera, x, y, scale = camera.scale) {
  Object.assign(camera, { x, y, scale });
  for (const listener of camera.listeners) listener();
}

// Zooms by a factor; the point (x, y) of the panel stays where it is.
export function zoomCamera(camera, factor, x, y) {
  const scale = Math.min(Math.max(camera.scale * factor, SMALLEST_SCALE), LARGEST_SCALE);
  const ratio = scale / camera.scale;
  moveCamera(camera, x - (x - camera.x) * ratio, y - (y - camera.y) * ratio, scale);
}

// Fits the drawing into a panel. With `isReadable` the text stays legible: of a tree that is then
// larger than the panel, the root is shown first.
export function fitCamera(camera, layout, size, isReadable) {
  const whole = Math.min((size.width - 2 * MARGIN) / layout.width, (size.height - 2 * MARGIN) / layout.height, 1.25);
  const scale = Math.max(whole, isReadable ? READABLE_SCALE : SMALLEST_SCALE);
  const free = size.height - layout.height * scale;
  const top = size.height / 2 - layout.byKey.get("n0").y * scale;
  moveCamera(camera, MARGIN, free >= 2 * MARGIN ? free / 2 : Math.min(MARGIN, Math.max(top, free - MARGIN)), scale);
}

// Brings a box into the panel, with room around it, if it is not visible yet.
export function revealBox(camera, item, layout, size) {
  const [left, top] = [camera.x + item.x * camera.scale, camera.y + item.y * camera.scale];
  const [width, height] = [layout.boxWidth * camera.scale, BOX_HEIGHT * camera.scale];
  const isOutside = (start, length, all) => start < MARGIN / 2 || start + length > all - MARGIN / 2;
  // To the right of the middle, because the path to the node is on its left.
  const dx = isOutside(left, width, size.width) ? Math.min(MARGIN - camera.x, 0.85 * size.width - width - left) : 0;
  const dy = isOutside(top, height, size.height) ? (size.height - height) / 2 - top : 0;
  if (dx || dy) moveCamera(camera, camera.x + dx, camera.y + dy);
}

// Drag, wheel and pinch on an element.
export function listenToPointers(element, camera) {
  const pointers = new Map();
  element.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomAt(element, camera, Math.exp(-event.deltaY * 0.0015), { x: event.clientX, y: event.clientY });
  }, { passive: false });
  element.addEventListener("pointerdown", (event) => {
    if (event.button === 0) pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, moved: 0 });
  });
  element.addEventListener("pointermove", (event) => followPointer(element, camera, pointers, event));
  const end = (event) => pointers.delete(event.pointerId);
  for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) element.addEventListener(name, end);
}

function zoomAt(element, camera, factor, { x, y }) {
  const box = element.getBoundingClientRect();
  zoomCamera(camera, factor, x - box.left, y - box.top);
}

function followPointer(element, camera, pointers, event) {
  const last = pointers.get(event.pointerId);
  if (!last) return;
  const before = measurePointers(pointers);
  const moved = last.moved + Math.abs(event.clientX - last.x) + Math.abs(event.clientY - last.y);
  Object.assign(last, { x: event.clientX, y: event.clientY, moved });
  const after = measurePointers(pointers);
  // A click moves the pointer a little; only a drag takes the pointer.
  if (moved < 5) return;
  if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
  moveCamera(camera, camera.x + after.x - before.x, camera.y + after.y - before.y);
  if (before.spread > 0) zoomAt(element, camera, after.spread / before.spread, after);
}

// The middle of the pointers, and the distance between the first two.
function measurePointers(pointers) {
  const all = [...pointers.values()];
  const mean = (axis) => all.reduce((sum, pointer) => sum + pointer[axis], 0) / all.length;
  const spread = all.length > 1 ? Math.hypot(all[0].x - all[1].x, all[0].y - all[1].y) : 0;
  return { x: mean("x"), y: mean("y"), spread };
}

// Keys of a focused drawing; returns whether the key was used.
export function pressCameraKey(camera, event, size) {
  const zoom = { "+": 1.25, "=": 1.25, "-": 0.8 }[event.key];
  if (zoom) zoomCamera(camera, zoom, size.width / 2, size.height / 2);
  const pan = event.shiftKey && { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
  if (pan) moveCamera(camera, camera.x + pan[0], camera.y + pan[1]);
  return Boolean(zoom || pan);
}
