"""`games.go`: every state equals pgx's, and scoring has no loop on a GPU."""

import collections
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pgx.go
import pytest

import games
from games import go_area
from games.go import Go

NUM_GAMES = 48


def assert_equal(found: Any, expected: Any) -> None:
    """Compares structure, types and every element of two states."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for (path, ours), theirs in zip(
        jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(expected), strict=True
    ):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), path
        np.testing.assert_array_equal(ours, theirs, err_msg=jax.tree_util.keystr(path))


class Actions:
    """Samples actions for a batch of games.

    Each game has its own weight of a pass, so that some games end early and others at the limit of
    moves, and its own rate of illegal actions, which is zero for most games.
    """

    def __init__(self, seed: int) -> None:
        self.draws = np.random.default_rng(seed)
        self.pass_weight = self.draws.choice([0.5, 0.99, 1.02], NUM_GAMES)
        self.illegal_rate = self.draws.choice([0.0, 0.0, 0.02], NUM_GAMES)

    def sample(self, state: Any) -> np.ndarray:
        legal = np.asarray(state.legal_action_mask)
        scores = self.draws.random(legal.shape)
        scores[:, -1] *= self.pass_weight
        is_empty, ko = np.asarray(state._x.board) == 0, np.asarray(state._x.ko)
        # Most illegal points are occupied. Those of suicide and ko are rare, so they are preferred.
        special = is_empty & ~legal[:, :-1]
        rate = np.where(special.any(axis=1), 15, 1) * self.illegal_rate
        is_illegal = self.draws.random(NUM_GAMES) < rate
        scores[:, :-1] += special
        in_ko = np.flatnonzero(ko >= 0)
        scores[in_ko, ko[in_ko]] += 1
        allowed = np.where(is_illegal[:, None], ~legal, legal)
        return np.argmax(scores * allowed, axis=1).astype(np.int32)


def count_events(counts: collections.Counter, before: Any, action: np.ndarray, after: Any) -> None:
    """Counts what happened in one ply of games that were not over."""
    is_running = ~np.asarray(before.terminated)
    index = np.arange(NUM_GAMES)
    is_pass = action == before.legal_action_mask.shape[1] - 1
    is_legal = np.asarray(before.legal_action_mask)[index, action]
    is_ko = action == np.asarray(before._x.ko)
    old, new = np.asarray(before._x.board), np.asarray(after._x.board)
    is_occupied = ~is_pass & (old[index, np.minimum(action, old.shape[1] - 1)] != 0)
    captured = np.sum(np.asarray(after._x.num_captured - before._x.num_captured), axis=1)
    removed = np.sum((old != 0) & (new == 0), axis=1)
    counts.update(
        {
            "pass": np.sum(is_running & is_pass),
            "capture": np.sum(is_running & (captured > 0)),
            "chain captured from two sides": np.sum(is_running & (captured > removed)),
            "ko": np.sum(is_running & (np.asarray(after._x.ko) >= 0)),
            "superko": np.sum(is_running & np.asarray(after._x.is_psk)),
            "occupied point": np.sum(is_running & is_occupied),
            "suicide": np.sum(is_running & ~is_legal & ~is_occupied & ~is_ko),
            "ko point": np.sum(is_running & is_ko),
            "two passes": np.sum(is_running & (np.asarray(after._x.consecutive_pass_count) == 2)),
            "limit": np.sum(is_running & (np.asarray(after._x.step_count) == limit_of(after))),
            "step after the end": np.sum(~is_running),
        }
    )


def limit_of(state: Any) -> int:
    return state._x.hash_history.shape[1]


def play_both(parameters: dict[str, Any], seed: int, skipped: int = 0) -> collections.Counter:
    """Plays random games to their ends; compares each state, and counts the events.

    The first `skipped` moves are played without pgx, whose step takes long on large boards.
    """
    (init, theirs), (our_init, ours) = (
        (jax.jit(jax.vmap(env.init)), jax.jit(jax.vmap(env.step)))
        for env in (pgx.go.Go(**parameters), Go(**parameters))
    )
    keys = jax.random.split(jax.random.key(seed), NUM_GAMES)
    state, actions, counts = init(keys), Actions(seed), collections.Counter()
    assert_equal(our_init(keys), state)
    for turn in range(limit_of(state) + 1):
        action = actions.sample(state)
        if turn < skipped:
            state = ours(state, action)
            continue
        expected = theirs(state, action)
        assert_equal(ours(state, action), expected)
        count_events(counts, state, action, expected)
        state = expected
    assert np.all(state.terminated)
    return counts


@pytest.mark.slow
def test_states_equal_pgx_in_random_games() -> None:
    counts = play_both({"size": 5, "history_length": 3}, seed=3)
    assert len(counts) == 11
    assert min(counts.values()) > 0, dict(counts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "skipped"),
    [
        ({"size": 2, "max_terminal_steps": 40}, 0),
        ({"size": 4, "komi": 0.5, "history_length": 1}, 0),
        ({"size": 19, "max_terminal_steps": 200}, 192),
    ],
)
def test_states_equal_pgx_for_all_sizes(parameters: dict[str, Any], skipped: int) -> None:
    counts = play_both(parameters, 1, skipped)
    assert skipped or counts["pass"] > 0
    assert counts["capture"] > 0


def test_step_keeps_types_with_64_bit_numbers() -> None:
    """pgx's step cannot be traced then."""
    env = Go(size=5)
    with jax.enable_x64(True):
        state = jax.eval_shape(env.init, jax.random.key(0))
        after = jax.eval_shape(env.step, state, jax.ShapeDtypeStruct((), jnp.int64))
    assert jax.tree.leaves(after) == jax.tree.leaves(state)


def test_registry_uses_the_faster_step() -> None:
    ours, theirs = games.make("go_9x9"), pgx.make("go_9x9")
    assert isinstance(ours, Go)
    assert (ours.id, ours.version) == (theirs.id, theirs.version)
    state, expected = (jax.eval_shape(env.init, jax.random.key(0)) for env in (ours, theirs))
    assert type(state) is pgx.go.State
    assert jax.tree.structure(state) == jax.tree.structure(expected)
    assert jax.tree.leaves(state) == jax.tree.leaves(expected)


def serpentine(size: int) -> np.ndarray:
    """Returns bool `[S, S]`, true on a path through all even columns, joined at alternate ends."""
    path = np.zeros((size, size), bool)
    path[:, ::2] = True
    path[0, 3::4] = path[-1, 1::4] = True
    return path


def spiral(size: int) -> np.ndarray:
    """Returns bool `[S, S]`, true on a path that turns right before it would touch itself."""
    path, (row, column), (down, right) = np.zeros((size, size), bool), (0, 0), (0, 1)
    path[0, 0], turns = True, 0
    while turns < 2:
        ahead = [(row + k * down, column + k * right) for k in (1, 2)]
        inside = [0 <= r < size and 0 <= c < size for r, c in ahead]
        if inside[0] and not (inside[1] and path[ahead[1]]):
            (row, column), turns = ahead[0], 0
            path[row, column] = True
        else:
            (down, right), turns = (right, -down), turns + 1
    return path


def reach_by_search(free: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Returns the points of `free`, bool `[S, S]`, that a depth-first search finds from seeds."""
    found, todo = np.zeros_like(free), list(zip(*np.nonzero(seeds), strict=True))
    while todo:
        row, column = todo.pop()
        inside = 0 <= row < len(free) and 0 <= column < len(free)
        if inside and free[row, column] and not found[row, column]:
            found[row, column] = True
            todo += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
    return found


def make_boards(size: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns free points `[B, S, S]` and two sets of seeds `[B, 2, S, S]`.

    The first boards are long corridors with one seed at an end, the others random.
    """
    draws = np.random.default_rng(size)
    density = draws.uniform(0, 1, (number, 1, 1))
    free = draws.random((number, size, size)) < density
    seeds = draws.random((number, 2, size, size)) < draws.uniform(0, 0.2, (number, 1, 1, 1))
    corridors = [serpentine(size), serpentine(size).T, spiral(size)]
    free[: len(corridors)], seeds[: len(corridors)] = corridors, False
    seeds[: len(corridors), 0, 0, 0] = True
    return free, seeds & free[:, None]


@pytest.mark.parametrize(
    ("size", "number"), [(9, 64), pytest.param(19, 12, marks=pytest.mark.slow)]
)
def test_reached_points_equal_a_search(size: int, number: int) -> None:
    free, seeds = make_boards(size, number)
    expected = [[reach_by_search(f, s) for s in pair] for f, pair in zip(free, seeds, strict=True)]
    assert np.all(np.asarray(expected)[:3, 0] == free[:3]), "a corridor is not connected"
    powers = 2 ** np.arange(size, dtype=np.uint32)
    packed = [np.sum(x * powers, axis=-1, dtype=np.uint32) for x in (free, seeds, expected)]
    for reach in (go_area.reach_by_loop, go_area.reach_by_squaring):
        found = jax.jit(jax.vmap(reach))(packed[0], packed[1])
        np.testing.assert_array_equal(found, packed[2])


def test_step_lowered_for_cuda_has_no_loop() -> None:
    """The step of pgx has one."""
    env = Go(size=9)
    states = jax.eval_shape(jax.vmap(env.init), jax.random.split(jax.random.key(0), 4))
    step = jax.jit(jax.vmap(env.step)).trace(states, jax.ShapeDtypeStruct((4,), jnp.int32))
    text = step.lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.reduce" in text
    assert "stablehlo.while" not in text
    assert "stablehlo.sort" not in text
