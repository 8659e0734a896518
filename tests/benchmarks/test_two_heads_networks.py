"""The labels, the errors and whole runs of `benchmarks.two_heads_networks`."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from benchmarks import two_heads_errors, two_heads_networks
from benchmarks.connect_four import Positions
from benchmarks.two_heads import searches
from benchmarks.two_heads_errors import measure_errors
from benchmarks.two_heads_subjects import QUICK, solved_data, subjects
from dualmctx import load_trained
from dualmctx.matches.openings import position_digests
from dualmctx.models.network import HeadOutput
from dualmctx.runs.journal import read_rows

ROOT = Path(__file__).parents[2]
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


def test_tables_show_networks_with_other_splits(capsys: pytest.CaptureFixture[str]) -> None:
    """At a low cost, some splits of the simulations do not exist."""
    file = ROOT / "benchmarks" / "results" / "two_heads_tic_tac_toe.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {"dual 40%" in row["measured"] for row in rows} == {True, False}
    two_heads_networks.show_rows(rows)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    [line] = [x for x in lines if x.startswith("package") and x.split()[-2:] == ["–", "–"]]
    assert line


@pytest.mark.slow
def test_real_networks_are_measured_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One network and few searches, because compiling them takes the time. Those of the synthetic
    # game run in test_two_heads.py.
    monkeypatch.setattr(two_heads_networks, "QUICK", QUICK._replace(widths=()))
    chosen = ("final", "early", "root", "average")
    for module in (two_heads_networks, two_heads_errors):
        monkeypatch.setattr(module, "searches", lambda cell: {x: searches(cell)[x] for x in chosen})

    def stand_in(search: Any, num_actions: int, number: int) -> Any:
        return lambda heads, seed: np.random.default_rng(len(search.kind)).random((2, number))

    monkeypatch.setattr(two_heads_errors, "compile_search", stand_in)
    arguments = ["--quick", "--game", "tic-tac-toe", "--out", str(tmp_path)]
    two_heads_networks.main(arguments)
    shown = capsys.readouterr().out
    [row] = read_rows(tmp_path / "rows.jsonl")
    assert (row["network"], row["depths"]) == ("package", [2, 4])
    assert 0.5 < row["errors"]["value_correlation"] < 1
    assert all(0.5 < row["errors"][x]["prior_mass"] < 1 for x in ("early", "final"))
    for mass, head in zip(row["model_masses"], ("early", "final"), strict=True):
        assert abs(mass - row["errors"][head]["prior_mass"]) < 0.15
    assert {*row["measured"]} == {*row["predicted"]} == {*chosen}
    two_heads_networks.main(arguments)
    assert capsys.readouterr().out == shown
    with pytest.raises(SystemExit, match=r"^2$"):
        two_heads_networks.main(arguments[1:])
    assert "has another configuration" in capsys.readouterr().err


@pytest.mark.slow
def test_networks_are_trained_once(tmp_path: Path) -> None:
    packaged = load_trained("tic-tac-toe")
    learned = solved_data(packaged.env, QUICK.learned, 1).learned
    # The second time there is nothing to learn from.
    both: Any = (learned, None)
    found = [list(subjects(tmp_path, packaged, data, QUICK)) for data in both]
    assert [x.name for x in found[0]] == ["package", "mlp, 2 steps"]
    assert found[0][1].network.head_depths == QUICK.head_depths
    jax.tree.map(np.testing.assert_array_equal, found[0][1].params, found[1][1].params)
    assert len([*tmp_path.iterdir()]) == 1
