"""How many calls one after the other speculation saves: `python -m benchmarks.speculation`.

AlphaZero's search by the final head asks for one leaf after the other. Speculation guesses the next
leaves: it continues the search on a copy of the tree with guessed evaluations, and collects the
positions that this search asks for. One wide call then evaluates the leaf and the guessed positions
by the final head, and the real search goes on as long as it asks for evaluated positions. Its
result does not depend on the guesses, so only the number of calls matters.

The guesses are the outputs of the early head (`early`), or the parent's value with equal priors
(`parent`). `calls` is the mean number of calls of a search; ends of games need none. `saved` is how
many times fewer calls these are than with width 1, and `half width` that of its 95 % interval over
the roots. `used` is the share of the guessed positions that the search has asked for at its end.
The roots are positions of Connect Four after random play and from games of bots. The search is
plain Python; a test compares it with the engine's.
"""

import argparse
import copy
import math
import pathlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
from benchmarks.common import make_parser, show, write_rows
from benchmarks.connect_four import game_positions, make_solver, random_positions
from dualmctx import UserError, load_trained
from dualmctx.checks import check_count
from dualmctx.policies.option_groups import Puct
from dualmctx.ratings.intervals import half_widths
from dualmctx.runs.progress import showing
from dualmctx.types import Params, PolicyValueNetwork

GAME = "connect_four"
EARLY, FINAL = 0, 1
C_PUCT = Puct().c_puct
LEVEL = 0.95
Path = tuple[int, ...]


class Evaluation(NamedTuple):
    """A prior `[A]` over legal moves, and a value for the player to move."""

    prior: np.ndarray
    value: float


class Position(NamedTuple):
    """A position below a root.

    Attributes:
      state: the game's state.
      outcome: the result for the player to move if the game is over, else `None`.
      heads: the evaluations by the early and by the final head.
    """

    state: Any
    outcome: float | None
    heads: tuple[Evaluation, Evaluation]


class Tree:
    """A tree of AlphaZero's search: the prior, visits and sums of values of each expanded path."""

    def __init__(self, root: Evaluation) -> None:
        """Starts with the root."""
        self.priors: dict[Path, np.ndarray] = {(): root.prior}
        self.visits: dict[Path, np.ndarray] = {(): np.zeros(len(root.prior))}
        self.sums: dict[Path, np.ndarray] = {(): np.zeros(len(root.prior))}

    def select(self) -> Path:
        """Returns the path to the next leaf by PUCT; the rule is that of `dualmctx.AlphaZero`."""
        path: Path = ()
        while path in self.priors:
            visits, prior = self.visits[path], self.priors[path]
            qvalues = self.sums[path] / np.maximum(visits, 1)
            score = qvalues + C_PUCT * prior * max(visits.sum(), 1) ** 0.5 / (1 + visits)
            path += (int(np.argmax(np.where(prior > 0, score, -np.inf))),)
        return path

    def add(self, path: Path, evaluation: Evaluation, outcome: float | None) -> None:
        """Adds a leaf, and its value to the moves above it; a finished game has no moves."""
        if outcome is None:
            self.priors[path] = evaluation.prior
            self.visits[path] = np.zeros(len(evaluation.prior))
            self.sums[path] = np.zeros(len(evaluation.prior))
        value = evaluation.value if outcome is None else outcome
        for end in range(len(path) - 1, -1, -1):
            value = -value
            self.visits[path[:end]][path[end]] += 1
            self.sums[path[:end]][path[end]] += value

    def copy(self) -> "Tree":
        """Returns a copy; priors are shared."""
        other = copy.copy(self)
        other.priors = dict(self.priors)
        other.visits, other.sums = (
            {path: x.copy() for path, x in rows.items()} for rows in (self.visits, self.sums)
        )
        return other


class Positions:
    """The positions below a root, each evaluated once by both heads."""

    def __init__(self, step: Callable[..., Any], root: Any) -> None:
        """Evaluates the root, a state of the game; `step` is the result of `compile_step`."""
        self._step, self._known = step, dict[Path, Position]()
        self._known[()] = self._read(self._step(root, -1))

    def __getitem__(self, path: Path) -> Position:
        """Returns the position after a path of moves."""
        if path not in self._known:
            self._known[path] = self._read(self._step(self[path[:-1]].state, path[-1]))
        return self._known[path]

    @staticmethod
    def _read(found: Any) -> Position:
        state, is_over, reward, outputs = found
        heads = [Evaluation(np.asarray(x, np.float64), float(y)) for x, y in outputs]
        return Position(state, float(reward) if is_over else None, (heads[0], heads[1]))


def compile_step(network: PolicyValueNetwork, params: Params, head: int) -> Callable[..., Any]:
    """Compiles a function that plays an action, or none if it is -1, and evaluates the result."""
    env = games.make(GAME)
    last = len(network.head_depths) - 1

    @jax.jit
    def step(state: Any, action: Any) -> Any:
        after = env.step(state, jnp.maximum(action, 0))
        after = jax.tree.map(lambda x, y: jnp.where(action < 0, x, y), state, after)
        outputs = []
        for each in (head, last):
            _, output = network.apply(params, after.observation[None], each, method="begin")
            logits = jnp.where(after.legal_action_mask, output.logits[0], -jnp.inf)
            outputs.append((jax.nn.softmax(logits), output.value[0]))
        is_over = after.terminated | after.truncated
        return after, is_over, after.rewards[after.current_player], outputs

    return step


def guess(kind: str, tree: Tree, positions: Positions, path: Path) -> Evaluation:
    """Guesses the evaluation of a leaf by the final head."""
    if kind == "early":
        return positions[path].heads[EARLY]
    legal = np.asarray(positions[path].state.legal_action_mask, float)
    above = path[:-1]
    visits = tree.visits[above].sum()
    value = tree.sums[above].sum() / visits if visits else positions[above].heads[FINAL].value
    return Evaluation(legal / max(legal.sum(), 1), -value)


def wanted(
    kind: str, tree: Tree, positions: Positions, known: set[Path], leaf: Path, width: int
) -> list[Path]:
    """Returns the leaf and the positions that a guessed continuation asks for, at most `width`."""
    found, other = [leaf], tree.copy()
    for _ in range(4 * width):
        if len(found) == width:
            break
        path = other.select()
        position = positions[path]
        evaluation = position.heads[FINAL] if path in known else guess(kind, other, positions, path)
        if path not in known and path not in found and position.outcome is None:
            found.append(path)
        other.add(path, evaluation, position.outcome)
    return found


def count_calls(
    kind: str, positions: Positions, num_simulations: int, width: int
) -> tuple[Tree, int, int, int]:
    """Searches with speculation.

    Returns:
      The tree, and the numbers of calls, of guessed positions, and of those that were asked for.
    """
    tree, known, guessed, calls = Tree(positions[()].heads[FINAL]), set[Path](), set[Path](), 0
    for _ in range(num_simulations):
        leaf = tree.select()
        position = positions[leaf]
        if position.outcome is None and leaf not in known:
            paths = wanted(kind, tree, positions, known, leaf, width)
            calls += 1
            known.update(paths)
            guessed.update(paths[1:])
        tree.add(leaf, position.heads[FINAL], position.outcome)
    return tree, calls, len(guessed), len(guessed & tree.priors.keys())


def measure(
    kind: str, roots: list[Positions], num_simulations: int, width: int, single: np.ndarray
) -> dict[str, Any]:
    """Counts the calls of searches from all roots; `single` are the counts with width 1."""
    counts = np.array([count_calls(kind, x, num_simulations, width)[1:] for x in roots])
    calls, guessed, used = counts.sum(axis=0)
    saved = single.sum() / calls
    # The standard error of a ratio of sums over the roots.
    rest = single - saved * counts[:, 0]
    error = rest.std(ddof=1) / counts[:, 0].mean() / len(roots) ** 0.5 if len(roots) > 1 else np.nan
    half = float(half_widths(np.array(error), np.array(len(roots)), LEVEL))
    return {
        "guess": kind,
        "width": width,
        "calls": round(float(calls / len(roots)), 1),
        "saved": round(float(saved), 2),
        "half_width": round(half, 2) if math.isfinite(half) else None,
        "used": round(float(used / max(guessed, 1)), 3),
    }


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--network", default="connect-four", help="as in dualmctx evaluate")
    add("--head", type=int, default=0, help="the early head; default: 0")
    add("--simulations", type=int, default=200, help="default: 200")
    add("--number", type=int, default=20, help="roots of each of two kinds; default: 20")
    add("--widths", type=int, nargs="+", default=[2, 4, 8, 16, 32, 64], help="of a call")
    options = parser.parse_args(arguments)
    if options.quick:
        options.simulations, options.number, options.widths = 8, 1, [4]
    return options


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    options = read_options(arguments)
    try:
        for name in ("simulations", "number"):
            check_count(name, getattr(options, name), 1)
        trained = load_trained(pathlib.Path(options.network), game=GAME)
    except (UserError, OSError) as error:
        sys.exit(f"speculation: {error}")
    step, solver = compile_step(trained.network, trained.params, options.head), make_solver()
    roots = []
    for make in (random_positions, game_positions):
        states = games.replay(games.make(GAME), make(solver, options.number, seed=5).histories)
        rows = range(options.number)
        roots += [Positions(step, jax.tree.map(lambda x, i=i: x[i], states)) for i in rows]
    rows = []
    # With width 1 nothing is guessed.
    single = np.array([count_calls("early", x, options.simulations, 1)[1] for x in roots])
    pairs = [(kind, width) for width in options.widths for kind in ("early", "parent")]
    with showing() as progress:
        for done, (kind, width) in enumerate(pairs, start=1):
            rows.append(measure(kind, roots, options.simulations, width, single))
            progress("rows", done, len(pairs))
    show(f"{options.simulations} simulations, {len(roots)} roots", rows)
    write_rows(options.json, rows, simulations=options.simulations, roots=len(roots))


if __name__ == "__main__":
    main()
