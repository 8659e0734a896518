// The settings of the analysis: on or off, the search, the maximum, and the numbers on the board.

import { NUMBERS } from "./board_numbers.js";
import { make, makeButton, makeField, setOptions } from "./dom.js";
import { chosenSearch } from "./engine.js";

const flag = { read: (value) => value === "1", write: (value) => (value ? "1" : "0") };
const maximum = {
  read(value) {
    if (!/^[1-9]\d{0,8}$/.test(value)) throw new Error(`"${value}" is not a whole number from 1`);
    return Number(value);
  },
  write: String,
};
const number = {
  read(value) {
    if (!Object.hasOwn(NUMBERS, value)) throw new Error(`"${value}" is not ${Object.keys(NUMBERS).join(", ")}`);
    return value;
  },
  write: (value) => value,
};

// Value of the option for the default search.
const DEFAULT = "";

// Returns { search, display, options(), update(state), showEnd(end) }: two elements, the search's settings
// and the choice of the number on the board. showEnd takes `end` of the session.
//
// Adds the fields `analysing`, `maximum` and `number` to the store, so that a reload keeps them.
export function makeAnalysisSettings({ store }) {
  store.addField("analysing", { initial: true, ...flag });
  store.addField("maximum", { initial: null, ...maximum });
  store.addField("number", { initial: "weight", ...number });
  const toggle = makeButton("", () => store.set({ analysing: !store.get().analysing }), { class: "main analysis-toggle" });
  const variant = make("select", {
    name: "analysis-variant", onchange: () => store.set({ variant: variant.value || null, simulations: null }),
  });
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
    setOptions(variant, listOptions(state), chosenRow(state).name ?? DEFAULT);
    variant.title = chosenRow(state).summary;
    budget.max = state.welcome.limits.simulations;
    if (budget !== document.activeElement || budget.checkValidity()) budget.value = options().simulations;
  }

  function options() {
    const state = store.get();
    const limit = state.welcome?.limits.simulations ?? Infinity;
    const row = state.opened && chosenRow(state);
    return {
      isOn: state.analysing, variant: row ? row.name : state.variant, simulations: Math.min(state.maximum ?? limit, limit),
      trees: row ? row.trees : [],
    };
  }

  return { search, display: makeField("Numbers on the board", shown), options, update, showEnd };
}

// Returns the search that the user chose. Otherwise it is the default; if that begins anew for each
// budget, it is the first one that deepens, as an analysis should.
function chosenRow(state) {
  if (state.variant !== null) return chosenSearch(state);
  return state.opened.searches.find(({ deepens }) => deepens) ?? state.opened.searches[0];
}

const listOptions = ({ opened }) => opened.searches.map(({ name, label, deepens }) => (
  [name ?? DEFAULT, deepens ? label : `${label}, begins anew`]));
