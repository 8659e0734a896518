"""The window and search-contempt in Connect Four: `python -m benchmarks.claims NETWORK`.

NETWORK is that of all searches, computed in float32. Searches have no noise at the root. A perfect
player labels all positions. The parts are

- `contempt` and `window`: searches from contested positions of games between bots. `kept` is the
  share of moves that keep the value; `early` and `late` are its halves by plies. `steps` are the
  edges that a simulation walks, `saved` is the share of them that backups do not write, `time` is
  the processor time relative to the search without a window;
- `engine`: the same times with a network that costs almost nothing and explores little;
- `matches`: games at equal simulations. From openings whose win takes long, each search plays the
  package's network without a search, on the lost and on the won side; from drawn ones, itself.
  `points` are its share, `errors` the own moves per game that lose value, `weak errors` those of
  the opponent, `contested` the share of own moves at which some move loses value.

Each of five seeds has its own positions, openings and keys. In parentheses is the difference to
AlphaZero with as many simulations, paired by seed, with its 95 % interval (Student's t). The same
command continues after a stop.
"""

import argparse
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import bitbully
import jax
import jax.numpy as jnp
import numpy as np

import games
from benchmarks.common import make_params, make_parser, show, write_rows
from benchmarks.connect_four import (
    Positions,
    game_positions,
    labelled,
    make_solver,
    move_values,
    random_game,
    sample_distinct,
)
from dualmctx import AlphaZero, Contempt, UserError, load_trained, make_network, make_search_fn
from dualmctx.commands.tournament_progress import play
from dualmctx.matches import Game, Tournament, read_games, search_player
from dualmctx.matches.players import policy_player
from dualmctx.policies import with_options
from dualmctx.ratings.intervals import half_widths
from dualmctx.runs.folder import keep_settings
from dualmctx.runs.journal import read_rows, reopen_journal
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.types import Params, Policy, PolicyValueNetwork

GAME, LEVEL, WEAK, BASE = "connect_four", 0.95, "weak", "alphazero"
METRICS = ("kept", "points", "decided", "errors", "weak_errors", "contested")


class Sizes(NamedTuple):
    """The sizes: numbers are per seed, windows in edges, `limits` are values of N_scl."""

    seeds: tuple[int, ...] = (21, 22, 23, 24, 25)
    positions: int = 24
    openings: int = 16
    drawn: int = 8
    simulations: int = 64
    limits: tuple[int, ...] = (1, 5, 28)
    budgets: tuple[int, ...] = (85, 800)
    windows: tuple[int, ...] = (1, 2, 4, 8)
    batch_size: int = 40


QUICK = Sizes((21, 22), 2, 2, 1, 4, (1,), (6,), (1,), 2)


class Subject(NamedTuple):
    """A network with its parameters."""

    network: PolicyValueNetwork
    params: Params


def contempt_searches(sizes: Sizes) -> dict[str, Policy]:
    """Returns AlphaZero and search-contempt, by name."""
    number = sizes.simulations
    limited = {f"N_scl = {x}": Contempt(number, frozen_visit_limit=x) for x in sizes.limits}
    return {x: y.for_evaluation() for x, y in ({BASE: AlphaZero(number)} | limited).items()}


def searches(sizes: Sizes) -> Iterator[tuple[str, str, Policy]]:
    """Yields the part, the name and the policy of each search from positions."""
    for name, policy in contempt_searches(sizes).items():
        yield "contempt", name, policy
    for part, budgets in (("window", sizes.budgets), ("engine", sizes.budgets[-1:])):
        for number in budgets:
            base = AlphaZero(number).for_evaluation()
            base = with_options(base, c_puct=0.25) if part == "engine" else base
            yield part, BASE, base
            for window in sizes.windows:
                yield part, f"window {window}", with_options(base, window=window)


def cheap(env: Any) -> Subject:
    """Returns a network that costs almost nothing, with random parameters."""
    shape = env.observation_shape
    network = make_network(env.num_actions, shape, width=4, num_blocks=1, trunk="mlp")
    state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 1))
    return Subject(network, make_params(network, state, seed=0))


def run_search(
    env: Any, subject: Subject, policy: Policy, data: Positions, repeats: int
) -> tuple[dict[str, np.ndarray], float]:
    """Searches from `[S]` positions with one key each.

    Returns:
      `kept`, `steps` and `updates` (per simulation), each `[S]`; and the processor time per move,
      the median of the repeats.
    """
    search = make_search_fn(env, subject.network, policy)

    @jax.jit
    def run(params: Params, rng_keys: Any, states: Any) -> Any:
        output = search(params, rng_keys, states)
        stats = output.search_tree.stats[0]
        passes = stats.node_visits if stats.path_visits is None else stats.path_visits
        edges = (jnp.sum(x[:, 1:], axis=1) for x in (passes, stats.node_visits))
        return output.action, *edges

    number, total = len(data.histories), sum(np.atleast_1d(policy.num_simulations))
    keys = jax.random.split(jax.random.PRNGKey(0), number)
    inputs = subject.params, keys, games.replay(env, data.histories)
    compiled, seconds, found = run.lower(*inputs).compile(), list[float](), ()
    for _ in range(repeats):
        start = time.process_time()
        found = jax.device_get(jax.block_until_ready(compiled(*inputs)))
        seconds.append((time.process_time() - start) / number)
    action, steps, updates = found
    kept = data.keeping[np.arange(number), action].astype(float)
    return {"kept": kept, "steps": steps / total, "updates": updates / total}, statistics.median(
        seconds
    )


def measure(
    part: str, name: str, policy: Policy, subject: Subject, data: Positions, sizes: Sizes
) -> dict[str, Any]:
    """Returns the row of a search from positions, with one number per seed."""
    env, is_engine = games.make(GAME), part == "engine"
    used = cheap(env) if is_engine else subject
    found, seconds = run_search(env, used, policy, data, 3 if is_engine else 1)
    plies = np.sum(data.histories >= 0, axis=1)
    is_early = plies <= np.median(plies)
    by_seed = {x: y.reshape(len(sizes.seeds), -1).mean(axis=1) for x, y in found.items()}
    return {
        **{"part": part, "case": policy.num_simulations, "search": name, "seconds": seconds},
        **{x: [round(float(z), 4) for z in y] for x, y in by_seed.items()},
        "early": round(float(found["kept"][is_early].mean()), 3),
        "late": round(float(found["kept"][~is_early].mean()), 3),
    }


def make_openings(solver: bitbully.BitBully, number: int, seed: int, *, drawn: bool) -> Any:
    """Makes openings of 6 to 10 random plies: drawn ones, or such that the win takes long."""
    rng = random.Random(seed)

    def sample() -> list[int] | None:
        moves = random_game(rng, rng.randint(6, 10))
        if moves is None:
            return None
        # The score of a win is one more than the number of discs that the winner has left.
        best = abs(max(solver.score_all_moves(bitbully.Board(moves)).values()))
        return moves if best in ((0,) if drawn else range(1, 7)) else None

    return [tuple(moves) for moves in sample_distinct(sample, number)]


def judge(solver: bitbully.BitBully, game: Game, side: int) -> tuple[float, float, float, bool]:
    """Returns a side's points, errors, share of contested moves, and whether it began better."""
    own = [x for x in range(game.opening, len(game.moves)) if x % 2 == side]
    values = [move_values(solver, [*game.moves[:x]]) for x in own]
    errors = sum(y[game.moves[x]] < np.nanmax(y) for x, y in zip(own, values, strict=True))
    contested = np.mean([np.nanmin(y) < np.nanmax(y) for y in values]) if own else 0.0
    start = np.nanmax(move_values(solver, [*game.moves[: game.opening]]))
    is_better = start * (1 if game.opening % 2 == side else -1) > 0
    points = (1 + game.result * (1, -1)[side]) / 2
    return points, float(errors), float(contested), bool(is_better)


def play_matches(folder: pathlib.Path, subject: Subject, sizes: Sizes) -> list[dict[str, Any]]:
    """Plays the games, and returns a row per search and kind of start."""
    env, package, solver = games.make(GAME), load_trained("connect-four"), make_solver()
    chosen = contempt_searches(sizes)
    players = [search_player(name, env, *subject, policy) for name, policy in chosen.items()]
    weak, rows = policy_player(WEAK, package.network, package.params), list[dict[str, Any]]()
    for drawn, each in ((False, sizes.openings), (True, sizes.drawn)):
        openings = [y for x in sizes.seeds for y in make_openings(solver, each, x, drawn=drawn)]
        pairings = [(i, i if drawn else len(players)) for i in range(len(players))]
        options = {"batch_size": sizes.batch_size, "move_by_move": True}
        place = folder / ("drawn" if drawn else "decided")
        play(Tournament(env, [*players, weak], openings, pairings, **options), place)
        found: dict[tuple[str, str], dict[int, list[tuple[float, ...]]]] = {}
        for game in read_games(place / "games.jsonl"):
            own = 1 if game.players[0] == WEAK else 0
            points, errors, contested, is_better = judge(solver, game, own)
            other = judge(solver, game, 1 - own)
            if drawn:
                errors, contested = errors + other[1], (contested + other[2]) / 2
            case = "itself" if drawn else "won side" if is_better else "lost side"
            row = points, float(points != 0.5), errors, 0.0 if drawn else other[1], contested
            seeds = found.setdefault((case, game.players[own]), {})
            seeds.setdefault(game.pair // each, []).append(row)
        for (case, name), seeds in sorted(found.items(), key=lambda x: (x[0][0], x[0][1] != BASE)):
            numbers = np.array([np.mean(seeds[i], axis=0) for i in sorted(seeds)]).round(4)
            metrics = dict(zip(METRICS[1:], numbers.T.tolist(), strict=True))
            count = sum(map(len, seeds.values()))
            rows.append({"part": "matches", "case": case, "search": name, "games": count} | metrics)
    return rows


def difference(values: list[float], base: list[float]) -> str:
    """Formats the mean difference over seeds with its 95 % interval."""
    change = np.array(values) - np.array(base)
    error = change.std(ddof=1) / len(change) ** 0.5 if len(change) > 1 else np.nan
    half = half_widths(np.array(error), np.array(len(change)), LEVEL)
    return f"({change.mean():+.3f} ± {half:.3f})"


def show_rows(rows: list[dict[str, Any]]) -> None:
    """Prints a table for each part."""
    for part in dict.fromkeys(row["part"] for row in rows):
        table, bases = [], dict[Any, dict[str, Any]]()
        for row in (x for x in rows if x["part"] == part):
            base = bases.setdefault(row["case"], row)
            cells = {x: f"{np.mean(row[x]):.3f}" for x in METRICS if x in row}
            if row is not base:
                cells = {x: f"{y} {difference(row[x], base[x])}" for x, y in cells.items()}
            if "steps" in row:
                cells |= {"early": row["early"], "late": row["late"]}
                cells["steps"] = f"{np.mean(row['steps']):.2f}"
                cells["saved"] = f"{1 - np.mean(row['updates']) / np.mean(row['steps']):.3f}"
                cells["time"] = f"{row['seconds'] / base['seconds']:.2f}"
            table.append({"case": row["case"], "search": row["search"], **cells})
        show(part, table)


def run(folder: pathlib.Path, subject: Subject, sizes: Sizes) -> tuple[list[Any], float]:
    """Measures all that the folder does not have yet; returns the rows and the share of chance."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "rows.jsonl"
    with locked(lock_beside(file), file):
        parts = []
        for seed in sizes.seeds:
            place = folder / f"games-{seed}.csv"
            make = lambda seed=seed: game_positions(make_solver(), sizes.positions, seed)  # noqa: E731
            parts.append(labelled(place, make))
        data = Positions(*(np.concatenate(x) for x in zip(*parts, strict=True)))
        journal, rows = reopen_journal(file), read_rows(file)
        known = [(row["part"], row["case"], row["search"]) for row in rows]
        for part, name, policy in searches(sizes):
            if (part, policy.num_simulations, name) not in known:
                rows.append(measure(part, name, policy, subject, data, sizes))
                journal.append(rows[-1:])
                print(rows[-1], file=sys.stderr, flush=True)
        return rows + play_matches(folder / "matches", subject, sizes), data.random_share()


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser = make_parser(__doc__)
    parser.add_argument("network", metavar="NETWORK", help="as in dualmctx evaluate")
    folder = pathlib.Path("runs/claims")
    parser.add_argument("--out", type=pathlib.Path, default=folder, help=f"default: {folder}")
    options: argparse.Namespace = parser.parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()
    try:
        found = load_trained(options.network, game=GAME)
        subject = Subject(found.network.clone(dtype="float32"), found.params)
        settings = {"network": options.network, **sizes._asdict()}
        keep_settings(options.out, settings, {})
        rows, chance = run(options.out, subject, sizes)
    except (UserError, OSError) as error:
        sys.exit(f"claims: {error}")
    except KeyboardInterrupt:
        sys.exit("claims: stopped; the same command continues")
    print(f"random moves keep the value in {chance:.3f} of the positions")
    show_rows(rows)
    write_rows(options.json, rows, sizes=sizes._asdict(), chance=round(chance, 3))


if __name__ == "__main__":
    main()
