// The Trees view: records one search of the position and steps through it.

import { make, makeButton, saveFile } from "/shared/dom.js";
import { checkRecording } from "/viewer/replay.js";
import { startViewer } from "/viewer/viewer.js";
import { makeTreeFields } from "./settings.js";

export function startTrees(root, context) {
  const { store, socket, showError } = context;
  const stage = make("div", { class: "tree-stage" });
  const form = makeForm(root, { onrecord: guard(record), onopen: guard(openFile), onsave: saveJson, onpage: guard(savePage) });
  root.append(stage);
  let recording = null;
  let viewer = null;
  let running = null;

  // Returns a function whose errors are shown.
  function guard(work) {
    return async (...values) => {
      showError(null);
      try {
        await work(...values);
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
    checkRecording(next);
    viewer?.destroy();
    viewer = null;
    form.setRecording(false);
    viewer = startViewer(stage, next);
    recording = next;
    form.setRecording(true);
    context.announce(`Recorded ${recording.steps.length} steps of the search ${recording.variant}.`);
  }

  async function openFile(file) {
    let read;
    try {
      read = JSON.parse(await file.text());
    } catch (error) {
      throw new Error(`The file is not a recording: ${error.message}.`, { cause: error });
    }
    show(read);
  }

  function saveJson() {
    saveFile(`${fileName(recording)}.json`, JSON.stringify(recording), "application/json");
  }

  // The server's page has an empty place for a recording; the page then needs no server.
  async function savePage() {
    const answer = await fetch(`/recording${window.location.search}`);
    if (!answer.ok) throw new Error(`The server gave no page (status ${answer.status}).`);
    saveFile(`${fileName(recording)}.html`, insertRecording(await answer.text(), recording), "text/html");
  }

  form.update(store.get());
  store.subscribe(form.update);
  return { hide: () => running?.abort() };
}

const fileName = ({ game, variant }) => `${game}-${variant}`;

// Puts a recording into the element with the id "recording" of a page, as JSON in which "<" cannot
// end the element.
function insertRecording(page, recording) {
  const data = JSON.stringify(recording).replaceAll("<", "\\u003c");
  const place = /(<script[^>]*id="recording"[^>]*>).*?(?=<\/script>)/s;
  if (!place.test(page)) throw new Error("The server's page has no place for a recording.");
  return page.replace(place, (_, start) => start + data);
}

// Makes the controls. Returns { options, update, setBusy, setRecording }.
function makeForm(root, { onrecord, onopen, onsave, onpage }) {
  const place = make("p", { class: "note" });
  const start = make("button", { class: "main" }, "Record the search");
  const search = makeTreeFields();
  const fields = make("fieldset", { class: "row" }, search.elements, start);
  const file = make("input", { type: "file", name: "recording", accept: ".json,application/json", hidden: true, onchange: () => {
    if (file.files.length) onopen(file.files[0]);
    file.value = ""; // so that the same file can be chosen again
  } });
  const open = makeButton("Open …", () => file.click(), { title: "Open a recording that was saved as JSON" });
  const saves = [
    makeButton("Save HTML", onpage, { title: "Save the recording as one page that needs no server" }),
    makeButton("Save JSON", onsave, { title: "Save the recording as a file for Open" }),
  ];
  const submit = (event) => {
    event.preventDefault();
    onrecord();
  };
  root.append(make("form", { class: "tree-form", onsubmit: submit }, place, make("div", { class: "row" }, fields, open, file, saves)));

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
