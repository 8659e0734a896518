"""The window and search-contempt in Connect Four: `python -m benchmarks.claims NETWORK`.

NETWORK is that of all searches, in float32, without noise. A perfect player labels all positions.

- `contempt`: searches from contested positions of games between bots. `kept` is the share of moves
  that keep the value; `early` and `late` are its halves by plies.
- `window`: the same positions. `steps` are the edges that a simulation walks, `saved` is the share
  of them that backups do not write, `time` is the processor time relative to no window.
- `engine`: the same times with a network that costs almost nothing and explores little.
- `matches`: games from openings. Where the win takes long, each search plays the package's network
  without a search, on the lost and on the won side; where the opening is drawn, it plays itself.
  `points` are its share, `errors` the own moves per game that lose value (of both sides against
  itself), `weak errors` those of the opponent, `contested` the share of contested own positions.

Each of five seeds has its own positions, openings and keys. In parentheses is the difference to
AlphaZero with as many simulations, paired by seed, with its 95 % interval (Student's t). The same
command continues after a stop.
"""

import functools
import pathlib
import statistics
import sys
import time
from typing import Any, NamedTuple

import bitbully
import jax
import numpy as np

import games
from benchmarks.common import make_params, make_parser, show, write_rows
from benchmarks.connect_four import (
    Positions,
    game_positions,
    labelled,
    make_solver,
    move_values,
    quiet_openings,
)
from benchmarks.variants import count_edges
from dualmctx import AlphaZero, Contempt, UserError, load_trained, make_network, make_search_fn
from dualmctx.commands.tournament_progress import play
from dualmctx.matches import Game, Player, Tournament, read_games, search_player
from dualmctx.matches.players import policy_player
from dualmctx.pipeline.exact import choose_moves
from dualmctx.policies import with_options
from dualmctx.ratings.intervals import half_widths
from dualmctx.runs.folder import keep_settings
from dualmctx.runs.journal import read_rows, reopen_journal
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.types import Params, Policy, PolicyValueNetwork

GAME, LEVEL, WEAK, BASE = "connect_four", 0.95, "weak", "alphazero"
METRICS = ("kept", "points", "decided", "errors", "weak_errors", "contested")
Row = dict[str, Any]
Subject = tuple[PolicyValueNetwork, Params]


class Sizes(NamedTuple):
    """The sizes: numbers are per seed, windows in edges, `limits` are values of N_scl."""

    seeds: tuple[int, ...] = (21, 22, 23, 24, 25)
    positions: int = 24
    openings: int = 12
    drawn: int = 8
    simulations: int = 64
    limits: tuple[int, ...] = (1, 5)
    budgets: tuple[int, ...] = (85, 800)
    windows: tuple[int, ...] = (1, 2, 4, 8)
    batch_size: int = 40


QUICK = Sizes((21, 22), 2, 2, 1, 4, (1,), (6,), (1,), 2)


def make_players(env: Any, subject: Subject, sizes: Sizes) -> list[Player]:
    """Returns AlphaZero and search-contempt."""
    number = sizes.simulations
    limited = {f"N_scl = {x}": Contempt(number, frozen_visit_limit=x) for x in sizes.limits}
    policies: dict[str, Policy] = {BASE: AlphaZero(number), **limited}
    return [search_player(x, env, *subject, y.for_evaluation()) for x, y in policies.items()]


def window_searches(part: str, number: int, windows: tuple[int, ...]) -> dict[str, AlphaZero]:
    """Returns AlphaZero without a window and with each of the windows."""
    base = AlphaZero(number).for_evaluation()
    base = with_options(base, c_puct=0.25) if part == "engine" else base
    return {BASE: base, **{f"window {x}": with_options(base, window=x) for x in windows}}


def cheap(env: Any) -> Subject:
    """Returns a network that costs almost nothing, with random parameters."""
    shape = env.observation_shape
    network = make_network(env.num_actions, shape, width=4, num_blocks=1, trunk="mlp")
    state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 1))
    return network, make_params(network, state, seed=0)


def kept_of(data: Positions, moves: np.ndarray, num_seeds: int) -> Row:
    """Returns the shares of `[S]` moves that keep the value, by seed and by stage of the game."""
    kept = data.keeping[np.arange(len(moves)), moves]
    plies = np.sum(data.histories >= 0, axis=1)
    is_early = plies <= np.median(plies)
    shares = {"early": kept[is_early], "late": kept[~is_early]}
    by_seed = kept.reshape(num_seeds, -1).mean(axis=1).round(4).tolist()
    return {"kept": by_seed, **{x: round(float(y.mean()), 3) for x, y in shares.items()}}


def measure(policy: AlphaZero, subject: Subject, data: Positions, repeats: int) -> Row:
    """Returns `moves` `[S]`, edges per simulation, and processor `seconds` per move."""
    env, number = games.make(GAME), len(data.histories)
    search = make_search_fn(env, subject[0], policy)

    @jax.jit
    def run(params: Params, rng_keys: Any, states: Any) -> Any:
        output = search(params, rng_keys, states)
        return output.action, *count_edges(output.search_tree)

    keys = jax.random.split(jax.random.PRNGKey(0), number)
    inputs = subject[1], keys, games.replay(env, data.histories)
    compiled, seconds, found = run.lower(*inputs).compile(), list[float](), list[Any]()
    for _ in range(repeats):
        start = time.process_time()
        found = [*jax.device_get(compiled(*inputs))]
        seconds.append((time.process_time() - start) / number)
    edges = zip(("steps", "updates"), found[1:], strict=True)
    means = {x: round(float(y.mean()) / policy.num_simulations, 4) for x, y in edges}
    return {"moves": found[0], "seconds": statistics.median(seconds), **means}


def measure_positions(
    folder: pathlib.Path, subject: Subject, data: Positions, sizes: Sizes
) -> list[Row]:
    """Measures the searches from positions that the folder does not have yet; returns all rows."""
    env, file, seeds = games.make(GAME), folder / "rows.jsonl", len(sizes.seeds)
    journal, rows = reopen_journal(file), read_rows(file)
    states = games.replay(env, data.histories)
    jobs: dict[tuple[str, int, str], Any] = {
        ("contempt", sizes.simulations, player.name): lambda player=player: {
            "moves": choose_moves(player, states, sizes.batch_size)
        }
        for player in make_players(env, subject, sizes)
    }
    for part, budgets in (("window", sizes.budgets), ("engine", sizes.budgets[-1:])):
        options = (cheap(env), data, 3) if part == "engine" else (subject, data, 1)
        for number in budgets:
            for name, policy in window_searches(part, number, sizes.windows).items():
                jobs[part, number, name] = functools.partial(measure, policy, *options)
    for key, run_search in jobs.items():
        if key not in [(row["part"], row["case"], row["search"]) for row in rows]:
            found, names = run_search(), zip(("part", "case", "search"), key, strict=True)
            rows.append({**dict(names), **kept_of(data, found.pop("moves"), seeds), **found})
            journal.append(rows[-1:])
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def describe(solver: bitbully.BitBully, game: Game) -> tuple[str, str, tuple[float, ...]]:
    """Returns the kind of start and the name of the search in a game, and its `METRICS`."""
    side = 1 if game.players[0] == WEAK else 0
    found: list[list[tuple[bool, bool]]] = [[], []]
    for ply in range(game.opening, len(game.moves)):
        values = move_values(solver, [*game.moves[:ply]])
        best = np.nanmax(values)
        found[(ply + side) % 2].append((values[game.moves[ply]] < best, np.nanmin(values) < best))
    errors, other = (float(sum(x for x, _ in moves)) for moves in found)
    contested, faced = (float(np.mean([x for _, x in moves] or 0)) for moves in found)
    points = (1 + game.result * (1, -1)[side]) / 2
    case = "itself"
    if WEAK in game.players:
        start = np.nanmax(move_values(solver, [*game.moves[: game.opening]]))
        case = "won side" if start * (1 if game.opening % 2 == side else -1) > 0 else "lost side"
    else:
        errors, other, contested = errors + other, 0.0, (contested + faced) / 2
    return case, game.players[side], (points, float(points != 0.5), errors, other, contested)


def play_matches(folder: pathlib.Path, subject: Subject, sizes: Sizes) -> list[Row]:
    """Plays the games, and returns a row per search and kind of start."""
    env, package, solver = games.make(GAME), load_trained("connect-four"), make_solver()
    players, rows = make_players(env, subject, sizes), list[Row]()
    weak = policy_player(WEAK, package.network, package.params)
    for drawn, each in ((False, sizes.openings), (True, sizes.drawn)):
        openings = [y for x in sizes.seeds for y in quiet_openings(solver, each, x, drawn=drawn)]
        pairings = [(i, i if drawn else len(players)) for i in range(len(players))]
        options: Row = {"batch_size": sizes.batch_size, "move_by_move": True}
        place = folder / ("drawn" if drawn else "decided")
        play(Tournament(env, [*players, weak], openings, pairings, **options), place)
        found: dict[tuple[str, str], dict[int, list[tuple[float, ...]]]] = {}
        for game in read_games(place / "games.jsonl"):
            case, name, numbers = describe(solver, game)
            seeds = found.setdefault((case, name), {})
            seeds.setdefault(game.pair // each, []).append(numbers)
        for (case, name), seeds in sorted(found.items(), key=lambda x: (x[0][0], x[0][1] != BASE)):
            means = np.array([np.mean(seeds[i], axis=0) for i in sorted(seeds)]).round(4)
            metrics = dict(zip(METRICS[1:], means.T.tolist(), strict=True))
            count = sum(map(len, seeds.values()))
            rows.append({"part": "matches", "case": case, "search": name, "games": count} | metrics)
    return rows


def difference(values: list[float], base: list[float]) -> str:
    """Formats the mean difference over seeds with its 95 % interval."""
    change = np.array(values) - np.array(base)
    error = change.std(ddof=1) / len(change) ** 0.5 if len(change) > 1 else np.nan
    half = half_widths(np.array(error), np.array(len(change)), LEVEL)
    return f"({change.mean():+.3f} ± {half:.3f})"


def show_rows(rows: list[Row]) -> None:
    """Prints a table for each part and, for matches, for each kind of start."""
    for part, case in dict.fromkeys((row["part"], row["case"]) for row in rows):
        table, base = [], None
        for row in (x for x in rows if (x["part"], x["case"]) == (part, case)):
            base = base or row
            cells = {x: f"{np.mean(row[x]):.3f}" for x in METRICS if x in row}
            if row is not base:
                cells = {x: f"{y} {difference(row[x], base[x])}" for x, y in cells.items()}
            cells |= {x: row[x] for x in ("games", "early", "late", "steps") if x in row}
            if "steps" in row:
                cells["saved"] = f"{1 - row['updates'] / row['steps']:.3f}"
                cells["time"] = f"{row['seconds'] / base['seconds']:.2f}"
            table.append({"search": row["search"], **cells})
        show(f"{part}, {case}", table)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser = make_parser(__doc__)
    parser.add_argument("network", metavar="NETWORK", help="as in dualmctx evaluate")
    parser.add_argument("--out", type=pathlib.Path, default="runs/claims", help="a folder")
    options = parser.parse_args(arguments)
    sizes, folder = QUICK if options.quick else Sizes(), options.out
    try:
        trained: Any = load_trained(options.network, game=GAME)
        subject = trained.network.clone(dtype="float32"), trained.params
        with locked(lock_beside(folder), folder):
            keep_settings(folder, {"network": options.network} | sizes._asdict(), {})
            make = functools.partial(game_positions, make_solver(), sizes.positions)
            files = ((x, folder / f"games-{x}.csv") for x in sizes.seeds)
            parts = [labelled(file, functools.partial(make, seed)) for seed, file in files]
            data = Positions(*(np.concatenate(x) for x in zip(*parts, strict=True)))
            rows = measure_positions(folder, subject, data, sizes)
            rows += play_matches(folder / "matches", subject, sizes)
    except (UserError, OSError) as error:
        sys.exit(f"claims: {error}")
    except KeyboardInterrupt:
        sys.exit("claims: stopped; the same command continues")
    print(f"random moves keep the value in {data.random_share():.3f} of the positions")
    show_rows(rows)
    write_rows(options.json, rows, sizes=sizes._asdict(), random_moves=data.random_share())


if __name__ == "__main__":
    main()
