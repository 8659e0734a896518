// Copies the position, the moves or a link, and saves the analysis as JSON.

import { make, makeButton, saveFile } from "./dom.js";

// Returns { element, show(position), update(state) }.
//
// getAnalysis: returns { analysis, exact, review } of the position that is shown.
export function makeCopyExport({ store, announce }, getAnalysis) {
  const message = make("p", { class: "copy-message", role: "status" });
  const copyButton = (name, read) => makeButton(`Copy ${name}`, async () => {
    const text = read();
    message.textContent = await copy(text) ? `Copied the ${name}.` : `The browser does not allow copying. The ${name}: ${text}`;
  });
  const fen = copyButton("FEN", () => position.fen);
  const moves = copyButton("moves", () => store.get().moves.join(" "));
  const link = copyButton("link", () => window.location.href);
  const save = makeButton("Save the analysis (JSON)", () => {
    saveFile(`${store.get().opened.game}-analysis.json`, exportText(), "application/json");
    announce("The analysis was saved as a file.");
  });
  const element = make("div", { class: "copy-export" }, make("div", { class: "row" }, fen, moves, link, save), message);
  let position = null;

  if (window.location.search) link.title = "The link contains the access token of the server";

  function exportText() {
    const { welcome, opened, checkpoint } = store.get();
    return JSON.stringify({
      format: "dualmctx-analysis", version: 1, dualmctx: welcome.version,
      game: opened.game, game_parameters: opened.game_parameters, players: opened.players, checkpoint,
      position: { moves: store.position().moves, fen: store.get().fen, side: position.side, fen_now: position.fen },
      ...getAnalysis(),
    }, null, 1);
  }

  function show(next) {
    position = next;
    fen.hidden = !position?.fen;
    save.disabled = position === null;
    message.textContent = "";
  }

  // All moves of the game are copied, whichever position is shown.
  function update(state) {
    moves.disabled = state.moves.length === 0;
    moves.title = moves.disabled ? "The game has no moves yet" : "Copy all moves of the game";
  }

  show(null);
  update(store.get());
  return { element, show, update };
}

// Returns whether the text is on the clipboard. Pages without encryption have no clipboard, except
// on the same computer.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text) {
  const area = make("textarea", { class: "hidden-text", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}
