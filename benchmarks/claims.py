"""The window and search-contempt in Connect Four: `python -m benchmarks.claims NETWORK`.

NETWORK is that of all searches, in float32, without noise. A perfect player labels all positions.

The positions are hard ones, because a search with a strong network keeps the value in nearly all
others: in each, the most probable move of the network alone loses value. They are chosen from all
positions of games between bots, at most one per game. No search is read for the choice. A search
that follows the prior more closely keeps the value less often in them; shares are not those of
ordinary positions.

- `contempt`: `kept` is the share of moves that keep the value; `early` and `late` are its halves by
  plies.
- `window`: the same positions. `kept` has the move with the most updates, AlphaZero's move by
  visits; a window limits the updates of the root's edges, so moves tie. `kept by passes` has the
  move that most simulations pass through. `steps` are the edges that a simulation walks, `saved` is
  the share of them that backups do not write, `time` is the processor time relative to no window.
- `engine`: the same times with a network that costs almost nothing and explores little.
- `matches`: games from openings. Where the win takes long, each search plays the package's network
  without a search, on the lost and on the won side; where the opening is drawn, it plays itself.
  `points` are its share, `errors` the own moves per game that lose value (of both sides against
  itself), `weak errors` those of the opponent, `contested` the share of contested own positions.

Each of five seeds has its own positions, openings and keys. In parentheses is the difference to
AlphaZero with as many simulations, paired by seed, with its 95 % interval (Student's t); `saved`
and `time` have such intervals too. The same command continues after a stop.
"""

import functools
import pathlib
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import bitbully
import jax
import numpy as np
import pyspiel

import games
from benchmarks.common import make_params, make_parser, show, write_rows
from benchmarks.connect_four import (
    BOT_SIMULATIONS,
    Positions,
    bot_game,
    label,
    labelled,
    make_bot,
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
from dualmctx.search.tree import root_passes
from dualmctx.types import Params, Policy, PolicyValueNetwork

GAME, LEVEL, WEAK, BASE = "connect_four", 0.95, "weak", "alphazero"
# Hard positions: games that are read at once, plies before a position, positions per call.
GAMES, PLIES, ROWS = 32, 4, 256
TIMED = ("steps", "updates", "seconds")
METRICS = ("kept", "kept_by_passes", "points", "decided", "errors", "weak_errors", "contested")
Row = dict[str, Any]
Subject = tuple[PolicyValueNetwork, Params]


class Sizes(NamedTuple):
    """The sizes: numbers are per seed, windows in edges, `limits` are values of N_scl."""

    seeds: tuple[int, ...] = (21, 22, 23, 24, 25)
    positions: int = 40
    openings: int = 8
    drawn: int = 4
    simulations: int = 64
    limits: tuple[int, ...] = (1, 5, 28)
    budgets: tuple[int, ...] = (85, 800)
    windows: tuple[int, ...] = (1, 2, 4, 8)
    batch_size: int = 40


QUICK = Sizes((21, 22), 2, 2, 1, 4, (1,), (6,), (1,), 2)


def hard_positions(
    solver: bitbully.BitBully, subject: Subject, number: int, seed: int
) -> Positions:
    """Makes positions in which the network's own move loses value, at most one per game.

    The games are those of OpenSpiel's bot against itself, after 0 to 6 random plies.
    """
    env, game = games.make(GAME), pyspiel.load_game(GAME)
    rng, bot = random.Random(seed), make_bot(BOT_SIMULATIONS, seed)
    player, found = policy_player("network", *subject), dict[tuple[int, ...], None]()
    while len(found) < number:
        played = [x for _ in range(GAMES) if (x := bot_game(rng, bot, game)) is not None]
        owners = [i for i, moves in enumerate(played) for _ in range(PLIES, len(moves))]
        data = label(solver, [x[:ply] for x in played for ply in range(PLIES, len(x))])
        moves = choose_moves(player, games.replay(env, data.histories), ROWS)
        loses = ~data.keeping[np.arange(len(moves)), moves]
        for i, history in enumerate(played):
            rows = np.flatnonzero(loses & (np.array(owners) == i))
            if len(rows):
                ply = int(np.sum(data.histories[rng.choice(rows)] >= 0))
                found[tuple(history[:ply])] = None
    return label(solver, [[*moves] for moves in found][:number])


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


def measure(
    searches: Mapping[str, AlphaZero], subject: Subject, data: Positions, seeds: int
) -> dict[str, Row]:
    """Runs the searches from the positions of each seed, in turns.

    Returns:
      By name, the `moves` by visits and by `passes`, `[S]`; and by seed, edges per simulation and
      processor `seconds` per move.
    """
    env, runs = games.make(GAME), dict[str, Callable[..., Any]]()
    rows: dict[str, Row] = {x: {y: [] for y in ("moves", "passes", *TIMED)} for x in searches}
    # All seeds have equally many positions, so a search is compiled once.
    for seed, histories in enumerate(np.split(data.histories, seeds)):
        keys = jax.random.split(jax.random.PRNGKey(seed), len(histories))
        inputs = subject[1], keys, games.replay(env, histories)
        runs = runs or {x: compile_search(y, subject, inputs) for x, y in searches.items()}
        for name, policy in searches.items():
            start = time.process_time()
            moves, passes, *edges = jax.device_get(runs[name](*inputs))
            seconds = (time.process_time() - start) / len(moves)
            counts = [float(x.mean()) / policy.num_simulations for x in edges]
            rows[name]["moves"] += moves.tolist()
            rows[name]["passes"] += passes.tolist()
            for key, value in zip(TIMED, (*counts, seconds), strict=True):
                rows[name][key].append(round(value, 6))
    return rows


def compile_search(policy: AlphaZero, subject: Subject, inputs: Any) -> Callable[..., Any]:
    """Compiles a search for inputs of one shape; it returns two moves and `count_edges`."""
    search = make_search_fn(games.make(GAME), subject[0], policy)

    def run(params: Params, rng_keys: Any, states: Any) -> Any:
        output = search(params, rng_keys, states)
        passes = root_passes(output.search_tree).argmax(axis=-1)
        return output.action, passes, *count_edges(output.search_tree)

    return jax.jit(run).lower(*inputs).compile()


def measure_positions(
    folder: pathlib.Path, subject: Subject, data: Positions, sizes: Sizes
) -> list[Row]:
    """Measures the parts that the folder does not have yet; returns the rows of all parts."""
    env, file, seeds = games.make(GAME), folder / "rows.jsonl", len(sizes.seeds)
    journal, rows = reopen_journal(file), read_rows(file)
    states = games.replay(env, data.histories)

    def contempt() -> Any:
        players = make_players(env, subject, sizes)
        return {x.name: {"moves": choose_moves(x, states, sizes.batch_size)} for x in players}

    jobs: dict[tuple[str, int], Callable[[], Any]] = {("contempt", sizes.simulations): contempt}
    for part, budgets in (("window", sizes.budgets), ("engine", sizes.budgets[-1:])):
        network = cheap(env) if part == "engine" else subject
        for number in budgets:
            searches = window_searches(part, number, sizes.windows)
            jobs[part, number] = functools.partial(measure, searches, network, data, seeds)
    for (part, case), run_searches in jobs.items():
        if (part, case) not in [(row["part"], row["case"]) for row in rows]:
            for name, found in run_searches().items():
                kept = kept_of(data, np.array(found.pop("moves")), seeds)
                if "passes" in found:
                    passes = kept_of(data, np.array(found.pop("passes")), seeds)
                    kept["kept_by_passes"] = passes["kept"]
                rows.append({"part": part, "case": case, "search": name, **kept, **found})
                print(rows[-1], file=sys.stderr, flush=True)
            # All searches of a part at once: they are timed in turns.
            journal.append([row for row in rows if (row["part"], row["case"]) == (part, case)])
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
        place = folder / ("drawn" if drawn else "decided")
        entrants = [*players, weak]
        play(Tournament(env, entrants, openings, pairings, batch_size=sizes.batch_size), place)
        found: dict[tuple[str, str], dict[int, list[tuple[float, ...]]]] = {}
        for game in read_games(place / "games.jsonl"):
            case, name, numbers = describe(solver, game)
            seeds = found.setdefault((case, name), {})
            seeds.setdefault(game.pair // each, []).append(numbers)
        for (case, name), seeds in sorted(found.items(), key=lambda x: (x[0][0], x[0][1] != BASE)):
            means = np.array([np.mean(seeds[i], axis=0) for i in sorted(seeds)]).round(4)
            metrics = dict(zip(METRICS[2:], means.T.tolist(), strict=True))
            count = sum(map(len, seeds.values()))
            rows.append({"part": "matches", "case": case, "search": name, "games": count} | metrics)
    return rows


def interval(values: np.ndarray) -> str:
    """Formats the half width of the 95 % interval of a mean over seeds."""
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return f"± {half_widths(np.array(error), np.array(len(values)), LEVEL):.3f}"


def difference(values: list[float], base: list[float]) -> str:
    """Formats the mean difference over seeds with its 95 % interval."""
    change = np.array(values) - np.array(base)
    return f"({change.mean():+.3f} {interval(change)})"


def show_rows(rows: list[Row]) -> None:
    """Prints a table for each part and, for matches, for each kind of start."""
    for part, case in dict.fromkeys((row["part"], row["case"]) for row in rows):
        table, base = [], None
        for row in (x for x in rows if (x["part"], x["case"]) == (part, case)):
            base = base or row
            cells = {x: f"{np.mean(row[x]):.3f}" for x in METRICS if x in row}
            if row is not base:
                cells = {x: f"{y} {difference(row[x], base[x])}" for x, y in cells.items()}
            cells |= {x: row[x] for x in ("games", "early", "late") if x in row}
            if "steps" in row:
                steps, updates, seconds = (np.array(row[x]) for x in TIMED)
                shares = {"saved": 1 - updates / steps, "time": seconds / base["seconds"]}
                cells["steps"] = f"{steps.mean():.2f}"
                cells |= {x: f"{y.mean():.3f} {interval(y)}" for x, y in shares.items()}
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
            make = functools.partial(hard_positions, make_solver(), subject, sizes.positions)
            files = ((x, folder / f"hard-{x}.csv") for x in sizes.seeds)
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
