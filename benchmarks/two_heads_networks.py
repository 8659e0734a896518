"""Where real networks are on the map of two heads: `python -m benchmarks.two_heads_networks`.

For each network and each of its earlier heads, the searches of `benchmarks.two_heads` are predicted
and measured from the same positions at the same cost. The cost of the early head is its share of
the residual blocks. Networks that learn from a perfect player are made of convolutions or of dense
layers, and are measured after several numbers of optimiser steps. Positions and networks are kept
in the folder `--out`. The same command continues after a stop. The rest is in benchmarks/README.md.
"""

import functools
import itertools
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import mctx
from jax import Array
from scipy.stats import spearmanr

import games
from benchmarks.common import Row, ending, keeping_rows, make_parser, show
from benchmarks.connect_four import Positions
from benchmarks.ledger import write_measurement
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
from benchmarks.two_heads_report import SHOWN
from benchmarks.two_heads_subjects import GAMES, QUICK, Sizes, Subject, make_data, subjects
from dualmctx import load_trained
from dualmctx.models.game_model import make_model
from dualmctx.reports.numbers import NONE
from dualmctx.runs.folder import keep_settings
from dualmctx.runs.progress import showing
from dualmctx.search.refine import mix_priors
from dualmctx.types import Environment, Params, PolicyValueNetwork, RecurrentFn

KIND = "mass"


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


def run(folder: pathlib.Path, game: str, sizes: Sizes) -> list[Row]:
    """Measures the pairs of heads that the folder does not have yet; returns all rows."""
    packaged = load_trained(game)
    with keeping_rows(folder / "rows.jsonl") as (rows, append), showing() as show_progress:
        keep_settings(folder, json.loads(json.dumps({"game": game, **sizes._asdict()})), {})
        data = make_data(folder, packaged.env, sizes)
        known = [(row["network"], row["depths"][0], row["budget"]) for row in rows]
        for subject in subjects(folder, packaged, data.learned, sizes):
            depths = subject.network.head_depths
            cells = list(itertools.product(range(len(depths) - 1), sizes.budgets))
            for done, (head, budget) in enumerate(cells, start=1):
                if (subject.name, depths[head], budget) not in known:
                    row = measure(subject, head, budget, data.tested, sizes.roots)
                    append({"game": game, "labels": "exact"} | row)
                show_progress(subject.name, done, len(cells))
    return rows


def show_rows(rows: list[Row]) -> None:
    """Prints the errors of the heads, and the predicted and the measured differences."""
    least = min((row["budget"] for row in rows), default=0)
    show("Errors of the heads", [_errors(row) for row in rows if row["budget"] == least])
    table = []
    for row in rows:
        line = {"network": row["network"], "heads": "{} of {}".format(*row["depths"])}
        line["cost"] = str(row["budget"])
        for name in (*SHOWN, "final"):
            # A cheap search has no simulations for some of the splits.
            line[name] = NONE
            if name in row["measured"]:
                guess, found = (row[x][name][f"{KIND} - early"] for x in ("predicted", "measured"))
                line[name] = f"{found[0]:+.1f} ± {found[1]:.1f} ({guess[0]:+.1f})"
        line["ranks"] = f"{rank_correlation(row):+.2f}"
        table.append(line)
    show(f"Points of {KIND} above the early head: measured (predicted)", table)


def _errors(row: Row) -> Row:
    errors, early, final = row["errors"], row["errors"]["early"], row["errors"]["final"]
    found = {"network": row["network"], "heads": "{} of {}".format(*row["depths"])}
    for name in early:
        found[name.replace("_", " ")] = f"{early[name]:.2f} {final[name]:.2f}"
    found["mass of the model"] = "{:.2f} {:.2f}".format(*row["model_masses"])
    kinds = ("value_correlation", "prior_correlation")
    return found | {"c: value, prior": " ".join(f"{errors[name]:.2f}" for name in kinds)}


def rank_correlation(row: Row) -> float:
    """Returns Spearman's correlation of the predicted and the measured shares of the searches."""
    names = [name for name in row["measured"] if name in row["predicted"]]
    values = [[row[x][name][KIND] for name in names] for x in ("predicted", "measured")]
    return float(spearmanr(*values).statistic)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser = make_parser(__doc__)
    add, folder = parser.add_argument, pathlib.Path("runs/two_heads_networks")
    add("--game", choices=GAMES, default="connect-four", help="default: connect-four")
    add("--out", type=pathlib.Path, help=f"default: {folder}/GAME")
    options = parser.parse_args(arguments)
    out = options.out or folder / options.game
    with ending(parser):
        rows = run(out, options.game, QUICK if options.quick else GAMES[options.game])
    show_rows(rows)
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
