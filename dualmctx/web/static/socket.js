// One WebSocket to the server: requests, streams, and reconnection.
//
// The server keeps no game, so each message is complete in itself. Messages without an answer are
// sent again after a reconnection, and the caller does not notice the interruption.

const FIRST_DELAY = 250; // milliseconds
const LONGEST_DELAY = 8_000;
// A message that loses the connection this often is not sent again.
const MAX_ATTEMPTS = 5;

// Connects and stays connected. The address has the token of the page's address.
//
// onState: called with { isOpen, text } after each change; `text` says why there is no connection.
// onProgress: called with the newest message `progress`, and with null when there is none.
// Returns { request, stream }.
export function connect(onState, onProgress) {
  const { protocol, host, search } = window.location;
  const address = `${protocol === "https:" ? "wss:" : "ws:"}//${host}/socket${search}`;
  const pending = new Map(); // from the id of a message to { message, attempts, onAnswer, onError }
  const progress = new Map(); // from the id of a pending message to its progress, the newest last
  let socket = null;
  let nextId = 1;
  let delay = FIRST_DELAY;
  let timer = null;
  let refusal = ""; // an error of the server that answers no message

  function open() {
    clearTimeout(timer);
    socket = new WebSocket(address);
    socket.addEventListener("open", () => {
      onState({ isOpen: true, text: "" });
      [...pending.values()].forEach(send);
    });
    socket.addEventListener("message", (event) => receive(event.data));
    socket.addEventListener("close", (event) => {
      onState({ isOpen: false, text: refusal || event.reason || "No connection to the server." });
      progress.clear();
      showProgress();
      timer = setTimeout(open, delay * (0.75 + 0.5 * Math.random()));
      delay = Math.min(2 * delay, LONGEST_DELAY);
    });
  }

  function send(entry) {
    if (socket.readyState !== WebSocket.OPEN) return;
    entry.attempts += 1;
    if (entry.attempts > MAX_ATTEMPTS) fail(entry, "The connection broke at each attempt to send this request.");
    else socket.send(JSON.stringify(entry.message));
  }

  function showProgress() {
    onProgress([...progress.values()].at(-1) ?? null);
  }

  // Forgets a message; returns whether it was pending.
  function forget(id) {
    if (progress.delete(id)) showProgress();
    return pending.delete(id);
  }

  function fail(entry, text) {
    forget(entry.message.id);
    entry.onError(new Error(text));
  }

  function receive(text) {
    const answer = JSON.parse(text);
    const entry = pending.get(answer.id);
    if (answer.type === "error" && answer.id === null) refusal = `${answer.message}.`;
    if (!entry) return;
    // A server that refuses the page answers no message, so the delay keeps growing.
    delay = FIRST_DELAY;
    refusal = "";
    progress.delete(answer.id);
    if (answer.type === "progress") progress.set(answer.id, answer);
    showProgress();
    if (answer.type === "progress") return;
    if (answer.type === "error") fail(entry, answer.message);
    else if (entry.onAnswer(answer)) forget(answer.id);
  }

  // Sends a message. Returns { stop }. `onAnswer` is called with each answer but progress and returns
  // whether it is the last one; after `onError` there are no more answers.
  function start(message, onAnswer, onError) {
    const id = nextId++;
    const entry = { message: { ...message, id }, attempts: 0, onAnswer, onError };
    pending.set(id, entry);
    send(entry);
    return {
      stop() {
        if (forget(id) && socket.readyState === WebSocket.OPEN) {
          socket.send(JSON.stringify({ type: "stop", id: nextId++, target: id }));
        }
      },
    };
  }

  // Returns a promise of the answer to a message, which is given without an id. The signal of an
  // AbortController stops the work of the server and rejects the promise with an "AbortError".
  function request(message, { signal = null } = {}) {
    return new Promise((resolve, reject) => {
      const { stop } = start(message, (answer) => {
        resolve(answer);
        return true;
      }, reject);
      signal?.addEventListener("abort", () => {
        stop();
        reject(new DOMException("The request was stopped.", "AbortError"));
      });
    });
  }

  // Sends a message with several answers, until one has `final` or the type "stopped". Returns { stop }.
  function stream(message, onAnswer, onError) {
    return start(message, (answer) => {
      onAnswer(answer);
      return answer.final === true || answer.type === "stopped";
    }, onError);
  }

  // A browser that is online again need not wait.
  window.addEventListener("online", () => socket.readyState === WebSocket.CLOSED && open());
  onState({ isOpen: false, text: "" });
  open();
  return { request, stream };
}
