"""Where real networks are on the map of two heads: `python -m benchmarks.two_heads_networks`.

For each network and each of its earlier heads, the benchmark measures the errors of both heads
against exact values, predicts the searches of `benchmarks.two_heads` by a synthetic game with the
same errors, and runs them in the real game from the same positions at the same cost. The cost of
the early head is its share of the residual blocks.

The networks are the package's for the game, and networks of 16 blocks with early heads, made of
convolutions or of dense layers, that learn the values and the moves of a perfect player. Each of
them is measured after several numbers of optimiser steps.

Connect Four and tic-tac-toe have exact labels. Hex on 7 x 7 and Othello have labels by a search of
100 times the budget, and only the package's network (`benchmarks.two_heads_positions`). `--labels
search` measures that network in a game with exact labels under both labels, which shows what such
labels change. Positions, labels and networks are kept in the folder `--out`. The same command
continues after a stop.
"""

import argparse
import functools
import itertools
import json
import pathlib
import sys
from typing import Any

import jax
import jax.numpy as jnp
import mctx
from jax import Array

import games
from benchmarks.common import make_parser, write_rows
from benchmarks.connect_four import Positions
from benchmarks.two_heads import (
    Cell,
    Evaluations,
    Mix,
    Search,
    read_moves,
    run_search,
    searches,
    summarise,
)
from benchmarks.two_heads_errors import measure_errors, model_masses, predict
from benchmarks.two_heads_game import EARLY, FINAL
from benchmarks.two_heads_positions import Data, agreement, make_data, search_labels
from benchmarks.two_heads_report import show_networks
from benchmarks.two_heads_subjects import (
    EXACT,
    GAMES,
    LABELS,
    Sizes,
    Subject,
    choose_sizes,
    subjects,
)
from dualmctx import UserError, load_trained
from dualmctx.models.game_model import make_model
from dualmctx.runs.folder import keep_settings
from dualmctx.runs.journal import read_rows, reopen_journal
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.runs.progress import ShowFn, showing
from dualmctx.runs.saved_network import Trained
from dualmctx.search.refine import mix_priors
from dualmctx.types import Environment, Params, PolicyValueNetwork, RecurrentFn


def evaluations(
    env: Any, network: PolicyValueNetwork, head: int, params: Params, state: Any
) -> Evaluations:
    """Returns the functions of a search by an early head and the final head of a network."""
    final = make_model(env, network)
    both = make_model(env, network, heads=(head, -1))

    def mixed(params: Params, logits: Array, value: Array, embedding: Any, mix: Mix) -> Any:
        later, later_value = both.refine_fn(params, None, embedding)
        prior = mix_priors(jax.nn.softmax(logits), jax.nn.softmax(later), mix[0])
        return jnp.log(prior), mix[1] * value + (1 - mix[1]) * later_value

    def root(mix: Mix) -> mctx.RootFnOutput:
        model = final if mix == FINAL else both
        found = model.root_fn(params, state)
        if mix in (EARLY, FINAL):
            return found
        logits, value = mixed(params, found.prior_logits, found.value, found.embedding, mix)
        return found.replace(prior_logits=logits, value=value)

    def step(mix: Mix) -> RecurrentFn:
        if mix in (EARLY, FINAL):
            return (final if mix == FINAL else both).recurrent_fn

        def run(params: Params, rng_key: Any, action: Array, embedding: Any) -> Any:
            found, embedding = both.recurrent_fn(params, rng_key, action, embedding)
            logits, value = mixed(params, found.prior_logits, found.value, embedding, mix)
            value = jnp.where(found.discount == 0, found.value, value)
            return found.replace(prior_logits=logits, value=value), embedding

        return run

    return Evaluations(root, step, both.refine_fn)


@functools.cache
def compile_search(env: Environment, network: PolicyValueNetwork, head: int, search: Search) -> Any:
    """Compiles a search as a function of parameters, states and the moves that keep the value.

    It returns the result of `read_moves`.
    """

    def run(params: Params, state: Any, keeps: Array) -> Array:
        functions = evaluations(env, network, head, params, state)
        key, invalid = jax.random.PRNGKey(0), ~state.legal_action_mask
        return read_moves(run_search(search, params, key, functions, invalid), keeps)

    return jax.jit(run)


def measure_searches(subject: Subject, head: int, cell: Cell, data: Positions) -> dict[str, Any]:
    """Runs the searches of a cell in the real game; returns their rows."""
    _, env, network, params = subject
    states, keeps = games.replay(env, data.histories), jnp.asarray(data.keeping)
    players = searches(cell)
    found = {
        name: compile_search(env, network, head, search)(params, states, keeps)
        for name, search in players.items()
    }
    return summarise(found, players)


def measure(
    subject: Subject, head: int, budget: int, tested: Positions, roots: int
) -> dict[str, Any]:
    """Measures the errors of an early head and of the final head, and the searches by both."""
    name, env, network, params = subject
    depths = network.head_depths
    errors = measure_errors(env, network, params, head, tested)
    cell = Cell("network", budget, depths[head] / depths[-1])
    contested = Positions(*(x[tested.is_contested] for x in tested))
    return {
        "network": name,
        "depths": [depths[head], depths[-1]],
        "budget": budget,
        "number": len(contested.histories),
        "errors": errors.as_dict(),
        "model_masses": model_masses(errors, roots),
        "predicted": predict(errors, cell, roots),
        "measured": measure_searches(subject, head, cell, contested),
    }


def make_labels(
    folder: pathlib.Path, packaged: Trained, labels: str, sizes: Sizes, show: ShowFn
) -> dict[str, Data]:
    """Makes or reads the positions, by the kind of their labels.

    With `labels` "search", a game with exact values has the same positions under both labels.
    """
    data = make_data(folder, packaged, sizes.learned, sizes.tested, sizes.plies)
    found = {"exact": data} if data.tested.legal.any() else {}
    if labels == "search":
        file, histories = folder / "labels.jsonl", data.tested.histories
        tested = search_labels(packaged, histories, sizes.label_cost, file, show)
        found["search"] = data._replace(tested=tested)
    return found


def run(folder: pathlib.Path, game: str, labels: str, sizes: Sizes) -> list[dict[str, Any]]:
    """Measures the pairs of heads that the folder does not have yet; returns all rows."""
    folder.mkdir(parents=True, exist_ok=True)
    file, packaged = folder / "rows.jsonl", load_trained(game)
    settings = {"game": game, "labels": labels, **sizes._asdict()}
    with locked(lock_beside(file), file), showing() as show:
        keep_settings(folder, json.loads(json.dumps(settings)), {})
        found = make_labels(folder, packaged, labels, sizes, show)
        more = {}
        if len(found) == len(LABELS):
            more = {"agreement": agreement(*(found[name].tested for name in LABELS))}
        journal, rows = reopen_journal(file), read_rows(file)
        known = [_place(row) for row in rows]
        for subject in subjects(folder, packaged, found[labels].learned, sizes):
            heads = range(len(subject.network.head_depths) - 1)
            cells = list(itertools.product(heads, sizes.budgets, found))
            for done, (head, budget, kind) in enumerate(cells, start=1):
                place = {"game": game, "labels": kind, **(more if kind == "search" else {})}
                depth = subject.network.head_depths[head]
                if (subject.name, depth, budget, kind) not in known:
                    row = measure(subject, head, budget, found[kind].tested, sizes.roots)
                    rows.append(place | row)
                    journal.append(rows[-1:])
                show(subject.name, done, len(cells))
    return rows


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["network"], row["depths"][0], row["budget"], row["labels"]


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add, folder = parser.add_argument, pathlib.Path("runs/two_heads_networks")
    add("--game", choices=GAMES, default="connect-four", help="default: connect-four")
    text = "values of moves; default: exact if the game has them"
    add("--labels", choices=LABELS, help=text)
    add("--out", type=pathlib.Path, help=f"default: {folder}/GAME-LABELS")
    options = parser.parse_args(arguments)
    is_exact = options.game in EXACT
    options.labels = options.labels or LABELS[not is_exact]
    if options.labels == "exact" and not is_exact:
        parser.error(f"--game {options.game} has no exact values; choose --labels search")
    options.out = options.out or folder / f"{options.game}-{options.labels}"
    return options


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    options = read_options(arguments)
    try:
        sizes = choose_sizes(options.game, options.labels, is_quick=options.quick)
        rows = run(options.out, options.game, options.labels, sizes)
    except (UserError, OSError) as error:
        sys.exit(f"two_heads_networks: {error}")
    except KeyboardInterrupt:
        sys.exit("two_heads_networks: stopped; the same command continues")
    for kind in LABELS:
        if some := [row for row in rows if row["labels"] == kind]:
            print(f"{options.game}, labels: {kind}")
            show_networks(some)
    write_rows(options.json, rows)


if __name__ == "__main__":
    main()
