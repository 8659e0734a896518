// The Trees view: records one search of the position and steps through it.

import { make, makeButton, makeField, saveFile, setOptions } from "/shared/dom.js";
import { startViewer } from "/viewer/viewer.js";
import { drawBudgets, listSearches, valueOf } from "./settings.js";

export function startTrees(root, context) {
  const { store, socket, showError } = context;
  const stage = make("div", { class: "tree-stage" });
  const form = makeForm(root, { onrecord: guard(record), onsave: guard(savePage) });
  root.append(stage);
  let recording = null;
  let viewer = null;
  let running = null;

  // Returns a function whose errors are shown.
  function guard(work) {
    return async () => {
      showError(null);
      try {
        await work();
      } catch (error) {
        showError(error);
      }
    };
  }

  // Records a search, or stops the one that is being recorded.
  async function record() {
    if (running) {
      running.abort();
      return;
    }
    running = new AbortController();
    form.setBusy(true);
    try {
      const message = { type: "record_search", ...store.position(), ...form.options() };
      const answer = await socket.request(message, { signal: running.signal });
      show(answer.recording);
    } finally {
      running = null;
      form.setBusy(false);
    }
  }

  function show(next) {
    viewer?.destroy();
    viewer = startViewer(stage, next);
    recording = next;
    form.showSave();
    context.announce(`Recorded ${recording.steps.length} steps of the search ${recording.variant}.`);
  }

  // The server's page has an empty place for a recording; the page then needs no server.
  async function savePage() {
    const answer = await fetch(`/recording${window.location.search}`);
    if (!answer.ok) throw new Error(`The server gave no page (status ${answer.status}).`);
    const { game, variant } = recording;
    saveFile(`${game}-${variant}.html`, insertRecording(await answer.text(), recording), "text/html");
  }

  form.update(store.get());
  store.subscribe(form.update);
  return { hide: () => running?.abort() };
}

// Puts a recording into the element with the id "recording" of a page, as JSON in which "<" cannot
// end the element.
function insertRecording(page, recording) {
  const data = JSON.stringify(recording).replaceAll("<", "\\u003c");
  const place = /(<script[^>]*id="recording"[^>]*>).*?(?=<\/script>)/s;
  return page.replace(place, (_, start) => start + data);
}

// Makes the controls. Returns { options, update, setBusy, showSave }.
function makeForm(root, { onrecord, onsave }) {
  const place = make("p", { class: "note" });
  const variant = make("select", { name: "tree-variant", onchange: showSearch });
  const budgets = make("div", { class: "row" });
  const compare = make("input", { type: "checkbox", name: "compare" });
  const comparison = make("label", { class: "field check", title: "Record AlphaZero's search at the same cost, too" },
    compare, make("span", {}, "compare with AlphaZero"));
  const start = make("button", { class: "main" }, "Record the search");
  const fields = make("fieldset", { class: "row" }, makeField("Search", variant), budgets, comparison, start);
  const save = makeButton("Save HTML", onsave, { hidden: true, title: "Save the recording as one page that needs no server" });
  const submit = (event) => {
    event.preventDefault();
    onrecord();
  };
  root.append(make("form", { class: "tree-form", onsubmit: submit }, place, make("div", { class: "row" }, fields, save)));

  let [searches, inputs] = [[], []];

  function showSearch() {
    const chosen = searches.find((row) => valueOf(row) === variant.value);
    compare.disabled = chosen.trees.length < 2;
    compare.checked = !compare.disabled;
    inputs = drawBudgets(budgets, "tree-simulations", chosen, chosen.simulations);
  }

  function update({ opened, moves, ply }) {
    const count = ply ?? moves.length;
    const position = count ? `after move ${count} (${moves[count - 1]})` : "at the start of the game";
    place.textContent = `Records one search of the position ${position}, and shows it simulation by simulation.`;
    fields.disabled = !opened;
    if (!opened || opened.searches === searches) return;
    searches = opened.searches;
    const preferred = searches.find((row) => row.variant === "dual") ?? searches[0];
    setOptions(variant, listSearches(searches), valueOf(preferred));
    showSearch();
  }

  // The form has checked the numbers.
  const options = () => ({
    variant: variant.value || null, simulations: inputs.map((input) => input.valueAsNumber), compare: compare.checked,
  });

  function setBusy(isBusy) {
    start.textContent = isBusy ? "Stop recording" : "Record the search";
  }
  return { options, update, setBusy, showSave: () => (save.hidden = false) };
}
