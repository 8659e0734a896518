"""The benchmarks of search-contempt for puzzles and for training."""

import json
import pathlib
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import contempt_training, puzzles
from benchmarks.connect_four import Positions, make_solver, move_values
from benchmarks.contempt_training import Row
from dualmctx import AlphaZero, Contempt

NONE = np.nan


@pytest.mark.parametrize(
    ("values", "is_puzzle"),
    [
        ([-1, -1, 1, -1, -1, -1, -1], True),
        ([NONE, NONE, 0, -1, -1, NONE, NONE], True),
        ([1, 0, 0, -1, -1, -1, NONE], True),
        # Only half of the other moves lose.
        ([1, 0, 0, -1, -1, NONE, NONE], False),
        # Two moves keep the value; too few moves; a lost position.
        ([1, 1, -1, -1, -1, -1, -1], False),
        ([NONE, NONE, 0, -1, NONE, NONE, NONE], False),
        ([-1, -1, -1, -1, -1, -1, -1], False),
        ([0, 0, 0, 0, 0, 0, 0], False),
    ],
)
def test_puzzle_has_one_move_that_keeps_value(values: list[float], is_puzzle: bool) -> None:
    assert puzzles.is_puzzle(np.array(values, float)) is is_puzzle


def test_puzzle_is_not_seen_in_two_plies() -> None:
    solver = make_solver()
    # Three in a column: of the player to move, which wins at once; of the opponent, a threat.
    for moves in ([3, 0, 3, 0, 3, 6], [0, 3, 0, 3, 0]):
        assert puzzles.is_seen_at_once(moves, move_values(solver, moves))
    found = puzzles.find_puzzles(solver, 3, 0)
    for history, values in zip(found.histories, found.move_values, strict=True):
        moves = history[history >= 0].tolist()
        assert len(moves) >= puzzles.FIRST_PLY
        assert puzzles.is_puzzle(values)
        assert not puzzles.is_seen_at_once(moves, values)
    assert np.all(np.sum(found.keeping, axis=1) == 1)


def test_row_counts_puzzles_paired_with_puct() -> None:
    by_search = np.array([[1, 1, 0, 0], [1, 0, 0, 0]], bool)
    solved = puzzles.Solved(by_search, np.array([1, 0, 0, 1], bool))
    row = puzzles.to_row(5, solved, np.array([1, 0, 0, 1], bool))
    assert (row.limit, row.keys) == (5, 2)
    assert row.solved.share == 0.375
    # The network gets the middle two puzzles wrong.
    assert row.hard is not None
    assert row.hard.share == 0.25
    assert row.difference == -0.125
    assert row.standard_error == pytest.approx(np.std([0, 0.5, 0, -1]) / 2, abs=1e-3)
    assert (
        puzzles.to_row(5, solved._replace(by_network=np.ones(4, bool)), by_search[0]).hard is None
    )


@pytest.mark.slow
def test_limit_above_simulations_equals_puct() -> None:
    model = puzzles.untrained_model()
    found = puzzles.find_puzzles(make_solver(), 6, 1)
    puct, contempt = (
        puzzles.solve(model, puzzles.make_policy(limit, 12), found, 1, 6) for limit in (None, 99)
    )
    np.testing.assert_array_equal(puct.by_search, contempt.by_search)
    assert puct.by_search.shape == (1, 6)
    weights = puzzles.make_policy(2, 12)
    assert isinstance(weights, Contempt)
    assert weights == Contempt(12, 2).for_evaluation()
    assert puzzles.make_policy(None, 12) == AlphaZero(12).for_evaluation()


@pytest.mark.slow
def test_puzzles_benchmark_runs(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    puzzles.main(["--quick", "--json", str(file)])
    found = json.loads(file.read_text())
    assert [(row["limit"], row["keys"]) for row in found["rows"]] == [(None, 1), (2, 2)]
    assert found["rows"][0]["difference"] == 0
    assert 0 < found["random"] <= 1 / 3


@pytest.mark.slow
def test_puzzles_need_connect_four_network(capsys: pytest.CaptureFixture) -> None:
    for arguments, line in [([], "NETWORK is missing"), (["nim"], "nim plays nim; puzzles are of")]:
        with pytest.raises(SystemExit) as stop:
            puzzles.main(arguments)
        assert stop.value.code == 2
        assert line in capsys.readouterr().err


def row_of(algorithm: str, seed: int, iteration: int, network: float, search: float) -> Row:
    return Row(algorithm, seed, iteration, 0, None, network, search, 0.0)


def test_differences_are_paired_by_seed() -> None:
    rows = []
    for seed, gap in enumerate((0.1, 0.2, 0.3)):
        for iteration in (0, 5, 10):
            base = 0.05 * seed + 0.01 * iteration
            more = gap if iteration else 0.0
            rows += [
                row_of("alphazero", seed, iteration, base, 0.5),
                row_of("contempt", seed, iteration, base + more, 0.5),
            ]
    table = contempt_training.summarize(rows)
    titles = ["0", "5", "10", "area"]
    assert [(row["measure"], row["iteration"]) for row in table] == [
        (measure, title) for measure in ("network", "search") for title in titles
    ]
    start, five, _, area = table[:4]
    assert start["difference"] == 0
    # The iteration before training is excluded. t = 4.303 with two degrees of freedom.
    for line in (five, area):
        assert (line["difference"], line["seeds"]) == (0.2, 3)
        assert line["high"] == pytest.approx(0.2 + 4.303 * 0.1 / np.sqrt(3), abs=1e-3)
        assert line["low"] == pytest.approx(0.2 - 4.303 * 0.1 / np.sqrt(3), abs=1e-3)
    assert (area["alphazero"], area["contempt"]) == (0.125, 0.325)
    # Equal differences give no interval.
    assert (table[4]["low"], table[4]["high"]) == (None, None)


SMALL = [
    *("connect2", "--seeds", "0", "--iterations", "2", "--every", "1", "--num-games", "16"),
    *("--simulations", "8", "--limit"),
]


def flat(params: Any) -> np.ndarray:
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(params)])


@pytest.mark.slow
def test_training_with_unreached_limit_equals_alphazero(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_algorithm(rows: list[dict[str, Any]]) -> list[list[Any]]:
        return [
            [{k: row[k] for k in row if k not in ("algorithm", "seconds")} for row in rows[i::3]]
            for i in range(3)
        ]

    make_measure, trained = contempt_training.make_measure, []

    def make_noting(*given: Any) -> contempt_training.MeasureFn:
        measure = make_measure(*given)
        return lambda params: (trained.append(flat(params)), measure(params))[1]

    monkeypatch.setattr(contempt_training, "make_measure", make_noting)
    file = tmp_path / "rows.json"
    contempt_training.main([*SMALL, "99", "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    assert [(row["algorithm"], row["iteration"]) for row in rows] == [
        (name, i) for name in contempt_training.ALGORITHMS for i in range(3)
    ]
    assert [row["positions"] for row in rows] == [0, 128, 256] * 2
    for one, other in by_algorithm(rows):
        assert one == other
    assert rows[0]["network"] != rows[2]["network"]
    # A limit that is reached leads to another network.
    _, options = contempt_training.read_options([*SMALL, "1"])
    config = contempt_training.make_configs(options)["contempt"]
    reached = []

    def measure(params: Any) -> tuple[float, float]:
        reached.append(flat(params))
        return 0.0, 0.0

    assert len([*contempt_training.train("contempt", config, [0], 1, lambda *_: measure)]) == 3
    np.testing.assert_array_equal(reached[0], trained[0])
    assert np.abs(reached[2] - trained[2]).max() > 1e-4


def test_solved_positions_have_a_losing_move() -> None:
    env = contempt_training.games.make("tic_tac_toe")
    states, keeping = contempt_training.find_positions(env, 50)
    legal = np.asarray(states.legal_action_mask)
    assert keeping.shape == (50, 9)
    assert np.all(np.any(legal & ~keeping, axis=1) & np.any(keeping, axis=1))


def test_configs_differ_only_in_search() -> None:
    _, options = contempt_training.read_options(["connect-four", "--limit", "7"])
    one, other = contempt_training.make_configs(options).values()
    assert (one.search, other.search) == (AlphaZero(32), Contempt(32, 7))
    assert one.selfplay == other.selfplay
    assert (one.learner, one.network) == (other.learner, other.network)
    with pytest.raises(SystemExit):
        contempt_training.read_options([])


def test_connect_four_labels_come_from_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([[0, -1, 0, 1, NONE, 0, 0]])
    history = np.full((1, 42), -1, np.int32)
    made = Positions(history, values)
    monkeypatch.setattr("benchmarks.connect_four.make_solver", lambda: None)
    monkeypatch.setattr("benchmarks.connect_four.game_positions", lambda *_: made)
    env = contempt_training.games.make("connect_four")
    states, keeping = contempt_training.find_positions(env, 1)
    assert keeping.tolist() == [[False, False, False, True, False, False, False]]
    assert states.legal_action_mask.shape == (1, 7)
