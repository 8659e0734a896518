"""Scores of evals are correct, and the plot and the table of a run show them."""

import io
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import games
from dualmctx.console import Console
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.experiment.evals import (
    eval_key,
    is_solved,
    make_exact_eval,
    make_match_eval,
    run_evals,
)
from dualmctx.experiment.report import plot_training, summary_table
from dualmctx.matches.players import batched_move_fn
from stand_in import output_of


def evaluations(**known: Any) -> Evaluations:
    """Returns evaluations in which only the fields read by evals are set."""
    unread = dict.fromkeys(Evaluations._fields, next(iter(known.values())))
    return Evaluations(**unread | known)


HAND_MADE = evaluations(
    action=np.array([0, 1, 2, 1]),
    value=np.array([0.51, 0.49, -0.6, 0.5]),
    network_action=np.array([[0, 2], [1, 2], [2, 2], [1, 2]]),
    network_value=np.array([[1, -0.4], [0, 0.4], [-1, -0.51], [1, 0.9]]),
)
OPTIMAL = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]], bool)
VALUES = np.array([1, 0, -1, 1])


def test_evals_of_each_seed_and_iteration_have_a_key_of_their_own() -> None:
    seeds = [0, 1, 2**32 - 1]
    keys = [eval_key(seed, iteration) for seed in seeds for iteration in range(3)]
    # Training starts with the keys that the key of the seed is split into.
    keys += [key for seed in seeds for key in jax.random.split(jax.random.PRNGKey(seed), 3)]
    assert len({tuple(key.tolist()) for key in keys}) == len(keys)


def solution(optimal_actions: Any, values: Any, on_optimal_path: Any) -> Any:
    return SimpleNamespace(
        optimal_actions=optimal_actions, values=values, on_optimal_path=on_optimal_path
    )


def stand_in(found: Evaluations) -> Any:
    """Replaces `make_evaluate`; the states are row numbers."""
    return lambda params, rng_key, states: Evaluations(*(x[states] for x in found))


def test_exact_evals_score_all_positions_and_the_optimal_path() -> None:
    exact = solution(OPTIMAL, VALUES, np.array([True, False, False, True]))
    eval_fn = make_exact_eval(stand_in(HAND_MADE), np.arange(4), exact, max_positions=None)
    assert eval_fn(None, jax.random.PRNGKey(0)) == {
        "exact/search_optimal": 2 / 4,
        "exact/network_optimal": 1 / 4,
        # 0.5 lies between a draw and a win.
        "exact/search_value": 3 / 4,
        "exact/network_value": 3 / 4,
        "path/search_optimal": 1 / 2,
        "path/network_optimal": 1 / 2,
        "path/search_value": 1 / 2,
        "path/network_value": 1 / 2,
        "exact_positions": 4,
    }


@pytest.mark.parametrize(
    ("max_positions", "expected"),
    [(10, range(10)), (5, [0, 2, 3, 4, 6, 8]), (4, [0, 3, 6, 9])],
)
def test_short_evals_score_a_sample_and_the_whole_path(max_positions: int, expected: Any) -> None:
    asked = []

    def evaluate(params: Any, rng_key: Any, states: Any) -> Evaluations:
        asked.append(states.tolist())
        none = np.zeros((len(states), 2), int)
        return evaluations(
            action=none[:, 0], value=none[:, 0], network_action=none, network_value=none
        )

    on_path = np.arange(10) == 3
    exact = solution(np.ones((10, 3), bool), np.zeros(10), on_path)
    eval_fn = make_exact_eval(evaluate, np.arange(10), exact, max_positions=max_positions)
    found = eval_fn(None, None)
    assert asked == [list(expected)]
    assert found.pop("exact_positions") == len(expected)
    assert set(found.values()) == {1.0}


def test_match_evals_count_by_side() -> None:
    """With one stone the player who moves first wins."""

    def search_fn(params: Any, rng_key: Any, state: Any) -> Any:
        return output_of(state._x.pile - 1, 3)

    opponent = batched_move_fn(lambda rng_key, state: jnp.int32(0))
    eval_fn = make_match_eval(games.make("nim", pile=1), search_fn, opponent, "them", num_games=6)
    zeros = dict.fromkeys(("first_draws", "first_losses", "second_wins", "second_draws"), 0)
    expected = zeros | {"first_wins": 3, "second_losses": 3, "win_share": 1 / 2}
    found = eval_fn(None, jax.random.PRNGKey(0))
    assert found == {f"them/{name}": x for name, x in expected.items()}


def test_all_evals_are_run() -> None:
    evals = (
        lambda params, key: {"a": params, "key of a": key},
        lambda params, key: {"key of b": key},
    )
    found = run_evals(evals, 1.0, jax.random.PRNGKey(2))
    assert (list(found), found["a"]) == (["a", "key of a", "key of b"], 1.0)
    # Different evals must use different keys.
    assert (found["key of a"] != found["key of b"]).any()
    assert run_evals((), 1.0, jax.random.PRNGKey(2)) == {}


@pytest.mark.parametrize(
    ("search", "network", "solved"),
    [(1.0, 1.0, True), (1.0, 0.99, False), (0.99, 1.0, False)],
)
def test_solved_requires_network_and_search(search: Any, network: Any, solved: bool) -> None:
    metrics = {"path/search_optimal": search, "path/network_optimal": network}
    assert is_solved(metrics | {"exact/search_optimal": 0.5}) == solved
    assert not is_solved({})


LOSSES = {f"{kind}_loss_{head}": 0.5 for kind in ("policy", "value") for head in range(4)}
SHARES = {
    f"{scope}/{source}_{measure}": share
    for share, (scope, source, measure) in enumerate(
        (scope, source, measure)
        for scope in ("path", "exact")
        for measure in ("optimal", "value")
        for source in ("network", "search")
    )
}
EVALS = {name: x / 10 for name, x in SHARES.items()} | {"exact_positions": 1023}
# Rows with the numbers of their lines in both panels.
ROWS = {
    "none": ([], (0, 0)),
    "with evals": ([LOSSES | EVALS | {"random/win_share": 0.5}] * 3, (5, 8)),
    "not finite": ([LOSSES | {"policy_loss_1": x} for x in (None, math.nan)], (0, 8)),
    "with a loss of zero": ([dict.fromkeys(LOSSES, 0.0)] * 2, (0, 8)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_training_curves_differ_in_colour_or_dashes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *x, **y: (saved.append(figure), save(figure, *x, **y))
    )
    some, num_lines = ROWS[name]
    rows = [{"seconds": float(i)} | row for i, row in enumerate(some)]
    plot_training(rows, "nim", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    evals, losses = saved[0].axes
    assert (len(evals.lines), len(losses.lines)) == num_lines
    for axes in (evals, losses):
        styles = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
        assert len(styles) == len(axes.lines)
        assert len({line.get_label() for line in axes.lines}) == len(axes.lines)
    assert evals.get_ylim() == (-0.02, 1.02)
    assert saved[0].get_suptitle() == "nim"


def test_the_summary_table_shows_all_results() -> None:
    counts = {"title": "a title", "path_positions": 9, "exact_positions": 23}
    scores = {
        f"{opponent}/{side}_{name}": start + i
        for opponent in ("perfect", "random")
        for side, start in (("first", 11), ("second", 21))
        for i, name in enumerate(("wins", "draws", "losses"))
    }
    table = summary_table(EVALS | counts | scores)
    assert (table.title, table.head) == ("a title", ("", "network alone", "with search"))
    assert table.rows == [
        ("optimal moves, optimal path (9)", "0.00%", "10.00%"),
        ("optimal moves, all positions (23)", "40.00%", "50.00%"),
        ("right values, optimal path (9)", "20.00%", "30.00%"),
        ("right values, all positions (23)", "60.00%", "70.00%"),
        ("against perfect play, moving first", "", "+11 =12 −13"),
        ("against perfect play, moving second", "", "+21 =22 −23"),
        ("against random play, moving first", "", "+11 =12 −13"),
        ("against random play, moving second", "", "+21 =22 −23"),
    ]
    output = io.StringIO()
    Console(file=output, width=80).print(table)
    assert max(map(len, output.getvalue().splitlines())) <= 80
