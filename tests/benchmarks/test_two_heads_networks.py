"""Games beyond Connect Four in `benchmarks.two_heads_networks`: labels, errors, whole runs."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from benchmarks import two_heads_networks, two_heads_positions
from benchmarks.connect_four import Positions
from benchmarks.two_heads_errors import measure_errors
from benchmarks.two_heads_positions import agreement, search_labels, solved_data
from dualmctx import load_trained
from dualmctx.matches.openings import position_digests
from dualmctx.models.network import HeadOutput
from dualmctx.runs.journal import read_rows
from games.histories import pad_histories

TIC_TAC_TOE = games.make("tic_tac_toe")


def rows_of(states: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i], states)


def test_labels_of_a_solved_game_are_those_of_its_solver() -> None:
    learned, tested = solved_data(TIC_TAC_TOE, 3000, 3000)
    assert len(learned.histories) == len(tested.histories) == 4520 // 2
    boards = [
        {*position_digests(games.replay(TIC_TAC_TOE, x.histories))} for x in (learned, tested)
    ]
    assert not boards[0] & boards[1]
    some = Positions(*(x[:20] for x in tested))
    states = jax.device_get(games.replay(TIC_TAC_TOE, some.histories))
    for i in range(20):
        found = games.exact_values(TIC_TAC_TOE, rows_of(states, i))
        assert found is not None
        legal = np.flatnonzero(some.legal[i]).tolist()
        assert dict(zip(legal, some.move_values[i, legal], strict=True)) == found.moves
        assert some.values[i] == found.value


def test_labels_by_a_search_are_kept_and_agree_where_a_search_sees_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = load_trained("connect2")
    data = solved_data(trained.env, 99, 99)
    exact = Positions(*(np.concatenate(x) for x in zip(*data, strict=True)))
    monkeypatch.setattr(two_heads_positions, "PART", 10)
    shown = []

    def show(name: str, done: int, total: int, note: str = "") -> None:
        shown.append(done)

    def stop(name: str, done: int, total: int, note: str = "") -> None:
        raise KeyboardInterrupt

    file = tmp_path / "labels.jsonl"
    with pytest.raises(KeyboardInterrupt):
        search_labels(trained, exact.histories, 400, file, stop)
    found = search_labels(trained, exact.histories, 400, file, show)
    assert shown == [20, len(exact.histories)]
    np.testing.assert_array_equal(found.legal, exact.legal)
    # A mean over simulations is not exactly 0, so a draw has a label of either side.
    decided = exact.legal & (exact.move_values != 0)
    np.testing.assert_array_equal(found.move_values[decided], exact.move_values[decided])
    assert agreement(exact, exact) == {"moves": 1, "positions": 1}
    other = exact._replace(move_values=-exact.move_values)
    share = np.mean(exact.move_values[exact.legal] == 0)
    assert agreement(exact, other)["moves"] == pytest.approx(share, abs=1e-4)


# k, σ, ρ, d and τ of two constructed heads, and c of the parts that do not last.
SIGNALS, NOISE, LASTING = (0.9, 1.1), (0.6, 0.3), 0.6
PRIORS, SPREADS, SHARED = (1.5, 2.5), (1.0, 0.5), 0.5
EDGE = 1


class Constructed:
    """A network of two heads with known errors, for tic-tac-toe positions by their code."""

    head_depths = (1, 4)

    def apply(self, params: Any, observation: Any, head: int, method: str) -> Any:
        assert method == "begin"
        own, other = (observation[..., i].reshape(len(observation), 9) for i in range(2))
        is_first = own.sum(axis=1) == other.sum(axis=1)
        first, second = (jnp.where(is_first[:, None], *x) for x in ((own, other), (other, own)))
        code = (first + 2 * second) @ (3 ** jnp.arange(9))
        owner = first[:, EDGE] * 1.0 - second[:, EDGE]
        side = jnp.where(is_first, 1, -1)
        error = LASTING**0.5 * owner + (1 - LASTING) ** 0.5 * params["errors"][code, head]
        value = SIGNALS[head] * params["values"][code] + NOISE[head] * side * error
        keeps = jnp.where(params["keeps"][code], 0.5, -0.5)
        logits = PRIORS[head] * keeps + SPREADS[head] * params["noise"][code, :, head]
        return None, HeadOutput(logits, jnp.tanh(value))


def test_the_errors_of_a_constructed_network_are_recovered() -> None:
    solution, rng = games.solve(TIC_TAC_TOE), np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        covariance = [[1, SHARED], [SHARED, 1]]
        return rng.multivariate_normal([0, 0], covariance, shape).astype(np.float32)

    params = {
        "values": jnp.asarray(solution.code_values, jnp.float32),
        "keeps": jnp.asarray(solution.code_optimal),
        "errors": jnp.asarray(draw(3**9)),
        "noise": jnp.asarray(draw(3**9, 9)),
    }
    data = solved_data(TIC_TAC_TOE, 3000, 3000)
    every = Positions(*(np.concatenate(x) for x in zip(*data, strict=True)))
    # The part of the error that lasts is the owner of a cell, which no later move changes. It is as
    # often the winner as not.
    ply = np.argmax(every.histories == EDGE, axis=1)
    is_owned = (every.histories == EDGE).any(axis=1)
    mover = (every.histories >= 0).sum(axis=1) % 2
    is_winner = (ply % 2 == mover) == (every.values > 0)
    kinds = [np.flatnonzero(is_owned & (every.values != 0) & (is_winner == x)) for x in (0, 1)]
    chosen = np.concatenate([x[: min(map(len, kinds))] for x in kinds])
    data = Positions(*(x[chosen] for x in every))
    network: Any = Constructed()
    found = measure_errors(TIC_TAC_TOE, network, params, 0, data)
    for i, head in enumerate((found.early, found.final)):
        assert head.value_signal == pytest.approx(SIGNALS[i], rel=0.05)
        assert head.value_noise == pytest.approx(NOISE[i], rel=0.05)
        assert head.persistence == pytest.approx(LASTING, abs=0.05)
        assert head.prior_signal == pytest.approx(PRIORS[i], rel=0.05)
        assert head.prior_noise == pytest.approx(SPREADS[i], rel=0.05)
    assert found.value_correlation == pytest.approx(LASTING + (1 - LASTING) * SHARED, abs=0.05)
    assert found.prior_correlation == pytest.approx(SHARED, abs=0.05)


@pytest.mark.slow
def test_a_game_is_measured_with_both_kinds_of_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--game", "tic-tac-toe", "--labels", "search", "--out", str(tmp_path)]
    two_heads_networks.main(arguments)
    shown = capsys.readouterr().out
    exact, searched = read_rows(tmp_path / "rows.jsonl")
    assert [(x["game"], x["labels"], x["network"]) for x in (exact, searched)] == [
        ("tic-tac-toe", "exact", "package"),
        ("tic-tac-toe", "search", "package"),
    ]
    assert "agreement" not in exact
    assert 0.5 < searched["agreement"]["moves"] < 1
    assert exact["errors"]["early"] != searched["errors"]["early"]
    assert exact["measured"].keys() == searched["measured"].keys()
    two_heads_networks.main(arguments)
    assert capsys.readouterr().out == shown


@pytest.mark.slow
def test_a_large_game_is_measured_by_the_labels_of_a_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_heads_networks.main(["--quick", "--game", "hex", "--out", str(tmp_path)])
    assert "labels: search" in capsys.readouterr().out
    (row,) = read_rows(tmp_path / "rows.jsonl")
    assert (row["depths"], row["labels"]) == ([2, 4], "search")
    assert 0.5 < row["errors"]["value_correlation"] <= 1
    assert len(read_rows(tmp_path / "labels.jsonl")) == 32


def test_positions_of_games_are_distinct_and_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = load_trained("tic-tac-toe")
    monkeypatch.setattr(two_heads_positions, "FEWEST_PLIES", 3)
    monkeypatch.setattr(two_heads_positions, "MAX_PLIES", 10)
    found = two_heads_positions.network_positions(trained, 40, seed=1)
    assert found == two_heads_positions.network_positions(trained, 40, seed=1)
    assert len(set(found)) == 40
    assert {len(x) for x in found} >= {3, 4, 5}
    states, bad = games.replay_checked(trained.env, pad_histories(found))
    assert (np.asarray(bad) < 0).all()
    assert not np.asarray(states.terminated).any()


def test_a_game_without_exact_values_refuses_exact_labels(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        two_heads_networks.main(["--game", "hex", "--labels", "exact"])
    assert "choose --labels search" in capsys.readouterr().err
