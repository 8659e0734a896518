"""Large budgets on one Connect Four root: `python -m benchmarks.single_root [--json FILE]`.

Time and memory of one search of the starting position, by the number of leaves a step, with an
evaluation that costs next to nothing (a hash of the board) and with a real network (4 blocks of 64
features), beside mctx with the same evaluation and the same PUCT rule. mctx's time grows with the
square of the budget, so it is measured on smaller ones and a n + b n² is fitted to them, which is
too kind to it where its arrays outgrow the caches (163 s by the fit, 240 s in a full run); the
network is measured on smaller budgets too, where a budget's time is proportional. Both are marked
with ~. Memory is what XLA allots to the compiled search, at the full budget, computed, not run.

Then the share of positions in which the search's move keeps the game's value, by the leaves a step:
positions from games, in which a single move wins, or a single one holds the draw. The evaluation
says nothing there (uniform priors, value 0), so that only the ends of games that the tree reaches
count. The labels are a perfect player's (bitbully 0.0.79).
"""

import argparse
import functools
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import mctx
import numpy as np
from rich.console import Console
from rich.table import Table

import dualmctx
import games
from benchmarks.common import search_by_puct
from dualmctx.model import make_model
from dualmctx.network import HeadOutput

LEAVES = (1, 16, 64, 256)
AGREEMENT_LEAVES = (1, 4, 16, 64, 256)
C_PUCT = 1.25
# Moves by column from 1, and the one move that keeps the value; a win and a draw in turns.
POSITIONS = """
325442223:4 33214543:3 3325541143633564665:2 731156553:3 631163545:5 317335575774554:4
4113431334516:7 74314131:1 32267336622131774114:3 3555751552374173:4 5711144725:4 373246722:3
1256665556336532313:3 441423155711527545:4 417527577675124441:2 21655672612344:3
26223447553511:3 51172534:4 6436444626622233433:2 511246567665777665:1 4744355232243334477:2
715146323321:1 74575217:5 6114463433411:4 4561441552:5 757557243344433757:7 641533161:1
72131542443552221:1 513432336455522:4 34613336:4 67154463466351144:6 517634466:4 35655655:3
511347735513325144:4 765664654545:5 25637353344:4 5315725445:4 7771454453356:6 52234735:3
46734644661361533:4
"""


class Hash:
    """Logits and values that are hashes of the board, uniform in [-scale, scale)."""

    head_depths = (1,)

    def __init__(self, num_actions, scale):
        self.num_actions, self.scale = num_actions, scale

    def apply(self, params, observation, head, method):
        del params, head, method
        cells = observation.reshape(observation.shape[0], -1).astype(jnp.uint32)
        code = cells @ _mix(jnp.arange(1, cells.shape[-1] + 1, dtype=jnp.uint32))
        said = _mix(code[:, None] ^ _mix(jnp.arange(7, 8 + self.num_actions, dtype=jnp.uint32)))
        said = self.scale * ((said >> 8).astype(jnp.float32) * 2.0**-23 - 1)
        return None, HeadOutput(said[:, :-1], said[:, -1])


def _mix(bits):
    for factor in (0x7FEB352D, 0x846CA68B):
        bits = (bits ^ (bits >> 16)) * jnp.uint32(factor)
    return bits ^ (bits >> 16)


def evaluations(env, *, quick):
    """Makes what evaluates positions, by name, and its parameters."""
    observation = jnp.zeros((1, *env.observation_shape))
    size = {"width": 4, "num_blocks": 1} if quick else {"width": 64, "num_blocks": 4}
    network = dualmctx.make_network(env.num_actions, env.observation_shape, **size)
    params = jax.jit(network.init)(jax.random.key(0), observation)
    return {"hash": (Hash(env.num_actions, 1.0), None), "network": (network, params)}


def make_search(env, network, num_simulations, num_leaves):
    """Makes a function of parameters and states that returns actions and the root's visits."""
    puct = dualmctx.Puct(
        c_puct=C_PUCT, dirichlet_fraction=0.0, temperature=0.0, leaves_per_step=num_leaves
    )
    policy = dualmctx.AlphaZero(num_simulations, puct)
    search = dualmctx.make_search_fn(env, network, policy)

    def run(params, states):
        output = search(params, jax.random.key(0), states)
        return output.action, output.search_tree.summary().visit_counts

    return run


def make_mctx_search(env, network, num_simulations):
    """Makes the same of mctx's search, with our rule."""
    model = make_model(env, network)

    def run(params, states):
        root, key = model.root_fn(params, states), jax.random.key(0)
        tree = search_by_puct(params, key, root, model.recurrent_fn, num_simulations, C_PUCT)
        visits = tree.summary().visit_counts
        return jnp.argmax(visits, axis=-1), visits

    return run


def compiled(run, params, states):
    """Returns the compiled function and the bytes that it allots."""
    program = jax.jit(run).lower(params, states).compile()
    memory = program.memory_analysis()
    return program, memory.temp_size_in_bytes + memory.output_size_in_bytes


def seconds(program, *arguments):
    """Times a run of a compiled program; the second one, where it takes less than a second."""
    for _ in range(2):
        start = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        taken = time.perf_counter() - start
        if taken > 1:
            break
    return taken


def time_row(evaluation, engine, make, arguments, *, measured, target, power):
    """Measures budgets and extends them to `target`, by a proportion or by a n + b n²."""
    times = []
    for budget in measured:
        program, memory = compiled(make(budget), *arguments)
        times.append(seconds(program, *arguments))
    if measured[-1] != target:
        _, memory = compiled(make(target), *arguments)
    if len(measured) > 1:
        terms = np.array([[float(n) ** p for p in range(1, power + 1)] for n in measured])
        # Relative errors, as the times are far apart; times grow, so no term is negative.
        weights = np.linalg.lstsq(terms / np.array(times)[:, None], np.ones(len(times)))[0]
        total = float(np.maximum(weights, 0) @ [float(target) ** p for p in range(1, power + 1)])
    else:
        total = times[-1] * target / measured[-1]
    return {
        "evaluation": evaluation,
        "engine": engine,
        "simulations": target,
        "measured": list(measured),
        "measured_s": [round(x, 3) for x in times],
        "seconds": round(times[-1] if measured[-1] == target else total, 2),
        "extrapolated": measured[-1] != target,
        "mib": round(memory / 2**20, 2),
    }


def time_rows(env, options):
    """Yields the rows of time and memory."""
    state = jax.tree.map(lambda x: x[None], env.init(jax.random.key(0)))
    target = options.simulations
    parts = [target // 50, target // 20, target // 10]
    if options.quick:
        parts = [target]
    for name, (network, params) in evaluations(env, quick=options.quick).items():
        arguments = (params, state)
        for leaves in LEAVES[:: 3 if options.quick else 1]:
            # All budgets that take half a minute or less.
            is_short = name == "hash" or leaves == LEAVES[-1]
            make = functools.partial(make_search, env, network, num_leaves=leaves)
            measured = [target] if is_short else parts[-1:]
            label = f"dualmctx, {leaves} a step"
            yield time_row(name, label, make, arguments, measured=measured, target=target, power=1)
        make = functools.partial(make_mctx_search, env, network)
        yield time_row(name, "mctx", make, arguments, measured=parts, target=target, power=2)


def play(env, positions):
    """Returns the states after the moves, and the moves that keep the value."""
    step = jax.jit(env.step)
    states, kept = [], []
    for position in positions:
        moves, keeping = position.split(":")
        state = env.init(jax.random.key(0))
        for column in moves:
            state = step(state, jnp.int32(int(column) - 1))
        states.append(state)
        kept.append(int(keeping) - 1)
    return jax.tree.map(lambda *x: jnp.stack(x), *states), np.array(kept)


def agreement_rows(env, options):
    """Yields the rows of agreement with the perfect player."""
    states, kept = play(env, POSITIONS.split()[:: 10 if options.quick else 1])
    budgets = (40,) if options.quick else (2_000, 10_000)
    for budget in budgets:
        for leaves in AGREEMENT_LEAVES[:: 4 if options.quick else 1]:
            run = make_search(env, Hash(env.num_actions, 0.0), budget, leaves)
            action, visits = jax.jit(run)(None, states)
            assert (visits.sum(axis=-1) == budget).all()
            yield {
                "leaves_per_step": leaves,
                "simulations": budget,
                "positions": len(kept),
                "keeps_value": int(np.sum(np.asarray(action) == kept)),
            }


def main(arguments=None):
    """Runs the benchmark and prints its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the rows here")
    parser.add_argument("--simulations", type=int, default=100_000, help="of the one search")
    parser.add_argument("--quick", action="store_true", help="a tiny size, to see that it runs")
    options = parser.parse_args(arguments)
    if options.quick:
        options.simulations = 60
    env = games.make("connect_four")
    console = Console()
    rows = {"times": [], "agreement": []}
    title = f"mctx {mctx.__version__}, JAX {jax.__version__}"
    times = Table("evaluation", "search", "simulations", "seconds", "MiB", title=title)
    for row in time_rows(env, options):
        rows["times"].append(row)
        about = "~" if row["extrapolated"] else ""
        times.add_row(
            row["evaluation"],
            row["engine"],
            f"{row['simulations']:,}",
            f"{about}{row['seconds']:,}",
            str(row["mib"]),
        )
        console.print(row, highlight=False)
    console.print(times)
    table = Table("leaves a step", "simulations", "moves that keep the value")
    for row in agreement_rows(env, options):
        rows["agreement"].append(row)
        share = f"{row['keeps_value']} of {row['positions']}"
        table.add_row(str(row["leaves_per_step"]), f"{row['simulations']:,}", share)
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
