"""Times a step of Go against pgx's: `python -m benchmarks.go_step [--json FILE]`.

Both environments play the same recorded moves of random games from positions of all stages, in one
process and in turns. The moves are played in one compiled scan, so that the time is the device's
and not that of the calls. Times are median microseconds per step for the whole batch, without
compilation; compile times are those of one step. `same_states` is whether all arrays of the last
states were equal.

`kernels` counts the instructions of the compiled step on this device that do work; a loop counts
once.
"""

import importlib.metadata
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.common import make_parser, show, time_in_turns
from benchmarks.hlo_counts import FREE, parse
from benchmarks.ledger import write_measurement

SIZES = ((9, 1), (9, 64), (9, 512), (9, 4096), (19, 64))


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
        round(compiled["pgx"][0], 2),
        round(compiled["ours"][0], 2),
    )


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each step")
    parser.add_argument("--moves", type=int, default=8, help="moves of a timed run")
    options = parser.parse_args(arguments)
    sizes = ((9, 4),) if options.quick else SIZES
    moves, repeats = (2, 1) if options.quick else (options.moves, options.repeats)
    device = jax.devices()[0].device_kind
    rows = [measure(*size, moves, repeats)._asdict() for size in sizes]
    show(f"{device}, JAX {jax.__version__}, pgx {importlib.metadata.version('pgx')}", rows)
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
