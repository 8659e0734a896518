// The Trees view: records one search of the position and steps through it.

import { make, makeButton, makeField, saveFile, setOptions } from "./dom.js";
import { labelTree } from "./game.js";

const STYLE = "/viewer/viewer.css";

export function startTrees(root, context) {
  const { store, socket, showError } = context;
  const stage = make("div", { class: "tree-stage" });
  const form = makeForm(root, { onrecord: record, onopen: openFile, onsave: saveJson, onpage: savePage });
  root.append(stage);
  let recording = null;
  let viewer = null;
  let running = null;

  // Records a search, or stops the one that is being recorded.
  async function record() {
    if (running) {
      running.abort();
      return;
    }
    running = new AbortController();
    const { signal } = running;
    showError(null);
    form.setBusy(true);
    try {
      const message = { type: "record_search", ...store.position(), ...form.options() };
      const answer = await socket.request(message, { signal });
      await show(answer.recording);
    } catch (error) {
      showError(error);
    } finally {
      running = null;
      form.setBusy(false);
    }
  }

  async function show(next) {
    const { startViewer } = await import("/viewer/viewer.js");
    viewer?.destroy();
    viewer = null;
    form.setRecording(false);
    viewer = startViewer(stage, next);
    recording = next;
    form.setRecording(true);
    context.announce(`Recorded ${recording.steps.length} steps of the search ${recording.variant}.`);
  }

  async function openFile(file) {
    showError(null);
    try {
      await show(readRecording(await file.text()));
    } catch (error) {
      showError(error);
    }
  }

  function saveJson() {
    saveFile(`${fileName(recording)}.json`, JSON.stringify(recording), "application/json");
  }

  // The server's page has an empty place for a recording; the page then needs no server.
  async function savePage() {
    showError(null);
    try {
      const answer = await fetch(`/recording${window.location.search}`);
      if (!answer.ok) throw new Error(`The server gave no page (status ${answer.status}).`);
      saveFile(`${fileName(recording)}.html`, insertRecording(await answer.text(), recording), "text/html");
    } catch (error) {
      showError(error);
    }
  }

  document.head.append(make("link", { rel: "stylesheet", href: STYLE }));
  form.update(store.get());
  store.subscribe(form.update);
  return { hide: () => running?.abort() };
}

const fileName = ({ game, variant }) => `${game}-${variant}`;

function readRecording(text) {
  let recording;
  try {
    recording = JSON.parse(text);
  } catch (error) {
    throw new Error(`The file is not a recording: ${error.message}.`);
  }
  if (recording?.format !== "dualmctx-recording") {
    throw new Error("The file is not a recording: its format is not \"dualmctx-recording\".");
  }
  return recording;
}

// Puts a recording into the element with the id "recording" of a page, as JSON in which "<" cannot
// end the element.
export function insertRecording(page, recording) {
  const start = page.search(/<script[^>]*id="recording"[^>]*>/);
  const begin = page.indexOf(">", start) + 1;
  const end = page.indexOf("</script>", begin);
  if (start < 0 || end < 0) throw new Error("The server's page has no place for a recording.");
  return page.slice(0, begin) + JSON.stringify(recording).replaceAll("<", "\\u003c") + page.slice(end);
}

// Makes the controls. Returns { options, update, setBusy, setRecording }.
function makeForm(root, { onrecord, onopen, onsave, onpage }) {
  const place = make("p", { class: "note" });
  const start = make("button", { class: "main" }, "Record the search");
  const search = makeSearchFields();
  const fields = make("fieldset", { class: "row" }, search.elements, start);
  const saves = [
    makeButton("Save HTML", onpage, { title: "Save the recording as one page that needs no server" }),
    makeButton("Save JSON", onsave, { title: "Save the recording as a file for Open" }),
  ];
  const submit = (event) => {
    event.preventDefault();
    onrecord();
  };
  root.append(make("form", { class: "tree-form", onsubmit: submit }, place,
    make("div", { class: "row" }, fields, makeOpenButton(onopen), saves)));

  function update({ opened, moves, ply }) {
    const count = ply ?? moves.length;
    const position = count ? `after move ${count} (${moves[count - 1]})` : "at the start of the game";
    place.textContent = `Records one search of the position ${position}, and shows it simulation by simulation.`;
    fields.disabled = !opened;
    if (opened) search.update(opened);
  }

  function setRecording(isThere) {
    for (const button of saves) button.hidden = !isThere;
  }

  function setBusy(isBusy) {
    start.textContent = isBusy ? "Stop recording" : "Record the search";
  }
  setRecording(false);
  return { options: search.options, update, setBusy, setRecording };
}

// Returns a button and the hidden input of its file.
function makeOpenButton(onopen) {
  const file = make("input", { type: "file", name: "recording", accept: ".json,application/json", hidden: true });
  file.addEventListener("change", () => {
    if (file.files.length) onopen(file.files[0]);
    file.value = ""; // so that the same file can be chosen again
  });
  return [makeButton("Open …", () => file.click(), { title: "Open a recording that was saved as JSON" }), file];
}

// Makes the fields of the search. Returns { elements, update(opened), options() }.
function makeSearchFields() {
  const variant = make("select", { name: "tree-variant", onchange: () => drawBudgets() });
  const budgets = make("div", { class: "row" });
  const compare = make("input", { type: "checkbox", name: "compare" });
  const comparison = make("label", { class: "field check", title: "Record AlphaZero's search at the same cost, too" },
    compare, make("span", {}, "compare with AlphaZero"));
  let searches = [];
  const valueOf = ({ name }) => name ?? "";

  function drawBudgets() {
    const chosen = searches.find((row) => valueOf(row) === variant.value);
    if (!chosen) return;
    compare.disabled = chosen.trees.length < 2;
    compare.checked = !compare.disabled;
    budgets.replaceChildren(...chosen.simulations.map((number, i) => makeField(
      chosen.trees.length > 1 ? `Simulations, ${labelTree(chosen.trees[i])}` : "Simulations",
      make("input", { type: "number", name: "tree-simulations", min: 1, step: 1, required: true, value: number }),
    )));
  }

  function update(opened) {
    if (opened.searches === searches) return;
    searches = opened.searches;
    const preferred = searches.find((row) => row.variant === "dual") ?? searches[0];
    setOptions(variant, searches.map((row) => [valueOf(row), row.label]), valueOf(preferred));
    drawBudgets();
  }

  // The form has checked the numbers.
  function options() {
    const simulations = [...budgets.querySelectorAll("input")].map((input) => input.valueAsNumber);
    return { variant: variant.value || null, simulations, compare: compare.checked };
  }
  return { elements: [makeField("Search", variant), budgets, comparison], update, options };
}
