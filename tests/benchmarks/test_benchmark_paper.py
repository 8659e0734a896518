"""The paper's experiments: algorithms, convergence, report, command, and a run that is resumed."""

import contextlib
import itertools
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks import paper
from benchmarks.paper_report import (
    TABLE_1,
    Curve,
    Outcome,
    authors_score,
    converged,
    costs_of,
    make_curves,
    show_mean,
    write_report,
)
from benchmarks.paper_setup import COMPARISONS, GAMES, QUICK, Size, make_algorithms
from dualmctx.matches import Game
from dualmctx.runs.metrics_file import read_metrics

TINY = [
    *("--games", "nim", "--seeds", "3", "--comparisons", "cost", "--steps", "2"),
    *("--positions", "32", "--num-games", "8", "--batch-size", "16"),
    *("--budgets", "2", "1", "--width", "4", "--num-blocks", "2"),
    *("--openings", "2"),
]


@pytest.mark.parametrize("game", GAMES)
def test_algorithms_have_the_costs_of_the_paper(game: str) -> None:
    made = make_algorithms(GAMES[game], Size())
    assert {name: x.cost.blocks for name, x in made.items()} == {
        "alphazero": 85 * 4,
        "mpv": 50 * 4 + 35 * 6,
        "dual": 50 * 2 + 35 * 4,
        "alphazero-best": 85 * 4,
        "mpv-best": 50 * 4 + 35 * 6,
        "dual-best": 50 * 2 + 35 * 2,
        "alphazero-cost": 42 * 4,
        "alphazero-early": 85 * 2,
    }
    assert {x for x, y in made.items() if y.cost.simulations != 85} == {"alphazero-cost"}
    assert made["alphazero-early"].head_depths == made["dual-best"].head_depths
    dual: Any = made["dual"].policy
    mpv: Any = made["mpv-best"].policy
    assert (dual.num_rounds, mpv.rounds) == (1, ((10, 7),) * 5)


def test_compared_algorithms_use_the_same_function_of_visits() -> None:
    """Otherwise a comparison would measure that function and not only the searches."""
    made = make_algorithms(GAMES["nim"], Size())

    def is_smoothed(name: str) -> bool:
        policy: Any = made[name].policy
        weights = getattr(policy, "action_weights", None)
        assert weights in (None, "large_visits", "small_visits")
        return weights == "large_visits" or policy.root.visit_weights == "smoothed"

    for name, names in COMPARISONS.items():
        assert {is_smoothed(x) for x in names if x in made} == {name == "paper"}


def curve(**changes: Any) -> Curve:
    numbers = (0.0,) * 6
    seconds = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    found = Curve((0, 2, 4, 6, 8, 10), numbers, numbers, numbers, numbers, numbers, (), seconds)
    return found._replace(**changes)


@pytest.mark.parametrize(
    ("rule", "changes", "step"),
    [
        ("alpha-rank", {"leads": (0, 0.95, 1, 0.95, 0, 0)}, 2),
        ("alpha-rank", {"leads": (0, 0.95, 0.94, 0.95, 1, 1)}, 6),
        ("alpha-rank", {"leads": (1, 1, 1, 0, 0, 0)}, None),  # not the untrained one
        ("authors", {"score": (0.9, 0.79, 0.8, 0, 0, 0)}, 4),
        ("authors", {"score": (0.9, 0.79, 0.797, 0, 0, 0)}, None),
        ("level", {"level": (0.5, 0.49, 0.5, 0.5, 0.6, 0)}, 4),
        ("level", {"level": (0.5, 0.5, 0.5, 0.4, 0.5, 0.5)}, 8),
        ("perfect", {"optimal": (0.9, 1, 1, 0.99, 1, 1, 1, 1, 1, 1)}, 5),
        ("perfect", {"optimal": (1, 1, 1, *(0.9,) * 7)}, 1),
        ("perfect", {"optimal": ()}, None),
        ("threshold", {"optimal": (0.5, 0.94, *(0.9,) * 8)}, None),
        ("threshold", {"optimal": ()}, None),
        ("threshold", {"optimal": (0.95, *(0.5,) * 9)}, 1),
        ("threshold", {"optimal": (0.5, 0.6, 0.9, 1, *(0.5,) * 6)}, 3.5),
    ],
)
def test_rules_of_convergence(rule: str, changes: dict[str, Any], step: float | None) -> None:
    expected = None if step is None else pytest.approx((step, 10 * step))
    assert converged(curve(**changes), rule) == expected


def test_the_authors_threshold() -> None:
    assert authors_score(0.5) == pytest.approx(0.25)
    assert authors_score(0.7976) < 0.9 < authors_score(0.7977)


@pytest.mark.parametrize(
    ("values", "is_ratio", "shown"),
    [
        # Mean 4, standard error 2 / √3, and 4.3027 of Student's t with 2 degrees of freedom.
        ([2.0, 4.0, 6.0], False, "4.00 [−0.968, 8.97]"),
        ([0.8, 0.81, 0.82], True, "0.810 [0.785, 0.835]"),
        ([-36.5, None, -105.8], False, "−71.2 [−106, −36.5] (2 of 3 seeds)"),
        ([0.5, 2.0], True, "1.00 [0.500, 2.00]"),
        ([0.5, 0.5, 0.5], False, "0.500"),
        ([None, None], True, "–"),
    ],
)
def test_means_show_how_much_seeds_vary(values: Any, is_ratio: bool, shown: str) -> None:
    assert show_mean(values, is_ratio=is_ratio) == shown


def played(strength: dict[str, tuple[int, ...]]) -> Iterator[Game]:
    """Yields two pairs of games between each two checkpoints; the stronger one always wins."""
    players = [(f"{x} {step}", y[i]) for x, y in strength.items() for i, step in enumerate((0, 2))]
    for (one, own), (other, others) in itertools.combinations(players, 2):
        result = int(np.sign(own - others))
        for pair in range(2):
            game = Game((one, other), pair, 0, 0, (0,), result, True, (1, 0))
            yield from (game, game._replace(players=(other, one), result=-result))


def test_the_report_shows_the_games_and_the_numbers_of_the_paper(tmp_path: pathlib.Path) -> None:
    rows = [
        {"seconds": 2.0 * step, "selfplay_seconds": 1.5, "learn_seconds": 0.5} for step in (1, 2)
    ]
    factors = {"alphazero": 2.0, "mpv": 4.0, "dual": 1.0}
    scaled = {x: [{k: y * v for k, v in row.items()} for row in rows] for x, y in factors.items()}
    games = list(played({"alphazero": (0, 3), "mpv": (0, 2), "dual": (0, 4)}))
    curves = make_curves(games, (0, 2), scaled)
    assert curves["dual"].leads == (0.0, 1.0)
    assert curves["dual"].mass == pytest.approx((1 / 3, 1), abs=1e-3)
    assert (curves["dual"].score, curves["mpv"].score) == ((0.5, 1.0),) * 2
    assert [x.level for x in curves.values()] == [(0.0, 0.5), (0.0, 0.0), (0.0, 1.0)]
    # The strongest checkpoint has only wins after the start, so its Elo has no bound.
    assert (curves["alphazero"].elo[-1], curves["dual"].elo[-1]) == (0, None)
    algorithms = make_algorithms(GAMES["connect-four"], Size())
    outcomes = {x: Outcome(algorithms[x].cost, [scaled[x]], [curves[x]]) for x in scaled}
    write_report(tmp_path / "report.md", "connect-four", "once", {"paper": outcomes})
    lines = (tmp_path / "report.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    (means, ratios), tables = ({}, {}), [x for x in cells if x[0] != "---"]
    for row in tables:
        (means if len(row) == 4 else ratios).setdefault(row[0], row[1:])
    assert means["blocks per move"] == ["340", "410", "240"]
    assert means["time per step"] == ["4.00", "8.00", "2.00"]
    assert means["time per step, paper"] == ["18.7", "24.6", "15.3"]
    assert means["points against untrained networks"] == ["1.00"] * 3
    assert means["optimal moves"] == ["–"] * 3
    assert ratios["quantity"] == ["dual / alphazero", "dual / mpv"]
    assert ratios["time per step"] == ["0.500", "0.250"]
    assert ratios["blocks per move"] == ["0.706", "0.585"]
    assert ratios["time to converge, paper"] == ["0.756", "0.747"]
    assert ratios["steps to converge, level"] == ["1.00", "–"]
    assert ratios["time to converge, level"] == ["0.500", "–"]
    assert all(len(x) in (3, 4) for x in tables)


def test_only_the_setting_of_the_paper_has_its_numbers() -> None:
    for game, table in TABLE_1.items():
        found = make_algorithms(GAMES[game], Size())
        assert table.keys() == {*COMPARISONS["paper"]} <= found.keys()
    outcome = Outcome(found["dual"].cost, [], [])
    assert not any("paper" in x for x in costs_of(outcome, None))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--positions", "100"], "positions is 100; it must be a multiple of num_games (128)"),
        (["--steps", "0"], "steps is 0; it must be at least 1"),
        (["--seeds", "-1"], "seed is -1"),
        (["--games", "nim", "--budgets", "0", "2"], "num_simulations"),
        (["--games", "nim", "--openings", "100"], "openings"),
    ],
)
def test_bad_input_gives_one_message_and_no_folder(
    flags: list[str], message: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        paper.main(["--out", str(tmp_path / "new"), *flags])
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_quick_size_has_two_games_and_flags_change_it() -> None:
    _, options = paper.read_options(["--quick", "--width", "16", "--seeds", "2", "2"])
    found = paper.plan(options)
    assert [x.game for x in found] == ["nim", "connect-four"]
    assert {x[1:4] for x in found} == {(QUICK._replace(width=16), (2,), ("paper",))}


@contextlib.contextmanager
def stopping() -> Iterator[Any]:
    """Raises KeyboardInterrupt after three of four training steps."""

    def show(what: str, done: int, total: int) -> None:
        assert (what, total) == ("training steps", 4)
        if done == 3:
            raise KeyboardInterrupt

    yield show


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if "second" not in k} for row in rows]


def evaluate(params: Any, rng_key: Any) -> dict[str, float]:
    """Stands for the evals, which would be compiled: a number that depends on the key alone."""
    return {"path/search_optimal": float(rng_key[-1] % 7) / 7}


@pytest.mark.slow
@pytest.mark.usefixtures("shared_programs")
def test_a_stopped_run_continues_to_the_same_result(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = ["--out", str(tmp_path / "a")], ["--out", str(tmp_path / "b")]
    programs = paper.make_programs
    monkeypatch.setattr(paper, "make_programs", lambda run: (programs(run)[0], (evaluate,)))
    paper.main([*TINY, *whole, "--json", str(tmp_path / "a.json")])
    with monkeypatch.context() as patch:
        patch.setattr(paper, "showing", stopping)
        with pytest.raises(SystemExit, match=r"^130$"):
            paper.main([*TINY, *stopped])
    assert "the same command continues" in capsys.readouterr().err
    assert not (tmp_path / "b" / "nim" / "report.md").exists()
    paper.main([*TINY, *stopped])
    folders = [tmp_path / x / "nim" for x in "ab"]
    games = [(x / "matches" / "seed-3" / "games.jsonl").read_bytes() for x in folders]
    # 4 checkpoints, 2 openings, both sides.
    assert games[0] == games[1]
    assert games[0].count(b"\n") == 6 * 2 * 2
    for name in COMPARISONS["cost"]:
        rows = [read_metrics(x / name / "seed-3" / "metrics.jsonl") for x in folders]
        assert untimed(rows[0]) == untimed(rows[1])
        # Two batches of 16 in the buffer, then four.
        assert [row["replay_ratio"] for row in rows[0]] == [1.0, 2.0]
    [row, _] = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert (row["comparison"], row["algorithm"]) == ("cost", "alphazero-cost")
    assert "dual-best / alphazero-cost" in (folders[1] / "report.md").read_text()
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"^2$"):
        paper.main([*TINY, *stopped, "--width", "8"])
    assert "network.width (4 → 8)" in capsys.readouterr().err
