// The running analysis of one position, and its speed.


// Returns { start(message), stop(), isRunning() }.
//
// onAnswer: called with each answer `analysis` and the simulations per second (null until two
//   answers are known).
// onError: called with an Error; the analysis has then ended.
export function createAnalysis(socket, { onAnswer, onError }) {
  let current = null;

  function receive(run, answer) {
    if (run !== current) return;
    if (answer.type === "analysis") onAnswer(answer, measureSpeed(run, answer));
    if (answer.final || answer.type === "stopped") current = null;
  }

  function start(message) {
    stop();
    const run = { first: null };
    current = run;
    run.stream = socket.stream({ type: "analyse", ...message }, (answer) => receive(run, answer), (error) => {
      if (run !== current) return;
      current = null;
      onError(error);
    });
  }

  function stop() {
    if (!current) return;
    const { stream } = current;
    current = null;
    stream.stop();
  }

  return { start, stop, isRunning: () => current !== null };
}

// Returns the simulations per second since the first answer, which may include a kept subtree.
function measureSpeed(run, answer) {
  // After an interruption of the connection, the server begins again.
  if (!run.first || answer.seconds < run.first.seconds) run.first = answer;
  const seconds = answer.seconds - run.first.seconds;
  return seconds > 0 ? (answer.simulations - run.first.simulations) / seconds : null;
}
