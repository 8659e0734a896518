"""The synthetic games and the map of `benchmarks.two_heads`, and the errors of real networks."""

import functools
import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import two_heads
from benchmarks.two_heads import Cell, searches, summarise
from benchmarks.two_heads_errors import fit_prior, fit_value, prior_mass
from benchmarks.two_heads_game import EARLY, FINAL, Heads, evaluate, play, roots
from benchmarks.two_heads_networks import rank_correlation
from benchmarks.two_heads_report import beats_both, is_above
from dualmctx.runs.journal import read_rows

HEADS = Heads((2.0, 1.0), (1.5, 0.5), 0.6, 0.8, 0.3)
NUMBER, ACTIONS = 4000, 5


@functools.cache
def line(plies: int = 3) -> list[Any]:
    """Returns the roots and the positions after 1, 2, ... plies of random moves."""
    rng = np.random.default_rng(0)
    states, step = [roots(3, NUMBER, HEADS, ACTIONS)], jax.jit(play)
    for _ in range(plies):
        states.append(step(HEADS, states[-1], jnp.asarray(rng.integers(ACTIONS, size=NUMBER))))
    return [jax.device_get(x) for x in states]


@pytest.mark.slow
def test_a_position_is_won_if_and_only_if_a_move_keeps_the_win() -> None:
    for state in line():
        np.testing.assert_array_equal(state.is_won, state.keeps.any(axis=1))
    first, *later = line()
    assert first.is_won.all()
    assert not first.keeps.all(axis=1).any()
    share = np.mean([x.keeps[x.is_won].mean() for x in later[1:]])
    # One move keeps the win in any case, the one with the lowest number.
    expected = 0.3 + 0.7**ACTIONS / ACTIONS
    assert abs(share - expected) < 0.01


def test_a_move_that_keeps_the_win_leads_to_a_lost_position() -> None:
    state = roots(3, NUMBER, HEADS, ACTIONS)
    for action in range(ACTIONS):
        after = play(HEADS, state, jnp.full(NUMBER, action))
        np.testing.assert_array_equal(after.is_won, ~state.keeps[:, action])


def test_errors_are_correlated_between_heads_and_along_paths() -> None:
    states = line()
    for state in states:
        assert np.std(state.errors, axis=0) == pytest.approx([1, 1], abs=0.04)
        assert np.corrcoef(*state.errors.T)[0, 1] == pytest.approx(0.6, abs=0.04)
    for one, other in itertools.pairwise(states):
        for head in range(2):
            found = np.corrcoef(one.errors[:, head], other.errors[:, head])[0, 1]
            assert found == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("head", "mix"), [(0, EARLY), (1, FINAL)])
def test_the_errors_of_a_head_are_found_in_its_outputs(head: int, mix: Any) -> None:
    # Small errors, because values are rounded near 1.
    heads = HEADS._replace(value_noise=(0.8, 0.4))
    state = line()[2]
    logits, value = jax.device_get(evaluate(heads, jax.tree.map(jnp.asarray, state), mix))
    exact = np.where(state.is_won, 1, -1)
    signal, errors = fit_value(np.asarray(value, np.float64), exact)
    assert signal == pytest.approx(0.9, rel=0.05)
    assert np.std(errors) == pytest.approx(heads.value_noise[head], rel=0.05)
    assert np.corrcoef(errors, state.side * state.errors[:, head])[0, 1] > 0.999
    is_contested = state.is_won & ~state.keeps.all(axis=1)
    rows, legal = state.keeps[is_contested], np.ones((is_contested.sum(), ACTIONS), bool)
    logits = np.asarray(logits, np.float64)[is_contested]
    signal, noise = fit_prior(logits, rows, legal)
    assert signal == pytest.approx(1, rel=0.1)
    spread = np.sqrt((noise**2).sum() / (legal.sum() - 2 * len(legal)))
    assert spread == pytest.approx(heads.prior_noise[head], rel=0.05)
    expected = float((np.exp(logits) * rows).sum(axis=1).mean())
    assert prior_mass(logits, rows, legal) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("budget", "r"), [(16, 1 / 2), (64, 1 / 16)])
def test_all_searches_of_a_cell_cost_the_same(budget: int, r: float) -> None:
    found = searches(Cell(budget=budget, r=r))
    assert len({*found.values()}) == len(found)
    for name, search in found.items():
        small, large = search.simulations
        # The simulations, and the root by the early and by the final head.
        cost = {
            "final": large + 1,
            "average": large + 1,
            "early": small * r + r,
            "root": small * r + r + 1,
            "dual": small * r + large * (1 - r) + 1,
        }[search.kind]
        assert abs(cost - budget - 1) <= r / 2 + 1e-9, name


def test_differences_are_paired() -> None:
    rng = np.random.default_rng(1)
    found: dict[str, Any] = {name: rng.random((2, 50)) for name in ("final", "early", "root")}
    players = searches(Cell())
    row = summarise(found, {name: players[name] for name in found})
    for i, kind in enumerate(("kept", "mass")):
        for other in ("early", "final"):
            change = 100 * (found["root"][i] - found[other][i])
            expected = [change.mean(), change.std(ddof=1) / 50**0.5]
            np.testing.assert_allclose(row["root"][f"{kind} - {other}"], expected, atol=0.006)
    assert [is_above([x, 1.0]) for x in (2.1, 1.9, -3.0)] == [True, False, False]
    pairs = {"kept - early": [3.0, 1.0], "kept - final": [1.0, 1.0]}
    assert not beats_both(pairs)
    assert beats_both(pairs | {"kept - final": [2.5, 1.0]})


def test_ranks_are_compared_with_ties() -> None:
    def shares(*values: float) -> dict[str, Any]:
        return {name: {"mass": x} for name, x in zip("abc", values, strict=True)}

    row = {"predicted": shares(0.1, 0.2, 0.3), "measured": shares(0.5, 0.6, 0.9)}
    assert rank_correlation(row) == pytest.approx(1)
    assert rank_correlation(row | {"measured": shares(0.9, 0.6, 0.5)}) == pytest.approx(-1)
    assert rank_correlation(row | {"measured": shares(0.5, 0.5, 0.9)}) == pytest.approx(
        0.866, abs=1e-3
    )


@pytest.mark.slow
def test_the_map_continues_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Compiling the searches takes the time.
    chosen = ("final", "early", "root", "dual 1")
    monkeypatch.setattr(two_heads, "searches", lambda cell: {x: searches(cell)[x] for x in chosen})
    whole, stopped, picture = (tmp_path / x for x in ("whole.jsonl", "stopped.jsonl", "map.png"))
    two_heads.main(["--quick", "--out", str(whole), "--picture", str(picture)])
    assert picture.stat().st_size > 10_000
    measure, calls = two_heads.measure, 0

    def stop(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(two_heads, "measure", stop)
    with pytest.raises(SystemExit, match=r"^130$"):
        two_heads.main(["--quick", "--out", str(stopped)])
    assert "the same command continues" in capsys.readouterr().err
    assert len(read_rows(stopped)) == 1
    two_heads.main(["--quick", "--out", str(stopped)])
    assert stopped.read_bytes() == whole.read_bytes()
    with pytest.raises(SystemExit, match=r"^2$"):
        two_heads.main(["--quick", "--seed", "1", "--out", str(whole)])
    assert "another --number or --seed" in capsys.readouterr().err
