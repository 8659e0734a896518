// Short explanations of the terms, for tables and for the help of the page.

import { make } from "/shared/dom.js";

export const TERM_HELP = {
  N: "Visits: how many simulations of this tree have counted in the node.",
  P: "Prior: the network's probability for the move, before any search.",
  Q: "Mean of the results of all simulations through the move, from −1 (loss) to +1 (win), in the view of the player who moves.",
  V: "Mean value of the node, in the view of the player to move there.",
  exploration: "Exploration term: large for moves with a high prior and few visits, so that they are tried too.",
  score: "Sum of the addends. The move with the largest score is followed.",
  passes: "Simulations of the earlier tree that passed through the node; the most visited nodes are taken over first.",
  distance: "How far the priors of the two heads are apart: half the sum of the absolute differences, from 0 (equal) to 1.",
  frozen: "The visits at the moment when the search of the opponent stopped at this node; moves are drawn in proportion to them.",
  window: "A windowed backup updates only the last edges of the path. Nodes above them are outside the window.",
  blocks: "Cost: residual blocks of the network that were computed so far, one position each. The roots are not counted.",
};

const TOPICS = [
  ["Selection", "Each simulation starts at the root and follows, at every node, the move with the largest score: Q plus an exploration term. Q favours moves that were good so far; the exploration term favours moves with a high prior and few visits."],
  ["Expansion", "At the end of the path the tree gets a new node. A head of the network gives its value and a prior for each of its moves. At the end of the game the result is exact and no network is needed."],
  ["Backup", "The result goes back up the path. Every node counts one more visit, and its mean moves towards the result. With a window, only the last edges of the path are updated."],
  ["Two trees (Dual)", "Both trees have the same nodes and moves, but numbers of their own. An early, cheap head grows the small tree. After some simulations the large tree takes over the nodes that most of them passed through, and the final, expensive head evaluates these. The two outputs are mixed, and the means above are corrected, in both trees."],
  ["Cost", "The cost is counted in network blocks. The early head needs only the first blocks of the network; the final head continues from there. If AlphaZero was recorded too, a box at the top shows its tree at the same cost."],
];

const KEYS = [["← →", "one micro-step back or forward"], ["Page Up, Page Down", "a whole step"], ["Home, End", "start, end"],
  ["P", "play or pause"], ["in a tree: arrows", "choose a node (Enter opens a summary)"],
  ["in a tree: + − 0, Shift+arrows", "zoom, fit, pan"]];

export function makeHelp(hasSeveralTrees) {
  const topics = TOPICS.filter(([title]) => hasSeveralTrees || !title.startsWith("Two"));
  return make("details", { class: "dv-help" },
    make("summary", {}, "How to read this page"),
    make("dl", {}, ...topics.flatMap(([title, text]) => [make("dt", {}, title), make("dd", {}, text)])),
    make("dl", { class: "dv-keys" }, ...KEYS.flatMap(([keys, text]) => [make("dt", {}, keys), make("dd", {}, text)])));
}
