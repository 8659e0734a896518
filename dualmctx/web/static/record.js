// Records: saves a game, opens one that is pasted or uploaded, and shows the position and the moves as text.

import { make, makeButton, makeField, saveFile, setOptions } from "/shared/dom.js";
import { startNewGame } from "./game.js";

const KINDS = { pgn: "PGN", sgf: "SGF", text: "Text" };
// Bytes that the rest of the message needs.
const RESERVE = 2_000;
// The longest position that the server reads.
const MAX_FEN = 300;
// The encoding that SGF names, and a byte of another encoding before a backslash.
const CHARSET = /(?<![A-Za-z])CA\s*\[\s*([\w.:-]{1,40})\s*\]/;
const UNCLEAR = /[^\0-\x7f]\\/;

// Adds the controls of the Play view to `root`. Returns update(state), to be called after each change.
export function makeRecord(root, context) {
  const { socket, store, showError, announce } = context;
  const format = make("select", { name: "format", "aria-label": "Format of the record" });
  const fen = make("input", { name: "fen", type: "text", spellcheck: "false", autocomplete: "off" });
  const fenRow = make("form", { onsubmit: startFrom }, makeField("Position (FEN)", fen), make("button", {}, "Start from this position"));
  const saving = make("fieldset", { class: "row", disabled: true }, makeButton("Save record", save), format);
  const input = makeRecordInput(context, "play-record", (changes) => startNewGame(store, { ...changes, first: "human", second: "human" }));

  async function save() {
    showError(null);
    const { moves } = store.get();
    const message = { type: "write", ...store.position(moves.length), format: format.value, headers: headersOf(store.get()) };
    try {
      const answer = await socket.request(message);
      saveFile(answer.filename, answer.text);
      announce(`Saved ${answer.filename}.`);
    } catch (error) {
      showError(error);
    }
  }

  function startFrom(event) {
    event.preventDefault();
    const text = fen.value.trim();
    if (text.length > MAX_FEN) return showError(`The position has ${text.length} characters; it may have at most ${MAX_FEN}.`);
    showError(null);
    startNewGame(store, { fen: text || null });
  }

  root.append(saving, ...input.elements, fenRow);
  return (state) => {
    saving.disabled = !state.opened;
    if (!state.opened) return;
    input.update();
    fenRow.hidden = !state.opened.fen;
    const { records } = state.opened;
    setOptions(format, records.map((name) => [name, KINDS[name] ?? name]), records.includes(format.value) ? format.value : records[0]);
  };
}

// Returns the names of the players for the record, and the result of a game that was resigned.
function headersOf({ first, second, opened, resigned }) {
  const nameOf = (player) => (player === "human" ? "Human" : `dualmctx, ${opened?.title ?? "engine"}`);
  const result = resigned === null ? {} : { result: resigned === 0 ? "0-1" : "1-0", termination: "resignation" };
  return { first: nameOf(first), second: nameOf(second), ...result };
}

// Throws an Error if a text or a file is too long for a message, in which quotes and ends of lines take two bytes.
export function checkSize(record, name, { welcome }) {
  const size = typeof record === "string" ? new Blob([JSON.stringify(record)]).size : record.size;
  const limit = (welcome?.limits.message_bytes ?? 2 ** 18) - RESERVE;
  if (size <= limit) return;
  const [bytes, most] = [size, limit].map((number) => number.toLocaleString("en"));
  throw new Error(`${name} has ${bytes} bytes; a record may have at most ${most}. Split it, or choose one game of it.`);
}

// Returns the text of a file: in UTF-8 if possible, else in the encoding of the property CA of SGF, else in Windows-1252.
async function decodeFile(file) {
  const bytes = await file.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    // It is in another encoding.
  }
  const text = new TextDecoder("windows-1252").decode(bytes);
  const name = CHARSET.exec(text)?.[1];
  if (!name && !UNCLEAR.test(text)) return text;
  try {
    return new TextDecoder(name ?? "").decode(bytes);
  } catch {
    throw new Error(`${file.name} is not in UTF-8, and names ${name ? `the unknown encoding "${name}"` : "no encoding"}. Save it in UTF-8.`);
  }
}

// Makes the fields for a record. Returns { elements, update() }. `id` is that of the line with the message.
// `onOpen` is called with the moves and the starting position, as fields of the store. A record that cannot
// be read changes nothing: the game and the pasted text stay.
export function makeRecordInput({ socket, store, announce }, id, onOpen) {
  const text = make("textarea", { name: "record", rows: 4, spellcheck: "false", autocapitalize: "off", "aria-describedby": id });
  const file = make("input", { type: "file", name: "file", accept: ".pgn,.sgf,.txt,text/plain", onchange: readFile });
  const message = make("p", { id, class: "record-message", role: "status" });
  const open = makeButton("Open the record", () => read(() => text.value));
  const field = makeField("Paste a record", text);

  function show(sentence, isError) {
    message.textContent = sentence;
    message.classList.toggle("error", isError);
    announce(sentence);
  }

  async function readFile() {
    const [chosen] = file.files;
    if (chosen) {
      await read(() => {
        checkSize(chosen, chosen.name, store.get());
        return decodeFile(chosen);
      });
    }
    file.value = ""; // so that the same file can be chosen again
  }

  async function read(getText) {
    open.disabled = true;
    try {
      const record = await getText();
      text.value = record;
      if (record.trim() === "") throw new Error("The record is empty: paste a game or choose a file.");
      checkSize(record, "The record", store.get());
      const answer = await socket.request({ type: "read", checkpoint: store.get().checkpoint, text: record });
      onOpen({ moves: answer.moves, fen: answer.fen ?? null });
      show(describeRecord(answer), false);
    } catch (error) {
      show(error.message, true);
    }
    open.disabled = false;
  }

  function update() {
    const formats = store.get().opened?.records.map((key) => (key === "text" ? "moves" : KINDS[key] ?? key)) ?? [];
    field.firstChild.textContent = `Paste a record${formats.length ? ` (${formats.join(", ")})` : ""}`;
  }

  return { elements: [field, make("div", { class: "row" }, open, makeField("or a file", file)), message], update };
}

function describeRecord({ moves, count, headers }) {
  const facts = Object.entries(headers).map(([name, value]) => `${name} ${value}`).join(", ");
  const which = count > 1 ? ` It is the first of ${count} games in the record.` : "";
  return `Opened ${moves.length} ${moves.length === 1 ? "move" : "moves"}${facts ? ` (${facts})` : ""}.${which}`;
}

// Makes fields with the position and the moves as text. Returns { element, show(position), update(state) }.
export function makeTextFields() {
  const [fen, moves] = ["fen", "moves"].map((name) => make("input", { name: `shown-${name}`, type: "text", readonly: true }));
  const fenField = makeField("Position as FEN", fen);

  function show(position) {
    fenField.hidden = !position?.fen;
    fen.value = position?.fen ?? "";
  }

  // All moves of the game are shown, whichever position is.
  function update(state) {
    moves.value = state.moves.join(" ");
  }

  show(null);
  return { element: make("div", { class: "row" }, fenField, makeField("Moves as text", moves)), show, update };
}
