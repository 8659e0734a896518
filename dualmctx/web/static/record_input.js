// Opens the record of a game that is pasted or uploaded.

import { make, makeButton, makeField } from "./dom.js";

const NAMES = { pgn: "PGN", sgf: "SGF", text: "moves" };
// Bytes that the rest of the message needs.
const RESERVE = 2_000;

// Throws an Error if a record is too long for a message, in which quotes and ends of lines take two bytes.
//
// record: a text or a file; a file that is too long is not read.
export function checkSize(record, name, { welcome }) {
  const size = typeof record === "string" ? new Blob([JSON.stringify(record)]).size : record.size;
  const limit = (welcome?.limits.message_bytes ?? 2 ** 18) - RESERVE;
  if (size <= limit) return;
  const [bytes, most] = [size, limit].map((number) => number.toLocaleString("en"));
  throw new Error(`${name} has ${bytes} bytes; a record may have at most ${most}. Split it, or choose one game of it.`);
}

// Returns { element, update() }.
//
// A record that cannot be read changes nothing: the game and the pasted text stay.
export function makeRecordInput({ socket, store, announce }) {
  const text = make("textarea", { rows: 4, spellcheck: "false", autocapitalize: "off", "aria-describedby": "record-message" });
  const file = make("input", { type: "file", accept: ".pgn,.sgf,.txt,text/plain", onchange: readFile });
  const message = make("p", { id: "record-message", class: "record-message", role: "status" });
  const open = makeButton("Open the record", () => read(text.value), { class: "record-open" });
  const field = makeField("Paste a record", text);
  const element = make("details", { class: "record-input" }, make("summary", {}, "Open a record"),
    field, make("div", { class: "row" }, open, makeField("or a file", file)), message);

  function show(sentence, isError) {
    message.textContent = sentence;
    message.classList.toggle("error", isError);
    if (sentence) announce(sentence);
  }

  async function readFile() {
    const [chosen] = file.files;
    if (!chosen) return;
    try {
      checkSize(chosen, chosen.name, store.get());
      text.value = await chosen.text();
      await read(text.value);
    } catch (error) {
      show(error.message, true);
    }
    file.value = ""; // so that the same file can be chosen again
  }

  async function read(record) {
    if (record.trim() === "") {
      show("The record is empty: paste a game or choose a file.", true);
      return;
    }
    open.disabled = true;
    try {
      checkSize(record, "The record", store.get());
      const answer = await socket.request({ type: "read", checkpoint: store.get().checkpoint, text: record });
      const fresh = { moves: answer.moves, fen: answer.fen ?? null, ply: 0, lines: [], resigned: null, paused: true };
      store.set(fresh, { push: true });
      show(describe(answer), false);
    } catch (error) {
      show(error.message, true);
    }
    open.disabled = false;
  }

  function update() {
    const formats = store.get().opened?.records.map((key) => NAMES[key] ?? key) ?? [];
    field.firstChild.textContent = `Paste a record${formats.length ? ` (${formats.join(", ")})` : ""}`;
  }

  return { element, update };
}

function describe({ moves, count, game_number: number, headers }) {
  const facts = Object.entries(headers).map(([name, value]) => `${name} ${value}`).join(", ");
  const which = count > 1 ? ` This is game ${number} of ${count} in the record.` : "";
  return `Opened ${moves.length} ${moves.length === 1 ? "move" : "moves"}${facts ? ` (${facts})` : ""}.${which}`;
}
