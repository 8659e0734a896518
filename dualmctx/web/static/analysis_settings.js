// The settings of the analysis: on or off, the search, the maximum, and the numbers on the board.

import { NUMBERS } from "./board_numbers.js";
import { make, makeButton, makeField, setOptions } from "./dom.js";

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

// Value of the option for the network's own search.
const OWN = "";

// Returns { search, display, options(), update(state) }: two elements, the search's settings and
// the choice of the number on the board.
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

  function update(state) {
    search.disabled = !state.opened;
    toggle.textContent = state.analysing ? "Stop analysis" : "Start analysis";
    setOptions(shown, Object.entries(NUMBERS).filter(([key]) => key !== "exact" || state.opened?.exact)
      .map(([key, { title }]) => [key, title]), state.number);
    if (!state.opened || !state.welcome) return;
    setOptions(variant, variantOptions(state), chosenVariant(state) ?? OWN);
    variant.title = state.opened.variants.find(({ name }) => name === (chosenVariant(state) ?? state.opened.own.variant))?.summary ?? "";
    budget.max = state.welcome.limits.simulations;
    if (budget !== document.activeElement || budget.checkValidity()) budget.value = options().simulations;
  }

  function options() {
    const state = store.get();
    const limit = state.welcome?.limits.simulations ?? Infinity;
    return { isOn: state.analysing, variant: chosenVariant(state), simulations: Math.min(state.maximum ?? limit, limit) };
  }

  return { search, display: makeField("Numbers on the board", shown), options, update };
}

// Returns the search that the user chose. Otherwise it is null, the network's own search with its
// options; if that one begins anew for each budget, it is the first one that deepens.
function chosenVariant({ variant, opened }) {
  if (variant !== null || !opened || ownDeepens(opened)) return variant;
  return opened.variants.find(({ deepens }) => deepens)?.name ?? null;
}

function ownDeepens({ own, variants }) {
  return variants.some(({ name, deepens }) => deepens && name === own.variant);
}

function variantOptions({ opened }) {
  const own = [OWN, `${opened.own.variant} (own)`];
  const others = opened.variants.map(({ name, deepens }) => [name, deepens ? name : `${name} (begins anew)`]);
  return ownDeepens(opened) ? [own, ...others] : others;
}
