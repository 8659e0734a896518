"""Optimal moves by search alone, for every variant: `python -m benchmarks.variants [--json FILE]`.

The games are Connect2, Nim, HSR and tic-tac-toe. The size and the seed of the network do not
matter. Moves are those of evaluation, without noise at the root; ties go to the lowest action.

The table has the variants of the registry with their defaults, and some options. Its cells are the
percentage of positions whose move keeps the value, a mean over the keys of a random search; then,
with the first key, the number of positions in which it does and AlphaZero's does not, and the
reverse. The line "random moves" has the expected share of a legal move drawn at random, by the
exact solution. `saved` is the share of the edges that simulations walk and that the backups of a
window do not write. The rest is in benchmarks/README.md.
"""

import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import dualmctx
import games
from benchmarks.common import Row, at_least_one, make_parser, show
from benchmarks.ledger import write_measurement
from dualmctx import with_options
from dualmctx.policies import REGISTRY
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.types import Environment, Policy

GAMES = ("connect2", "nim", "hsr", "tic_tac_toe")
NUM_SIMULATIONS = 400
BATCH_SIZE = 512
BASELINE = "alphazero"
# Options that change a search or its move.
OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("alphazero", {"leaves_per_step": 16}),
    ("alphazero", {"leaves_per_step": 16, "virtual_loss": 3}),
    ("alphazero", {"regularized": ("act",)}),
    ("alphazero", {"regularized": ("act", "search")}),
    ("alphazero", {"minimax_mix": 0.4}),
    ("alphazero", {"rave_visits": 1000.0}),
    ("alphazero", {"window": 1}),
    ("alphazero", {"window": 2}),
    ("alphazero", {"window": 4}),
    ("dual", {"num_rounds": 1}),
    ("dual", {"action_weights": "large_visits"}),
    ("dual", {"action_weights": "all_visits"}),
    ("dual", {"action_weights": "regularized"}),
    ("contempt", {"frozen_visit_limit": 50}),
    ("contempt", {"frozen_visit_limit": -5}),
    ("alphago", {"rollout_mix": 1.0}),
)


class Case(NamedTuple):
    """A solved game: `[S]` states, and `[S, A]` bool, the optimal moves."""

    name: str
    env: Environment
    states: Any
    optimal: np.ndarray


class SearchResult(NamedTuple):
    """The result of a search in S positions.

    Attributes:
      action: `[S]` moves.
      action_weights: `[S, A]` weights.
      edges: `[S, 2]` edges of the first tree that simulations walked and that backups wrote.
    """

    action: Any
    action_weights: Any
    edges: Any


def solve_case(name: str) -> Case:
    """Solves a game."""
    env = games.make(name)
    solution = games.solve(env)
    states = games.replay(env, solution.histories, key=jax.random.PRNGKey(0))
    return Case(name, env, states, solution.optimal_actions)


def random_share(case: Case) -> float:
    """Returns the expected share of optimal moves if each legal move is equally likely."""
    legal = np.sum(np.asarray(case.states.legal_action_mask), axis=1)
    return float(np.mean(np.sum(case.optimal, axis=1) / legal))


def searches(total: int) -> dict[str, Policy]:
    """Returns the variants of the registry and those with options, by name, for evaluation."""
    found = {name: with_simulations(row.policy(), total) for name, row in REGISTRY.items()}
    for name, options in OPTIONS:
        policy = with_options(found[name], **options)
        shown = (f"{key} {_shown(value)}" for key, value in options.items())
        found[f"{name}, {', '.join(shown)}"] = policy
    return {name: policy.for_evaluation() for name, policy in found.items()}


def _shown(value: Any) -> str:
    return " and ".join(value) if isinstance(value, tuple) else str(value)


def count_edges(tree: Any) -> Any:
    """Returns `[B, 2]` edges of the first tree that simulations walked and that backups wrote."""
    stats = tree.stats[0]
    # Without a window, every edge that is walked is written.
    passes = stats.node_visits if stats.path_visits is None else stats.path_visits
    return jnp.stack([jnp.sum(x[:, 1:], axis=1) for x in (passes, stats.node_visits)], axis=1)


def make_run(case: Case, policy: Policy) -> Any:
    """Returns `(rng_key) -> SearchResult` for all positions of a game, compiled once."""
    heads = len(policy.heads)
    network = dualmctx.make_network(
        case.env.num_actions,
        case.env.observation_shape,
        width=8,
        num_blocks=heads,
        head_depths=tuple(range(1, heads + 1)),
        trunk="mlp",
    )
    search = dualmctx.make_search_fn(case.env, network, policy)
    num_positions = len(case.optimal)
    batch_size = min(BATCH_SIZE, num_positions)

    def run_batch(rng_key: Any, states: Any) -> SearchResult:
        params = network.init(jax.random.PRNGKey(0), states.observation)
        output = search(params, rng_key, states)
        edges = count_edges(output.search_tree)
        return SearchResult(output.action, output.action_weights, edges)

    def batch(start: int) -> Any:
        index = np.arange(start, start + batch_size) % num_positions
        return jax.tree.map(lambda x: x[index], case.states)

    # With few positions, compiling would take most of the time.
    quick = {"xla_backend_optimization_level": 0} if num_positions < BATCH_SIZE else {}
    compiled = jax.jit(run_batch, compiler_options=quick)
    compiled = compiled.lower(jax.random.PRNGKey(0), batch(0)).compile()

    def run(rng_key: Any) -> SearchResult:
        starts = range(0, num_positions, batch_size)
        parts = [
            jax.device_get(compiled(jax.random.fold_in(rng_key, start), batch(start)))
            for start in starts
        ]
        return SearchResult(*(np.concatenate(x)[:num_positions] for x in zip(*parts, strict=True)))

    return run


def is_optimal(case: Case, found: SearchResult) -> np.ndarray:
    """Returns `[S]` bool: whether the move keeps the value."""
    return case.optimal[np.arange(len(case.optimal)), found.action]


def measure(
    case: Case, policy: Policy, baseline: SearchResult | None, num_keys: int
) -> tuple[float | str, SearchResult]:
    """Runs a search in a game, with several keys if it is random.

    Args:
      case: the game.
      policy: the search.
      baseline: the result of AlphaZero; `None` for AlphaZero itself.
      num_keys: number of keys.

    Returns:
      The cell of the table, and the result with the first key.
    """
    run = make_run(case, policy)
    first = run(jax.random.PRNGKey(0))
    runs = [first]
    for seed in range(1, num_keys):
        runs.append(run(jax.random.PRNGKey(seed)))
        if np.array_equal(runs[-1].action_weights, first.action_weights):
            break
    right = [is_optimal(case, found) for found in runs]
    share = 100 * float(np.mean(right))
    if baseline is None:
        return round(share, 2), first
    against = is_optimal(case, baseline)
    better, worse = np.sum(right[0] & ~against), np.sum(~right[0] & against)
    walked, written = first.edges.mean(axis=0)
    saved = f", {1 - written / walked:.1%} saved" if written < walked else ""
    return f"{share:.2f}, +{better} −{worse}{saved}", first


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=at_least_one, default=3, help="keys for a random search")
    parser.add_argument("--games", nargs="+", choices=GAMES, default=GAMES, help="some games only")
    parser.add_argument("--only", default="", metavar="REGEX", help="only rows that match")
    options = parser.parse_args(arguments)
    is_selected = re.compile(options.only).search
    every = searches(20 if options.quick else NUM_SIMULATIONS)
    chosen = [BASELINE, *(x for x in every if is_selected(x) and x != BASELINE)]
    rows: dict[str, Row] = {x: {"search": x} for x in ("random moves", *chosen)}
    for name in options.games[:1] if options.quick else options.games:
        case, baseline = solve_case(name), None
        rows["random moves"][name] = round(100 * random_share(case), 2)
        for search in chosen:
            rows[search][name], found = measure(case, every[search], baseline, options.repeats)
            baseline = baseline or found
            print(f"{name}: {search}: {rows[search][name]}", flush=True)
    show("optimal moves in %, +better −worse than AlphaZero", [*rows.values()])
    write_measurement(options.json, [*rows.values()])


if __name__ == "__main__":
    main()
