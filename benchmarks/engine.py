"""Times the search engine against mctx: `python -m benchmarks.engine [--json FILE]`.

Both run the same search in one process and in turns. Compile times are median seconds of tracing
and compiling anew, in turns; on a GPU each program is compiled once. `same_visits` is whether the
root's visit counts were equal; a line after the table counts these rows. On a GPU, one case has
4,096 trees. The rest is in benchmarks/README.md.
"""

import functools
import statistics
from typing import NamedTuple, get_args

import jax
import jax.numpy as jnp
import mctx

import dualmctx
from benchmarks.common import (
    for_device,
    make_parser,
    run_in_turns,
    search_by_puct,
    show,
    show_environment,
    time_in_turns,
)
from benchmarks.ledger import write_measurement
from dualmctx.types import Kernels

# Trees, simulations and actions.
CPU_SIZES = ((512, 512, 7), (512, 128, 7), (64, 128, 7), (64, 200, 362), (16, 32, 4672))
GPU_SIZES = ((512, 512, 7), (64, 128, 7), (64, 200, 362), (16, 32, 4672), (4096, 128, 7))
RULES = ("gumbel", "muzero", "puct")
# Simulations of a search of one root, and leaves per step.
ONE_ROOT, LEAVES = 10_000, (1, 16, 64)


class Row(NamedTuple):
    """A row of the table: times of mctx's search and ours."""

    B: int
    N: int
    A: int
    rule: str
    mctx_us: float
    ours_us: float
    ratio: float
    same_visits: bool
    mctx_compile_s: float
    ours_compile_s: float


def hash_model(num_actions):
    """Makes a two-player model whose state is a hash of its path, without terminal states.

    Logits and values are hashes too, uniform in [-1, 1). They take a few integer operations each,
    so the model costs almost nothing.
    """

    def to_float(bits):
        return (bits >> 8).astype(jnp.float32) * 2.0**-23 - 1.0

    def evaluate(state):
        salted = state[:, None] ^ (
            jnp.arange(num_actions, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9)
        )
        return to_float(_mix(salted)), to_float(_mix(state + 1))

    def root(batch_size):
        state = jnp.arange(batch_size, dtype=jnp.uint32) * jnp.uint32(40_503) + 7
        logits, value = evaluate(state)
        return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)

    def recurrent_fn(params, rng_key, action, state):
        del params, rng_key
        state = _mix(state * 31 + action.astype(jnp.uint32))
        logits, value = evaluate(state)
        output = mctx.RecurrentFnOutput(
            reward=jnp.zeros_like(value),
            discount=-jnp.ones_like(value),
            prior_logits=logits,
            value=value,
        )
        return output, state

    return root, recurrent_fn


def _mix(bits):
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x7FEB352D)
    return bits ^ (bits >> 15)


def make_searches(rule, batch_size, num_simulations, num_actions, **options):
    """Makes mctx's search and ours with options, each `key -> root visits`."""
    root_fn, recurrent_fn = hash_model(num_actions)

    def theirs(rng_key):
        root = root_fn(batch_size)
        if rule == "puct":
            tree = search_by_puct(None, rng_key, root, recurrent_fn, num_simulations, c_puct=1.25)
        else:
            policy = {"gumbel": mctx.gumbel_muzero_policy, "muzero": mctx.muzero_policy}[rule]
            tree = policy(None, rng_key, root, recurrent_fn, num_simulations).search_tree
        return tree.summary().visit_counts

    def ours(rng_key):
        policy = {
            "gumbel": dualmctx.Gumbel(num_simulations=num_simulations),
            "muzero": dualmctx.MuZero(num_simulations=num_simulations),
            "puct": dualmctx.AlphaZero(
                num_simulations=num_simulations, root=dualmctx.Root(dirichlet_fraction=0.0)
            ),
        }[rule]
        policy = dualmctx.with_options(policy, **options)
        output = policy(None, rng_key, root_fn(batch_size), recurrent_fn, None)
        return output.search_tree.summary().visit_counts

    return jax.jit(theirs), jax.jit(ours)


def measure(rule, size, repeats, compilations=1, kernels="auto"):
    """Times both searches in turns, and as many compilations of each."""
    batch_size, num_simulations, num_actions = size
    key = jax.random.PRNGKey(0)

    # Each run compiles anew.
    def compile_search(i):
        return make_searches(rule, *size, kernels=kernels)[i].lower(key).compile()

    compiling = {i: functools.partial(compile_search, i) for i in (0, 1)}
    compiled = run_in_turns(compiling, compilations).values()
    compile_seconds = [statistics.median(seconds for seconds, _ in times) for times in compiled]
    searches = {i: functools.partial(times[-1][1], key) for i, times in enumerate(compiled)}
    seconds = time_in_turns(searches, repeats)
    theirs, ours = (1e6 * seconds[i] / num_simulations for i in (0, 1))
    same = bool(jnp.all(searches[0]() == searches[1]()))
    return Row(
        batch_size,
        num_simulations,
        num_actions,
        rule,
        round(theirs, 1),
        round(ours, 1),
        round(theirs / ours, 2),
        same,
        *(round(seconds, 2) for seconds in compile_seconds),
    )


def measure_one_root(num_simulations, repeats, kernels):
    """Times searches of one root in turns: mctx's, and ours by leaves per step."""
    key, size = jax.random.PRNGKey(0), (1, num_simulations, 7)
    searches = {"mctx": make_searches("puct", *size, kernels=kernels)[0]}
    for leaves in LEAVES:
        name = f"dualmctx, leaves per step {leaves}"
        options = {"kernels": kernels, "leaves_per_step": leaves}
        searches[name] = make_searches("puct", *size, **options)[1]
    runs = {name: functools.partial(search, key) for name, search in searches.items()}
    return [
        {"search": name, "simulations": num_simulations, "us": round(1e6 * x / num_simulations, 1)}
        for name, x in time_in_turns(runs, repeats).items()
    ]


def main(arguments=None):
    """Runs the benchmark and prints its tables."""
    parser = make_parser(__doc__, repeats=5)
    parser.add_argument(
        "--kernels",
        choices=get_args(Kernels),
        default="auto",
        help="whether our search runs in GPU kernels: off times XLA's loops on a GPU",
    )
    options = parser.parse_args(arguments)
    show_environment()
    rows = []
    # The first compilation in a process also initialises the compiler, so it is not timed.
    if not options.quick:
        measure(RULES[0], (2, 4, 3), repeats=1)
    for size in ((4, 16, 5),) if options.quick else for_device(CPU_SIZES, GPU_SIZES):
        for rule in RULES:
            number = for_device(options.repeats, 1)
            row = measure(rule, size, options.repeats, number, options.kernels)
            rows.append(row)
            print(f"{size} {rule}: {row.ratio}x", flush=True)
    show("microseconds per simulation, seconds to compile", rows)
    number = sum(row.same_visits for row in rows)
    print(f"The visits equal mctx's in {number} of {len(rows)} rows.")
    number = 16 if options.quick else ONE_ROOT
    one_root = measure_one_root(number, options.repeats, options.kernels)
    show("microseconds per simulation of one root", one_root)
    write_measurement(options.json, rows, one_root=one_root)


if __name__ == "__main__":
    main()
