// The micro-steps of a recording. A cursor is {step, phase}; step −1 is the state before the search.

import { treeName } from "./replay.js";

const PHASE_NAMES = { start: "before the search", select: "selection", evaluate: "expansion and evaluation", backup: "backup",
  choose: "nodes taken over", mix: "mixing of the heads", update: "new means" };
// The phases in which the changes of the step are shown.
const LAST_PHASES = ["start", "backup", "update"];

// Returns the phases of a step: {kind, level}. The last one shows the statistics after the step.
function listPhases(step) {
  const kinds = !step ? ["start"] : step.kind === "refinement" ? ["choose", "mix", "update"] : ["evaluate", "backup"];
  const selections = step?.kind === "simulation" ? step.path.map((_, level) => ({ kind: "select", level })) : [];
  return [...selections, ...kinds.map((kind) => ({ kind, level: 0 }))];
}

export function endOfStep(recording, step) {
  const last = Math.min(Math.max(step, -1), recording.steps.length - 1);
  return { step: last, phase: listPhases(recording.steps[last]).length - 1 };
}

// Returns the next or the previous cursor (`direction` 1 or −1), or null at an end of the recording.
export function movePhase(recording, cursor, direction) {
  const phase = cursor.phase + direction;
  if (phase >= 0 && phase < listPhases(recording.steps[cursor.step]).length) return { step: cursor.step, phase };
  if (direction < 0) return cursor.step < 0 ? null : endOfStep(recording, cursor.step - 1);
  return cursor.step + 1 < recording.steps.length ? { step: cursor.step + 1, phase: 0 } : null;
}

// Describes the trees at a cursor. `position` counts the steps whose changes are applied;
// `path` are the nodes to highlight, `active` the node that the phase is about.
export function makeFrame(recording, cursor) {
  const step = recording.steps[cursor.step] ?? null;
  const phase = listPhases(step)[cursor.phase];
  const isDone = LAST_PHASES.includes(phase.kind);
  const frame = { step, phase, position: cursor.step + (isDone ? 1 : 0), path: [], active: 0, tree: step ? step.tree : -1,
    created: -1, edges: new Map(), marks: new Map(), changes: isDone && step ? step.changes : [] };
  if (step?.kind === "simulation") describeSimulation(frame, step, phase);
  if (step?.kind === "refinement") describeRefinement(frame, step, phase);
  for (const change of frame.changes) {
    if (change.in_window === false) addMark(frame, change.node, "outside");
  }
  return frame;
}

function describeSimulation(frame, { path, leaf }, phase) {
  const isSelection = phase.kind === "select";
  const levels = isSelection ? path.slice(0, phase.level + 1) : path;
  const nodes = levels.map((row) => row.node);
  frame.path = isSelection ? nodes : [...new Set([...nodes, leaf.node])];
  frame.active = isSelection ? nodes.at(-1) : leaf.node;
  if (!isSelection && leaf.is_new) addMark(frame, leaf.node, "new");
  if (phase.kind === "evaluate" && leaf.is_new) frame.created = leaf.node;
  levels.forEach((row, level) => {
    frame.edges.set(row.child ?? (level + 1 === path.length ? leaf.node : -1), row.reason);
  });
}

function describeRefinement(frame, step, phase) {
  const chosen = step.nodes.map((row) => row.node);
  for (const node of chosen) addMark(frame, node, "taken");
  frame.path = phase.kind === "update" ? frame.changes.map((change) => change.node) : chosen;
  frame.active = chosen[0] ?? 0;
}

function addMark(frame, node, mark) {
  frame.marks.set(node, [...(frame.marks.get(node) ?? []), mark]);
}

// Returns the title of the step and the name of the phase.
export function describeFrame(recording, { step, phase }) {
  if (!step) return ["Start", `${PHASE_NAMES.start}: only the root has been evaluated`];
  const kind = step.kind === "refinement" ? "Refinement" : "Simulation";
  const level = phase.kind === "select" ? `, level ${phase.level + 1} of ${step.path.length}` : "";
  return [`${kind} ${step.number + 1}, round ${step.round + 1}, ${treeName(recording, step.tree)}`, PHASE_NAMES[phase.kind] + level];
}
