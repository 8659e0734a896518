// Saves the game as a record, and loads one.

import { make, makeButton, makeField, saveFile, setOptions } from "./dom.js";
import { startNewGame } from "./game.js";
import { checkSize } from "./record_input.js";

const KINDS = { pgn: "PGN", sgf: "SGF", text: "Text" };

// Adds the controls to `root`. Returns update(state), to be called after each change.
export function makeRecord(root, { socket, store, showError, announce }) {
  const format = make("select", { name: "format", "aria-label": "Format of the record" });
  const input = make("textarea", { name: "record", rows: 4, spellcheck: "false" });
  const file = make("input", { type: "file", name: "file", accept: ".pgn,.sgf,.txt,text/plain" });
  const fen = make("input", { name: "fen", type: "text", spellcheck: "false", autocomplete: "off" });
  const fenRow = make("form", { onsubmit: (event) => startFrom(event, fen.value.trim()) },
    makeField("Position (FEN)", fen), make("button", {}, "Start from this position"));

  const saving = make("fieldset", { class: "row", disabled: true }, makeButton("Save record", () => save()), format);
  const guarded = (work) => async (...values) => {
    showError(null);
    try {
      await work(...values);
    } catch (error) {
      showError(error);
    }
  };
  const save = guarded(async () => {
    const { moves } = store.get();
    const message = { type: "write", ...store.position(moves.length), format: format.value, headers: headersOf(store.get()) };
    const answer = await socket.request(message);
    saveFile(answer.filename, answer.text);
    announce(`Saved ${answer.filename}.`);
  });
  const load = guarded(async (text) => {
    checkSize(text, "The record", store.get());
    const answer = await socket.request({ type: "read", text, checkpoint: store.get().checkpoint });
    startNewGame(store, { moves: answer.moves, fen: answer.fen ?? null, first: "human", second: "human" });
    const games = answer.count > 1 ? ` The file has ${answer.count} games; this is the first.` : "";
    announce(`Loaded a record with ${answer.moves.length} moves.${games} Both sides are yours.`);
  });
  function startFrom(event, text) {
    event.preventDefault();
    showError(null);
    startNewGame(store, { fen: text || null });
  }
  const loadFile = guarded(async ([chosen]) => {
    checkSize(chosen, chosen.name, store.get());
    await load(await chosen.text());
  });
  file.addEventListener("change", async () => {
    if (file.files.length) await loadFile(file.files);
    file.value = ""; // the same file can be chosen again
  });
  root.append(
    saving,
    makeField("Load a record from a file", file),
    makeField("or paste it here", input), makeButton("Load record", () => load(input.value)), fenRow);

  return (state) => {
    saving.disabled = !state.opened;
    if (!state.opened) return;
    fenRow.hidden = !state.opened.fen;
    const formats = state.opened.records.map((name) => [name, KINDS[name] ?? name]);
    setOptions(format, formats, state.opened.records.includes(format.value) ? format.value : formats[0][0]);
  };
}

// Returns the names of the players for the record.
function headersOf({ first, second, opened }) {
  const nameOf = (player) => (player === "human" ? "Human" : `dualmctx, ${opened?.title ?? "engine"}`);
  return { first: nameOf(first), second: nameOf(second) };
}
