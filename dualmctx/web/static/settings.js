// The settings of the views Play and Analyse: who plays, the search, its budget and strength, and the numbers
// on the board.

import { make, makeButton, makeField, setOptions } from "/shared/dom.js";
import { labelTree } from "/shared/text.js";
import { NUMBERS } from "./analysis_board.js";
import { chosenSearch, strengthLevels } from "./engine.js";
import { nameSide } from "./game.js";

const SIDES = [["human", "Human"], ["engine", "Engine"]];

// A select has no null, so the default search has the value "".
export const valueOf = ({ name }) => name ?? "";
export const listSearches = (searches, label = (row) => row.label) => searches.map((row) => [valueOf(row), label(row)]);

// Returns a select of the search of the store, which both views share.
function makeSearchSelect(store, name) {
  return make("select", { name, onchange: (event) => store.set({ variant: event.target.value || null, simulations: null }) });
}

// Draws one field per tree, unless they are there already: a redrawn field would lose the focus.
export function drawBudgets(root, name, search, simulations) {
  const labels = simulations.map((_, i) => (
    simulations.length > 1 ? `Simulations, ${labelTree(search.trees[i])}` : "Simulations"));
  if (root.dataset.labels !== String(labels)) {
    root.dataset.labels = labels;
    root.replaceChildren(...labels.map((label) => (
      makeField(label, make("input", { name, type: "number", min: 1, step: 1, required: true })))));
  }
  const inputs = [...root.querySelectorAll("input")];
  inputs.forEach((input, i) => showNumber(input, simulations[i]));
  return inputs;
}

// Shows a number, but not while the user types another one.
function showNumber(input, number) {
  if (input !== document.activeElement || input.checkValidity()) input.value = number;
}

// Adds the settings of the Play view to `root`. Returns update(state), to be called after each change.
export function makeSettings(root, { store }) {
  const sides = ["first", "second"].map((name) => make("select", {
    name, onchange: (event) => store.set({ [name]: event.target.value, paused: false }),
  }));
  const names = sides.map((select) => makeField("", select));
  const variant = makeSearchSelect(store, "variant");
  const summary = make("p", { class: "note" });
  const level = make("select", { name: "level", onchange: () => chooseLevel(store, level.value) });
  const budgets = make("div", { class: "row", onchange: () => chooseBudgets(store, budgets) });
  const temperature = make("input", {
    name: "temperature", type: "number", min: 0, max: 10, step: 0.1,
    onchange: () => temperature.reportValidity() && store.set({ temperature: temperature.valueAsNumber || 0 }),
  });
  sides.forEach((select) => setOptions(select, SIDES, "human"));
  const search = make("fieldset", { class: "settings-search" }, makeField("Search", variant), summary,
    makeField("Strength (simulations, temperature)", level), budgets, makeField("Temperature (0: always the best move)", temperature));
  root.append(make("div", { class: "row" }, names), search);

  return (state) => {
    sides[0].value = state.first;
    sides[1].value = state.second;
    temperature.value = state.temperature;
    search.disabled = !state.opened;
    if (!state.opened || !state.welcome) return;
    names.forEach((field, i) => (field.firstChild.textContent = nameSide(state, i)));
    const chosen = chosenSearch(state);
    setOptions(variant, listSearches(state.opened.searches), valueOf(chosen));
    summary.textContent = chosen.summary;
    drawLevels(level, state);
    const inputs = drawBudgets(budgets, "simulations", chosen, state.simulations ?? chosen.simulations);
    for (const input of inputs) input.max = state.welcome.limits.simulations;
  };
}

function chooseLevel(store, name) {
  const level = strengthLevels(store.get()).find((row) => row.name === name);
  if (level) store.set({ simulations: level.simulations, temperature: level.temperature });
}

function chooseBudgets(store, budgets) {
  const inputs = [...budgets.querySelectorAll("input")];
  if (inputs.every((input) => input.reportValidity())) store.set({ simulations: inputs.map((input) => input.valueAsNumber) });
}

function drawLevels(select, state) {
  const simulations = state.simulations ?? chosenSearch(state).simulations;
  const levels = strengthLevels(state);
  const chosen = levels.find((level) => (
    String(level.simulations) === String(simulations) && level.temperature === state.temperature));
  const options = levels.map((level) => [level.name, level.text]);
  setOptions(select, chosen ? options : [...options, ["", "Other numbers, below"]], chosen?.name ?? "");
}

// Returns { search, display, options(), update(state), showEnd(end) } for the Analyse view: two elements,
// the search's settings and the choice of the number on the board. showEnd takes `end` of the session.
export function makeAnalysisSettings({ store }) {
  const toggle = makeButton("", () => store.set({ analysing: !store.get().analysing }), { class: "main analysis-toggle" });
  const variant = makeSearchSelect(store, "analysis-variant");
  const budget = make("input", {
    name: "maximum", type: "number", min: 1, step: 1, inputmode: "numeric",
    onchange: () => budget.reportValidity() && store.set({ maximum: budget.value === "" ? null : budget.valueAsNumber }),
  });
  const shown = make("select", { name: "number", onchange: () => store.set({ number: shown.value }) });
  const search = make("fieldset", { class: "row analysis-settings", disabled: true }, toggle,
    makeField("Search", variant), makeField("Maximum of simulations", budget));
  let end = null;

  function showToggle({ analysing }) {
    toggle.textContent = end ?? (analysing ? "Stop analysis" : "Start analysis");
    toggle.disabled = end !== null;
  }

  function showEnd(next) {
    end = next;
    showToggle(store.get());
  }

  function update(state) {
    search.disabled = !state.opened;
    showToggle(state);
    setOptions(shown, Object.entries(NUMBERS).filter(([key]) => key !== "exact" || state.opened?.exact)
      .map(([key, { title }]) => [key, title]), state.number);
    if (!state.opened || !state.welcome) return;
    const label = (row) => (row.deepens ? row.label : `${row.label}, begins anew`);
    setOptions(variant, listSearches(state.opened.searches, label), valueOf(analysisSearch(state)));
    variant.title = analysisSearch(state).summary;
    budget.max = state.welcome.limits.simulations;
    showNumber(budget, options().simulations);
  }

  function options() {
    const state = store.get();
    const limit = state.welcome?.limits.simulations ?? Infinity;
    const row = state.opened ? analysisSearch(state) : { name: state.variant, trees: [] };
    return { isOn: state.analysing, variant: row.name, simulations: Math.min(state.maximum ?? limit, limit), trees: row.trees };
  }

  return { search, display: makeField("Numbers on the board", shown), options, update, showEnd };
}

// Returns the search that the user chose. Otherwise it is the default; if that begins anew for each
// budget, it is the first one that deepens, as an analysis should.
function analysisSearch(state) {
  if (state.variant !== null) return chosenSearch(state);
  return state.opened.searches.find(({ deepens }) => deepens) ?? state.opened.searches[0];
}
