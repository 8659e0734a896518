"""Known results of the small games, and the rules in JAX against those in plain Python."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from oracle import plain_rules as plain

TABLE = [
    ("connect2", {}, plain.CONNECT2),
    ("nim", {"pile": 3, "max_take": 5}, plain.Nim(pile=3, max_take=5)),
    ("hsr", {}, plain.HSR(4, 4, 16)),
    ("tic_tac_toe", {}, plain.TIC_TAC_TOE),
]


def _solved(name, parameters):
    env = games.make(name, **parameters)
    return env, games.solve(env)


def _reachable(rules):
    """Enumerates all positions without the solver."""
    found, stack = set(), [rules.start()]
    while stack:
        position = stack.pop()
        if position not in found:
            found.add(position)
            if rules.result(position) is None:
                stack.extend(rules.moves(position).values())
    return found


def _win_rate(rules, players):
    """Returns the win rate of player 0; player i samples from `players[i](position, moves)`."""

    @functools.cache
    def rate(position):
        result = rules.result(position)
        if result is not None:
            return float(result == 1)
        moves = rules.moves(position)
        chosen = players[rules.mover(position)](position, moves)
        return sum(rate(moves[action]) for action in chosen) / len(chosen)

    return rate(rules.start())


def _random(position, moves):
    return list(moves)


def _perfect(rules, solution):
    return lambda position, moves: np.flatnonzero(solution.code_optimal[rules.code(position)])


@pytest.mark.parametrize(("name", "parameters", "rules"), TABLE)
def test_solution_satisfies_negamax(name, parameters, rules):
    """Checks every row against an independent recursion over the plain rules."""
    _, solution = _solved(name, parameters)

    @functools.cache
    def value(position):
        result = rules.result(position)
        sign = 1 if rules.mover(position) == 0 else -1
        if result is not None:
            return sign * result
        return max(-value(child) for child in rules.moves(position).values())

    for row, history in enumerate(solution.histories):
        position = _play(rules, history)
        moves = rules.moves(position)
        legal = set(np.flatnonzero(solution.legal_actions[row]))
        assert legal == set(moves)
        assert solution.values[row] == value(position)
        best = {a for a, child in moves.items() if -value(child) == value(position)}
        assert set(np.flatnonzero(solution.optimal_actions[row])) == best
        assert solution.codes[row] == rules.code(position)
        assert solution.code_values[solution.codes[row]] == solution.values[row]
        assert set(np.flatnonzero(solution.code_optimal[solution.codes[row]])) == best
    codes = {rules.code(position) for position in _reachable(rules)}
    assert solution.num_states == len(codes)
    assert solution.num_states == solution.num_terminal + len(solution.values)
    assert len(set(solution.codes.tolist())) == len(solution.codes)


@pytest.mark.parametrize(
    ("name", "counts", "value", "best"),
    [
        ("tic_tac_toe", (5478, 958), 0, [*range(9)]),
        ("hsr", (995, 69), 1, [7]),
        ("connect2", (32, 9), 1, [1, 2]),
    ],
)
def test_known_results(name, counts, value, best):
    """The numbers of positions and of those that are over; the value and moves of the first one."""
    _, solution = _solved(name, {})
    assert (solution.num_states, solution.num_terminal) == counts
    assert solution.values[0] == value
    assert np.flatnonzero(solution.optimal_actions[0]).tolist() == best


def _play(rules, history):
    position = rules.start()
    for action in history[history >= 0]:
        position = rules.moves(position)[action]
    return position


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters", "rules"), TABLE)
def test_jax_rules_match_plain_rules_on_every_state(name, parameters, rules):
    env, solution = _solved(name, parameters)
    states = games.replay(env, solution.histories, key=jax.random.PRNGKey(3))
    assert not states.terminated.any()
    assert not states.rewards.any()
    np.testing.assert_array_equal(states.legal_action_mask, solution.legal_actions)
    np.testing.assert_array_equal(jax.vmap(solution.code_fn)(states), solution.codes)

    every = jnp.arange(env.num_actions)
    after = jax.jit(jax.vmap(jax.vmap(env.step, (None, 0)), (0, None)))(states, every)
    terminated, codes = np.asarray(after.terminated), jax.vmap(jax.vmap(solution.code_fn))(after)
    own_reward = np.take_along_axis(
        np.asarray(after.rewards), np.asarray(states.current_player)[:, None, None], axis=-1
    )[..., 0]
    assert not np.asarray(after.rewards).sum(-1).any()
    codes = np.asarray(codes)
    for row, history in enumerate(solution.histories):
        position = _play(rules, history)
        sign = 1 if rules.mover(position) == 0 else -1
        for action, child in rules.moves(position).items():
            result = rules.result(child)
            assert terminated[row, action] == (result is not None)
            assert own_reward[row, action] == sign * (result or 0)
            assert codes[row, action] == rules.code(child)


def test_hsr_is_won_up_to_the_sum_of_binomials():
    seen = set()
    for jars in (1, 2, 4):
        _, solution = _solved("hsr", {"k": jars, "q": 4, "n": 18})
        for code, value in zip(solution.codes.tolist(), solution.values, strict=True):
            (k, q, n), m = (
                (code // (18 * 19 * 5), code // (18 * 19) % 5, code // 18 % 19),
                code % 18,
            )
            assert abs(value) == 1
            if m == 0:
                most = sum(math.comb(q, i) for i in range(k + 1))
                assert (value == 1) == (n <= most), (k, q, n)
                seen.add((k, q))
    assert len(seen) == 15


def test_hsr_win_rates():
    rules = plain.HSR(4, 4, 16)
    _, solution = _solved("hsr", {})
    perfect = _perfect(rules, solution)
    assert _win_rate(rules, (_random, perfect)) == pytest.approx(0.0032, abs=5e-5)
    assert _win_rate(rules, (_random, _random)) == pytest.approx(0.821, abs=5e-4)
    assert _win_rate(rules, (perfect, perfect)) == 1
    assert _win_rate(rules, (perfect, _random)) == 1


@pytest.mark.parametrize("max_take", [1, 3])
def test_nim_is_lost_on_multiples(max_take):
    _, solution = _solved("nim", {"max_take": max_take, "pile": 20})
    for pile in range(21):
        lost = pile % (max_take + 1) == 0
        assert solution.code_values[pile] == (-1 if lost else 1)
        if not lost:
            assert np.flatnonzero(solution.code_optimal[pile]).tolist() == [
                pile % (max_take + 1) - 1
            ]


@pytest.mark.parametrize(("name", "parameters", "rules"), TABLE)
def test_optimal_path_and_one_sided_match_search(name, parameters, rules):
    _, solution = _solved(name, parameters)
    optimal = _perfect(rules, solution)
    codes = {}
    for label, careful in {"both": {0, 1}, "first": {0}, "second": {1}}.items():
        found, stack = set(), [rules.start()]
        while stack:
            position = stack.pop()
            if position in found or rules.result(position) is not None:
                continue
            found.add(position)
            moves = rules.moves(position)
            picked = optimal(position, moves) if rules.mover(position) in careful else list(moves)
            stack.extend(moves[action] for action in picked)
        codes[label] = {rules.code(position) for position in found}
    row_codes = solution.codes
    assert set(row_codes[solution.on_optimal_path]) == codes["both"]
    assert set(row_codes[solution.one_sided]) == codes["first"] | codes["second"]
    assert solution.one_sided[solution.on_optimal_path].all()
    assert solution.on_optimal_path[0]


def test_solutions_are_cached_and_read_only():
    one, two = games.solve(games.make("hsr")), games.solve(games.make("hsr"))
    assert one is two
    with pytest.raises(ValueError, match="read-only"):
        one.values[...] = 0


def test_unsolvable_game_raises():
    for env, message in [
        (games.make("connect_four"), "no solver for 'connect_four': pass one of connect2, nim"),
        (games.make("nim", pile=100_000), "make its parameters smaller"),
    ]:
        assert not games.is_solvable(env)
        with pytest.raises(ValueError, match=message) as caught:
            games.solve(env)
        assert "\n" not in str(caught.value)
