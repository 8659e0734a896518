// The settings of the Play view: the sides, the search and its strength.

import { make, makeField, setOptions } from "./dom.js";
import { chosenSearch, strengthLevels } from "./engine.js";
import { labelTree, nameSide } from "./game.js";

const SIDES = [["human", "Human"], ["engine", "Engine"]];

// Adds the settings to `root`. Returns update(state), to be called after each change.
export function makeSettings(root, { store }) {
  const sides = ["first", "second"].map((name) => make("select", {
    name, onchange: (event) => store.set({ [name]: event.target.value, paused: false }),
  }));
  const names = sides.map((select) => makeField("", select));
  const variant = make("select", {
    name: "variant", onchange: () => store.set({ variant: variant.value || null, simulations: null }),
  });
  const summary = make("p", { class: "note" });
  const level = make("select", { name: "level", onchange: () => chooseLevel(store, level.value) });
  const budgets = make("div", { class: "row" });
  const temperature = make("input", {
    name: "temperature", type: "number", min: 0, max: 10, step: 0.1,
    onchange: () => temperature.reportValidity() && store.set({ temperature: temperature.valueAsNumber || 0 }),
  });
  sides.forEach((select) => setOptions(select, SIDES, "human"));
  const search = make("fieldset", { class: "settings-search" }, makeField("Search", variant), summary,
    makeField("Strength (simulations, temperature)", level), budgets, makeField("Temperature (0: always the best move)", temperature));
  root.append(make("div", { class: "row" }, names), search);

  function update(state) {
    sides[0].value = state.first;
    sides[1].value = state.second;
    temperature.value = state.temperature;
    search.disabled = !state.opened;
    if (!state.opened || !state.welcome) return;
    names.forEach((field, i) => (field.firstChild.textContent = nameSide(state, i)));
    setOptions(variant, state.opened.searches.map((row) => [row.name ?? "", row.label]), chosenSearch(state).name ?? "");
    summary.textContent = chosenSearch(state).summary;
    drawLevels(level, state);
    drawBudgets(budgets, state, store);
  }
  return update;
}

function chooseLevel(store, name) {
  const level = strengthLevels(store.get()).find((row) => row.name === name);
  if (level) store.set({ simulations: level.simulations, temperature: level.temperature });
}

function drawLevels(select, state) {
  const simulations = state.simulations ?? chosenSearch(state).simulations;
  const levels = strengthLevels(state);
  const chosen = levels.find((level) => (
    String(level.simulations) === String(simulations) && level.temperature === state.temperature));
  const options = levels.map((level) => [level.name, level.text]);
  setOptions(select, chosen ? options : [...options, ["", "Other numbers, below"]], chosen?.name ?? "");
}

// Draws one field per tree, unless they are there already: a redrawn field would lose the focus.
function drawBudgets(root, state, store) {
  const search = chosenSearch(state);
  const simulations = state.simulations ?? search.simulations;
  const labels = simulations.map((_, i) => (
    simulations.length > 1 ? `Simulations, ${labelTree(search.trees[i])}` : "Simulations"));
  if (root.dataset.labels !== String(labels)) {
    root.dataset.labels = labels;
    root.replaceChildren(...labels.map((label) => makeField(label, make("input", {
      name: "simulations", type: "number", min: 1, step: 1, required: true,
    }))));
  }
  const inputs = [...root.querySelectorAll("input")];
  inputs.forEach((input, i) => {
    input.max = state.welcome.limits.simulations;
    if (input !== document.activeElement || input.checkValidity()) input.value = simulations[i];
    input.onchange = () => inputs.every((other) => other.reportValidity())
      && store.set({ simulations: inputs.map((other) => other.valueAsNumber) });
  });
}
