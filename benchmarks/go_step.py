"""Times a step of Go against pgx's: `python -m benchmarks.go_step [--json FILE]`.

Both environments play the same recorded moves of random games from positions of all stages, in one
process and in turns. The moves are played in one compiled scan, so that the time is the device's
and not that of the calls. Times are median microseconds per step for the whole batch, without
compilation; compile times are those of one step. `same_states` is whether all arrays of the last
states were equal.

`kernels` counts the instructions of the compiled step on this device that do work; a loop counts
once. `iterations` is the mean number of iterations that pgx's scoring loop takes per step; on a
GPU, the host waits for the device in each of them. The last table counts operations of both steps
lowered for CUDA, which needs no GPU.
"""

import collections
import importlib.metadata
import re
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.common import make_parser, show, time_in_turns, write_json
from benchmarks.hlo_counts import FREE, parse

SIZES = ((9, 1), (9, 64), (9, 512), (9, 4096), (19, 64))
COUNTED = ("while", "scatter", "sort", "gather", "reduce")
# Columns of the first table; the rest are in the second one.
TIMES = ("board", "batch", "pgx_us", "ours_us", "ratio", "same_states")


class Row(NamedTuple):
    """The times of both steps at one board and batch size."""

    board: int
    batch: int
    pgx_us: float
    ours_us: float
    ratio: float
    same_states: bool
    pgx_kernels: int
    ours_kernels: int
    pgx_iterations: float
    pgx_compile_s: float
    ours_compile_s: float


def make_envs(size: int) -> dict[str, Any]:
    """Makes pgx's environment and ours."""
    # pgx creates arrays on import, which needs JAX's devices.
    import pgx.go

    from games.go import Go

    return {"pgx": pgx.go.Go(size=size), "ours": Go(size=size)}


def record_games(env: Any, batch_size: int, num_moves: int) -> tuple[Any, Any]:
    """Plays random games; returns states `[B]` of all stages, and actions `[M, B]` from there."""
    num_points = env.num_actions - 1
    start, end, choose = (jax.random.key(seed) for seed in range(3))
    states = jax.vmap(env.init)(jax.random.split(start, batch_size))
    length = jax.random.randint(end, (batch_size,), 0, num_points)

    def play(states: Any, turn: Any) -> tuple[Any, Any]:
        logits = jnp.where(states.legal_action_mask, 0.0, -jnp.inf).at[:, -1].add(-2.0)
        action = jax.random.categorical(jax.random.fold_in(choose, turn), logits)
        action = action.astype(jnp.int32)
        return jax.vmap(env.step)(states, action), action

    def play_until_end(states: Any, turn: Any) -> tuple[Any, None]:
        after, _ = play(states, turn)
        return jax.vmap(select)(turn < length, after, states), None

    def select(condition: Any, a: Any, b: Any) -> Any:
        return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)

    states, _ = lax.scan(play_until_end, states, jnp.arange(num_points))
    return states, lax.scan(play, states, num_points + jnp.arange(num_moves))[1]


def make_replay(env: Any) -> Any:
    """Returns a compiled function that plays actions `[M, B]` and returns the last states."""

    def replay(states: Any, actions: Any) -> Any:
        return lax.scan(lambda s, a: (jax.vmap(env.step)(s, a), None), states, actions)[0]

    return jax.jit(replay)


def compile_step(env: Any, states: Any, actions: Any) -> tuple[float, int]:
    """Compiles one step anew; returns the seconds, and the instructions that do work."""
    start = time.perf_counter()
    step = jax.jit(jax.vmap(lambda state, action: env.step(state, action)))
    text = step.lower(states, actions[0]).compile().as_text() or ""
    seconds = time.perf_counter() - start
    return seconds, sum(x.opcode not in FREE for x in parse(text)["ENTRY"])


def count_iterations(env: Any, states: Any, actions: Any, size: int) -> float:
    """Returns the mean number of iterations of pgx's scoring loop over M moves of a batch.

    The loop extends the reach of both colours by one point per iteration, for all games of the
    batch at once, and takes one more iteration to find that nothing changes.
    """

    def extend(reached: Any, empty: Any) -> Any:
        padded = jnp.pad(reached, [(0, 0)] * (reached.ndim - 2) + [(1, 1), (1, 1)])
        sides = padded[..., 2:, 1:-1] | padded[..., :-2, 1:-1]
        sides |= padded[..., 1:-1, 2:] | padded[..., 1:-1, :-2]
        return reached | (sides & empty)

    def count(states: Any, action: Any) -> tuple[Any, Any]:
        states = jax.vmap(env.step)(states, action)
        board = states._x.board.reshape(-1, 1, size, size)
        stones = jnp.concatenate([board > 0, board < 0], axis=1)

        def body(carry: tuple) -> tuple:
            reached, _, number = carry
            return extend(reached, board == 0), reached, number + 1

        first = extend(stones, board == 0), stones, 1
        return states, lax.while_loop(lambda c: jnp.any(c[0] != c[1]), body, first)[2]

    return float(jnp.mean(jax.jit(lambda s, a: lax.scan(count, s, a)[1])(states, actions)))


def measure(size: int, batch_size: int, num_moves: int, repeats: int) -> Row:
    """Times both steps in turns."""
    envs = make_envs(size)
    states, actions = jax.jit(record_games, static_argnums=(0, 1, 2))(
        envs["ours"], batch_size, num_moves
    )
    compiled = {name: compile_step(env, states, actions) for name, env in envs.items()}
    replays = {name: make_replay(env) for name, env in envs.items()}
    runs = {name: lambda f=f: f(states, actions) for name, f in replays.items()}
    seconds = time_in_turns(runs, repeats)
    last = [jax.device_get(run()) for run in runs.values()]
    theirs, ours = (1e6 * seconds[name] / num_moves for name in envs)
    return Row(
        size,
        batch_size,
        round(theirs, 1),
        round(ours, 1),
        round(theirs / ours, 2),
        all(map(np.array_equal, *map(jax.tree.leaves, last))),
        compiled["pgx"][1],
        compiled["ours"][1],
        round(count_iterations(envs["ours"], states, actions, size), 1),
        round(compiled["pgx"][0], 2),
        round(compiled["ours"][0], 2),
    )


def count_for_cuda(env: Any) -> dict[str, int]:
    """Returns the number of some operations in a batched step lowered for CUDA."""
    keys = jax.ShapeDtypeStruct((2,), jax.random.key(0).dtype)
    states = jax.eval_shape(jax.vmap(env.init), keys)
    step = jax.jit(jax.vmap(env.step)).trace(states, jax.ShapeDtypeStruct((2,), jnp.int32))
    text = step.lower(lowering_platforms=("cuda",)).as_text()
    counts = collections.Counter(re.findall(r'= "?stablehlo\.(\w+)', text))
    return {name: counts[name] for name in COUNTED} | {"all": sum(counts.values())}


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each step")
    parser.add_argument("--moves", type=int, default=8, help="moves of a timed run")
    options = parser.parse_args(arguments)
    sizes = ((9, 4),) if options.quick else SIZES
    moves, repeats = (2, 1) if options.quick else (options.moves, options.repeats)
    device = jax.devices()[0].device_kind
    rows = [measure(*size, moves, repeats)._asdict() for size in sizes]
    show(
        f"{device}, JAX {jax.__version__}, pgx {importlib.metadata.version('pgx')}",
        [{k: row[k] for k in TIMES} for row in rows],
    )
    show(
        "compiled programs",
        [{k: v for k, v in row.items() if k not in TIMES[2:]} for row in rows],
    )
    lowered = [
        {"board": size, "step": name} | count_for_cuda(env)
        for size in sorted({size for size, _ in sizes})
        for name, env in make_envs(size).items()
    ]
    show("operations of a step lowered for CUDA", lowered)
    write_json(options.json, {"device": device, "rows": rows, "lowered": lowered})


if __name__ == "__main__":
    main()
