"""The experiments of the paper: training steps, pairings, convergence, report and command."""

import contextlib
import dataclasses
import html.parser
import itertools
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from damages import halved, in_all, line_changed, newest_checkpoint
from dualmctx.commands import main, reproduce
from dualmctx.errors import UserError
from dualmctx.matches.game_file import Game, append_games, reopen_games
from dualmctx.matches.tournament_folder import GAMES as GAMES_FILE
from dualmctx.policies import AlphaZero
from dualmctx.reproduction import runs as runs_module
from dualmctx.reproduction.cells import is_wide, show, show_ratio
from dualmctx.reproduction.chance import chance_of_level
from dualmctx.reproduction.convergence import (
    RULES,
    CheckpointScores,
    authors_score,
    converged,
    first_in_a_row,
)
from dualmctx.reproduction.equal_seconds import find_equal, interpolate
from dualmctx.reproduction.estimates import estimate, estimate_ratio
from dualmctx.reproduction.experiments import (
    COMPARISONS,
    GAMES,
    Algorithm,
    make_algorithms,
)
from dualmctx.reproduction.figures import draw_curves
from dualmctx.reproduction.matches import Curve, checkpoint_name, pair_up, read_curves
from dualmctx.reproduction.paper import TABLE_1, published_ratio
from dualmctx.reproduction.plan import Experiment
from dualmctx.reproduction.report import describe_latest, write_report
from dualmctx.reproduction.runs import Run, compile_programs, is_done, load_step, open_run, train
from dualmctx.reproduction.size import QUICK, Size
from dualmctx.reproduction.stages import ShowFn
from dualmctx.reproduction.summary import Outcome, refresh, summarize
from dualmctx.reproduction.tables import strength
from dualmctx.reproduction.training_setup import TrainingSetup, compile_step, make_setup
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.runs.network_record import describe_network

TINY = Size(
    steps=3,
    positions=32,
    num_games=8,
    batch_size=16,
    buffer_steps=2,
    budgets=(3, 2),
    width=4,
    num_blocks=2,
    evaluate_every=2,
    openings=2,
    resamples=10,
)


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]


def arrays(path: Path, step: int) -> list[np.ndarray]:
    return jax.tree.leaves(load_step(path, step).params)


# Training steps.


@pytest.fixture(scope="module")
def setup() -> TrainingSetup:
    return make_setup("alphazero", Algorithm(AlphaZero(2), (2,)), GAMES["nim"], TINY)


@pytest.fixture(scope="module")
def program(setup: TrainingSetup) -> Any:
    return compile_step(setup, setup.trainer.init(0))


def train_some(
    setup: TrainingSetup, program: Any, folder: Path, steps: int, number: int | None = None
) -> list[Run]:
    """Trains two runs up to a step, or `number` steps in all; yields them after each step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_module, "compile_step", lambda setup, state: program)
        patch.setattr(runs_module, "make_eval", lambda setup: None)
        made = [open_run(setup, seed, folder / str(seed), pytest.fail) for seed in (5, 6)]
        return list(itertools.islice(train(made, compile_programs(made, steps), steps), number))


@pytest.fixture(scope="module")
def whole(
    setup: TrainingSetup, program: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Run]]:
    folder = tmp_path_factory.mktemp("whole")
    return folder, train_some(setup, program, folder, 3)


@pytest.mark.slow
def test_a_step_plays_new_positions_and_learns_the_whole_buffer(whole: Any) -> None:
    _, stepped = whole
    assert [(x.step, x.seed) for x in stepped] == list(itertools.product((1, 2, 3), (5, 6)))
    last = stepped[-1]
    assert [row["positions"] for row in last.rows] == [32, 32, 32]
    # Batches of 16 in a buffer of 32, 64 and, as it is full, 64 positions.
    assert [row["updates"] for row in last.rows] == [2, 4, 4]
    counts = [x for x in jax.tree.leaves(last.state.opt_state) if x.ndim == 0]
    assert counts
    assert {int(x) for x in counts} == {10}
    buffer = last.state.buffer_state
    assert buffer.is_full
    assert jax.tree.leaves(buffer.experience)[0].shape[:2] == (8, 8)
    for row in last.rows:
        assert row["seconds"] == row["selfplay_seconds"] + row["learn_seconds"]
        assert min(row["selfplay_seconds"], row["learn_seconds"]) > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stops", [(1,), (3, 1)])
def test_a_resumed_run_equals_an_uninterrupted_one(
    stops: tuple[int, ...], whole: Any, setup: TrainingSetup, program: Any, tmp_path: Path
) -> None:
    for number in stops:
        train_some(setup, program, tmp_path, 3, number)
    assert not is_done(setup, tmp_path / "6")
    stepped = train_some(setup, program, tmp_path, 3)
    # Runs that are behind continue first.
    assert [(x.seed, x.step) for x in stepped] == [(x.seed, x.step) for x in whole[1][sum(stops) :]]
    for seed, run in zip((5, 6), stepped[-2:], strict=True):
        assert is_done(setup, tmp_path / str(seed))
        assert untimed(run.rows) == untimed(whole[1][-2:][seed - 5].rows)
        for step in range(4):
            expected = arrays(whole[0] / str(seed), step)
            for found, wanted in zip(arrays(tmp_path / str(seed), step), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


def test_another_run_is_refused(whole: Any, setup: TrainingSetup) -> None:
    with pytest.raises(ValueError, match=r"another configuration: seed \(5 → 7\)"):
        open_run(setup, 7, whole[0] / "5", pytest.fail)


def test_a_damaged_checkpoint_is_named_and_moved_aside(
    whole: Any, setup: TrainingSetup, tmp_path: Path
) -> None:
    out, said = tmp_path / "5", []
    shutil.copytree(whole[0] / "5", out)
    in_all(halved)(newest_checkpoint(out))
    run = open_run(setup, 5, out, said.append)
    assert (run.step, run.checkpoints.latest()) == (2, 2)
    assert run.rows == whole[1][-2].rows[:2]
    assert said[0].startswith("the checkpoint of iteration 3 is damaged (")
    assert "was moved to" in said[0]
    assert "rows after iteration 2 were removed" in said[1]


def test_a_run_with_lost_rows_is_refused(whole: Any, setup: TrainingSetup, tmp_path: Path) -> None:
    out = tmp_path / "5"
    shutil.copytree(whole[0] / "5", out)
    halved(out / "metrics.jsonl")
    with pytest.raises(UserError, match=r"metrics.jsonl has 1 rows; there must be at least 3"):
        open_run(setup, 5, out, pytest.fail)
    assert not is_done(setup, out)
    line_changed(1, b"{}\n")(out / "metrics.jsonl")
    with pytest.raises(UserError, match=r"metrics.jsonl, line 1 is damaged"):
        is_done(setup, out)


def test_a_run_records_every_field_of_its_network(setup: TrainingSetup, tmp_path: Path) -> None:
    file = setup.open_folder(5, tmp_path / "run").path / "config.json"
    saved = json.loads(file.read_text())
    assert saved["architecture"] == describe_network(setup.network)
    assert setup.open_folder(5, tmp_path / "run").path == tmp_path / "run"
    saved["architecture"] = describe_network(setup.network.clone(width=8))
    file.write_text(json.dumps(saved))
    with pytest.raises(ValueError, match=r"architecture.fields.width \(8 → 4\)"):
        setup.open_folder(5, tmp_path / "run")


# Algorithms and pairings.


@pytest.mark.parametrize("game", GAMES)
def test_algorithms_have_the_costs_of_the_paper(game: str) -> None:
    made = make_algorithms(GAMES[game], Size())
    costs = {name: x.cost for name, x in made.items()}
    assert {name: x.blocks for name, x in costs.items()} == {
        "alphazero": 85 * 4,
        "mpv": 50 * 4 + 35 * 6,
        "dual": 50 * 2 + 35 * 4,
        "alphazero-best": 85 * 4,
        "mpv-best": 50 * 4 + 35 * 6,
        "dual-best": 50 * 2 + 35 * 2,
        "alphazero-cost": 42 * 4,
        "alphazero-early": 85 * 2,
    }
    assert {name for name, x in costs.items() if x.simulations != 85} == {"alphazero-cost"}
    dual: Any = made["dual"].policy
    mpv: Any = made["mpv-best"].policy
    assert dual.backup.window == {"hsr": 3, "nim": 2, "connect-four": 15}[game]
    assert (dual.num_rounds, mpv.rounds) == (1, ((10, 7),) * 5)


def test_compared_algorithms_use_the_same_function_of_visits() -> None:
    """Otherwise a comparison would measure that function and not only the searches."""
    made = make_algorithms(GAMES["nim"], Size())

    def is_smoothed(name: str) -> bool:
        policy: Any = made[name].policy
        weights = getattr(policy, "action_weights", None)
        assert weights in (None, "large_visits", "small_visits")
        return weights == "large_visits" or policy.root.visit_weights == "smoothed"

    for name, comparison in COMPARISONS.items():
        compared = [x for x in comparison.algorithms if x in made]
        assert {is_smoothed(x) for x in compared} == {name == "paper"}


def test_the_control_by_the_early_head_has_the_network_of_dual() -> None:
    made = make_algorithms(GAMES["nim"], Size())
    early = made["alphazero-early"]
    assert early.depths == made["dual-best"].depths == (2, 4)
    assert early.policy.heads == (0,)
    network = make_setup("alphazero-early", early, GAMES["nim"], TINY).network
    assert len(network.head_depths) == 2


def test_only_algorithms_of_the_same_comparison_meet() -> None:
    names = [name for name in ("dual", "dual-best", "mpv", "alphazero-cost") for _ in range(2)]
    met = pair_up(names, COMPARISONS.values())
    expected = {
        (i, j)
        for i, j in itertools.combinations(range(8), 2)
        if names[i] == names[j]
        or {names[i], names[j]} in ({"dual", "mpv"}, {"dual-best", names[7]})
    }
    assert set(met) == expected
    assert len(met) == len(expected)


@pytest.mark.parametrize(
    ("dual", "expected"),
    [(0.2, 20), (0.5, 50), (0.254, 25), (0.01, 1), (1000.0, 160)],
)
def test_equal_seconds_interpolate_two_measurements(dual: float, expected: int) -> None:
    assert interpolate((40, 80), (0.4, 0.8), dual) == expected


def test_equal_seconds_fall_back_to_the_smaller_budget() -> None:
    assert interpolate((40, 80), (0.4, 0.3), 0.2) == 40


def test_equal_seconds_use_the_means_of_whole_runs() -> None:
    seconds = {"alphazero-cost": (1.0, 3.0), "alphazero-best": (4.0, 4.3)}
    seconds["dual-best"] = (3.0, 3.15)
    rows = {name: [{"selfplay_seconds": x} for x in runs] for name, runs in seconds.items()}
    found = find_equal(make_algorithms(GAMES["nim"], Size()), rows)
    assert found.simulations == 42 + round(43 * (3.075 - 2) / (4.15 - 2))
    assert (found.dual, *found.seconds) == pytest.approx((3.075, 2.0, 4.15))
    assert found.budgets == (42, 85)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": 100}, "positions is 100; it must be a multiple of num_games"),
        ({"steps": 0}, "steps is 0"),
        ({"num_blocks": 1}, "num_blocks is 1; Dual needs at least 2"),
        ({"openings": 0}, "openings is 0"),
        ({"width": 0}, "width is 0"),
    ],
)
def test_bad_sizes_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Size(), **changes)


def test_the_first_and_the_last_step_are_evaluated() -> None:
    assert TINY.evaluated == (0, 2, 3)


# Convergence.

YES, NO = True, False


@pytest.mark.parametrize(
    ("flags", "number", "expected"),
    [
        ([], 1, None),
        ([NO, YES], 1, 1),
        ([YES, YES, NO, YES, YES, YES, YES], 3, 3),
        ([YES, YES, NO, YES, YES], 3, None),
        ([YES, YES, YES], 3, 0),
    ],
)
def test_first_in_a_row(flags: list[bool], number: int, expected: int | None) -> None:
    assert first_in_a_row(flags, number) == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([NO, YES, NO], None),
        ([NO, YES, YES], 1),
        ([YES, YES, YES, NO, YES], 0),
        ([NO, NO, YES], 2),
        ([], None),
    ],
)
def test_first_in_a_row_or_to_the_end(flags: list[bool], expected: int | None) -> None:
    assert first_in_a_row(flags, 3, or_to_the_end=True) == expected


def test_the_authors_threshold() -> None:
    assert authors_score(0.5) == pytest.approx(0.25)
    assert authors_score(0.7976) < 0.9 < authors_score(0.7977)


def evaluated(**changes: Any) -> CheckpointScores:
    numbers = (0.0,) * 6
    found = CheckpointScores(
        steps=(0, 2, 4, 6, 8, 10),
        leads=numbers,
        score=numbers,
        level=numbers,
        optimal=(),
        trained=(10, 20, 30, 40, 50, 60, 70, 80, 90, 100),
    )
    return found._replace(**changes)


@pytest.mark.parametrize(
    ("rule", "changes", "step"),
    [
        ("alpha-rank", {"leads": (0, 0.95, 1, 0.95, 0, 0)}, 2),
        ("alpha-rank", {"leads": (0, 0.95, 0.94, 0.95, 1, 1)}, 6),
        ("alpha-rank", {"leads": (1, 1, 1, 0, 0, 0)}, None),  # not the untrained one
        ("alpha-rank", {"leads": (0, 0, 0, 0, 1, 1)}, None),
        ("authors", {"score": (0.9, 0.79, 0.8, 0, 0, 0)}, 4),
        ("authors", {"score": (0.9, 0.79, 0.797, 0, 0, 0)}, None),
        ("level", {"level": (0.5, 0.49, 0.5, 0.5, 0.6, 0)}, 4),
        ("level", {"level": (0.5, 0.5, 0.5, 0.4, 0.5, 0.5)}, 8),
        ("level", {"level": (0.5, 0.5, 0.5, 0.4, 0.5, 0.4)}, None),
        ("perfect", {"optimal": (0.9, 1, 1, 0.99, 1, 1, 1, 1, 1, 1)}, 5),
        ("perfect", {"optimal": (0.9,) * 8 + (1, 1)}, None),
        ("perfect", {"optimal": ()}, None),
        ("threshold", {"optimal": (0.5, 0.94, *(0.9,) * 8)}, None),
        ("threshold", {"optimal": ()}, None),
        ("threshold", {"optimal": (0.95, *(0.5,) * 9)}, 1),
        ("threshold", {"optimal": (0.5, 0.6, 0.9, 1, *(0.5,) * 6)}, 3.5),
    ],
)
def test_rules_of_convergence(rule: str, changes: dict[str, Any], step: int | None) -> None:
    expected = None if step is None else pytest.approx((step, 10 * step))
    assert converged(evaluated(**changes), rule) == expected


def test_the_chance_of_level_equals_exact_enumeration() -> None:
    """At least two of four games are won with probability 11 / 16; a score of 0 wins none."""
    half = 11 / 16
    found = chance_of_level(evaluated(level=(0.5, 0, 0, 0, 0, 0.1)), 2)
    assert found.steps == (2, 4, 6, 8, 10)
    assert found.at == pytest.approx((0, 0, 0, 0, half), abs=0.01)
    # If the reference does not improve, three in a row are possible by chance.
    even = chance_of_level(evaluated(level=(0,) + (0.5,) * 5), 2)
    runs = [
        first_in_a_row(flags, 3, or_to_the_end=True)
        for flags in itertools.product((False, True), repeat=5)
    ]
    weights = [
        np.prod(np.where(flags, half, 1 - half))
        for flags in itertools.product((False, True), repeat=5)
    ]
    expected = [sum(w for x, w in zip(runs, weights, strict=True) if x == i) for i in range(5)]
    assert even.at == pytest.approx(expected, abs=0.015)
    assert even.met == pytest.approx(sum(expected), abs=0.015)


@pytest.mark.parametrize(
    ("values", "seeds", "shown"),
    [
        ([0.5], 2, "0.50 (1 of 2 seeds)"),
        ([1.0, 1.0], 2, "equal (2 of 2 seeds)"),
        ([0.5, 2.0], 2, "1.00 from 0.50 to 2.00 (2 of 2 seeds)"),
        ([0.5, 2.1], 2, "not resolved (2 of 2 seeds)"),
        ([0.8, 0.81, 0.82], 0, "0.81 [0.79, 0.84]"),
        ([0.8, 0.81, 0.82], 4, "0.81 [0.79, 0.84] (3 of 4 seeds)"),
    ],
)
def test_ratios_show_their_seeds_and_whether_they_are_resolved(
    values: list[float], seeds: int, shown: str
) -> None:
    found = estimate_ratio(values)
    assert found is not None
    assert show_ratio(found._asdict(), seeds) == shown


def test_an_earlier_report_gets_the_current_rules(curves: dict[str, Curve]) -> None:
    algorithms = make_algorithms(GAMES["nim"], Size())
    outcomes = {name: {0: Outcome(SEED_ROWS, curve)} for name, curve in curves.items()}
    summary = summarize("nim", COMPARISONS["paper"], algorithms, outcomes)
    earlier = json.loads(json.dumps(summary))
    for found in earlier["algorithms"].values():
        del found["converged"]["threshold"]
    for found in earlier["ratios"].values():
        del found["steps"], found["total"]["threshold"]
    assert json.dumps(refresh(earlier), sort_keys=True) == json.dumps(
        json.loads(json.dumps(summary)), sort_keys=True
    )


def test_wide_intervals_are_shown_as_not_resolved() -> None:
    """Three seeds with an Elo of -71 [-309, 167], and 0.42 [0, 1] of the points."""
    elo, points = estimate([-180, 0.0, -33]), estimate([0.1, 0.45, 0.7], (0.0, 1.0))
    narrow = estimate([-71.0, -70.0, -71.0])
    assert elo is not None
    assert points is not None
    assert narrow is not None
    columns = dict.fromkeys(("elo", "first", "second", "level", "score", "optimal"))
    last = {
        "wide": columns | {"elo": elo._asdict(), "level": points._asdict()},
        "narrow": columns | {"elo": narrow._asdict(), "level": points._asdict()},
    }
    summary = {"seeds": [0, 1, 2], "algorithms": {name: {"last": x} for name, x in last.items()}}
    assert strength(summary).rows == [
        ("wide", "not resolved", "not resolved"),
        ("narrow", "−71 [−72, −69]", "not resolved"),
    ]


def test_two_seeds_have_a_range_and_no_interval() -> None:
    elo, ratio = estimate([-36.5, -105.8]), estimate_ratio([0.8, 0.9])
    assert elo is not None
    assert ratio is not None
    assert (elo.low, elo.high, ratio.low, ratio.high) == (None,) * 4
    assert show(elo._asdict(), 2, 0) == "−71 from −106 to −36"
    assert not is_wide(elo._asdict(), 400)
    assert is_wide(elo._asdict(), 69)
    # As in a report of an earlier version.
    assert show(elo._asdict() | {"low": -511.0, "high": 369.0}, 2, 0) == "−71 from −106 to −36"
    assert show_ratio(ratio._asdict()) == "0.85 from 0.80 to 0.90"


# Curves, summaries and reports.

SEED_ROWS = [{"seconds": 2.0, "selfplay_seconds": 1.5, "learn_seconds": 0.5}] * 3
STRENGTH = {"alphazero": (0, 1, 4), "mpv": (0, 1, 2), "dual": (0, 3, 5)}


def write_games(folder: Path) -> None:
    """Writes two pairs of games between each two checkpoints; the stronger one always wins."""
    players = [(n, s, STRENGTH[n][i]) for n in STRENGTH for i, s in enumerate(TINY.evaluated)]
    journal, _ = reopen_games(folder / GAMES_FILE)
    for one, other in itertools.combinations(players, 2):
        names = checkpoint_name(*one[:2]), checkpoint_name(*other[:2])
        result = int(np.sign(one[2] - other[2]))
        for pair in range(2):
            game = Game(names, pair, 0, 0, (0,), result, True, (1, 0))
            other_side = game._replace(players=names[::-1], result=-result)
            append_games(journal, [game, other_side])


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Curve]:
    folder = tmp_path_factory.mktemp("games")
    write_games(folder)
    rows = dict.fromkeys(STRENGTH, SEED_ROWS)
    return read_curves(folder, GAMES["nim"], COMPARISONS["paper"], TINY, rows)


def test_curves_if_the_stronger_checkpoint_always_wins(curves: dict[str, Curve]) -> None:
    dual, alphazero = curves["dual"].found, curves["alphazero"].found
    # All draw at first; then the newest checkpoint of Dual beats all earlier ones.
    assert dual.leads == (0.0, 1.0, 1.0)
    assert alphazero.leads == (0.0, 0.0, 0.0)
    assert curves["dual"].mass == pytest.approx((1 / 3, 1, 1), abs=1e-3)
    assert dual.score == alphazero.score == (0.5, 1.0, 1.0)
    assert dual.level == (0.0, 0.0, 1.0)
    assert alphazero.level == (0.0, 0.0, 0.5)
    assert dual.optimal == ()
    assert dual.trained == (2.0, 4.0, 6.0)
    # A checkpoint that only lost to stronger ones and only beat weaker ones has no bound.
    assert curves["dual"].elo[-1] is None
    assert curves["alphazero"].elo[-1] == 0
    assert curves["dual"].first == curves["dual"].second == ()


def test_sides_with_different_tasks_are_rated_separately(tmp_path: Path) -> None:
    """The first side wins three of four games, whichever the players: 190.8 Elo."""
    comparison, size = COMPARISONS["cost"], dataclasses.replace(TINY, steps=1, evaluate_every=1)
    names = [checkpoint_name(x, step) for x in comparison.algorithms for step in size.evaluated]
    journal, _ = reopen_games(tmp_path / GAMES_FILE)
    for one, other in itertools.combinations(names, 2):
        for pair in range(40):
            game = Game((one, other), pair, 0, 0, (0,), 1 if pair % 4 else -1, True, (1, 0))
            append_games(journal, [game, game._replace(players=(other, one))])
    rows = dict.fromkeys(comparison.algorithms, SEED_ROWS)
    found = read_curves(tmp_path, GAMES["hsr"], comparison, size, rows)
    for curve in found.values():
        assert curve.elo == pytest.approx((0, 0), abs=1e-6)
        assert curve.first == pytest.approx((0, 0), abs=1e-6)
        assert curve.second == pytest.approx((-190.8,) * 2, abs=0.5)


def test_ratios_to_the_paper() -> None:
    ratios = {
        game: [round(published_ratio(game, x, y), 2) for x in ("step", "total") for y in others]
        for game, others in ((game, ("alphazero", "mpv")) for game in TABLE_1)
    }
    assert ratios == {
        "hsr": [0.90, 0.68, 0.90, 0.77],
        "nim": [0.92, 0.67, 0.92, 0.78],
        "connect-four": [0.82, 0.62, 0.76, 0.75],
    }


def test_estimates() -> None:
    """By hand: mean 4, standard error 2 / √3, and 4.3027 of Student's t with 2 degrees."""
    found = estimate([2.0, 4.0, 6.0])
    assert found is not None
    half = 4.302653 * 2 / 3**0.5
    assert found[:3] == pytest.approx((4, 4 - half, 4 + half))
    assert estimate([2.0, 4.0, 6.0], (3.0, 5.0))[:3] == (4, 3, 5)
    assert estimate([3.0]) == (3.0, None, None, (3.0,))
    # Equal values do not show how much the next one may differ.
    assert estimate([0.5, 0.5, 0.5]) == (0.5, None, None, (0.5, 0.5, 0.5))
    assert show(estimate([-1e-12] * 2)._asdict()) == "0.00"
    assert estimate([]) is estimate_ratio([]) is None
    ratio = estimate_ratio([0.5, 1.0, 2.0])
    assert ratio is not None
    assert ratio.mean == pytest.approx(1)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low * ratio.high == pytest.approx(1)


class Cells(html.parser.HTMLParser):
    """Collects the cells of all tables and the URLs that the page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.sources: list[str] = []
        self.is_cell = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.is_cell = tag in ("td", "th")
        self.cells += [""] * self.is_cell
        self.sources += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self.is_cell:
            self.cells[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.is_cell = False


def test_the_report_has_every_cell(curves: dict[str, Curve], tmp_path: Path) -> None:
    algorithms = make_algorithms(GAMES["connect-four"], Size())
    outcomes = {
        name: {seed: Outcome([{k: factor * v for k, v in x.items()} for x in SEED_ROWS], curve)}
        for (name, curve), factor in zip(curves.items(), (2.0, 4.0, 1.0), strict=True)
        for seed in (0,)
    }
    summary = summarize("connect-four", COMPARISONS["paper"], algorithms, outcomes)
    report = {
        "size": {"steps": 3},
        "sessions": {
            "connect-four": [{"command": "dualmctx reproduce", "machine": {"device": "cpu"}}],
            "nim": [
                {"command": "dualmctx reproduce", "machine": {"device": "cpu"}},
                {"command": "dualmctx reproduce", "machine": {"device": "gpu"}},
            ],
        },
        "games": {"connect-four": {"paper": summary}},
        "notes": ["Once more."],
    }
    files = write_report(report, tmp_path)
    assert [x.name for x in files] == ["report.json", "report.md", "report.html"]
    saved = json.loads(files[0].read_text())
    found = saved["games"]["connect-four"]["paper"]
    assert found["algorithms"]["dual"]["converged"]["authors"] == {"0": {"step": 2, "seconds": 4.0}}
    page = Cells()
    page.feed(files[2].read_text())
    assert all(cell.strip() for cell in page.cells)
    assert [x.split(",")[0] for x in page.sources] == ["data:image/png;base64"]
    assert "http" not in files[2].read_text()
    markdown = files[1].read_text()
    assert (
        "A step of dual takes 0.25 times as long as a step of mpv: self-play takes 0.25 times as "
        "long, with 0.59 times the blocks of the network per move, and learning 0.25 times as "
        "long. Learning is 25% of a step of mpv and 25% of a step of dual."
    ) in markdown
    rows = [line.strip("| ").split(" | ") for line in markdown.splitlines() if line[:1] == "|"]
    written = {row[0]: row[1:] for row in rows}
    assert written["time per step"] == ["0.50", "0.25"]
    assert written["time per step, paper"] == ["0.82", "0.62"]
    assert written["time per step, aim"] == ["≤ 0.55", "≤ 0.45"]
    assert written["time to converge, paper"] == ["0.76", "0.75"]
    assert written["blocks per move"] == ["0.71", "0.59"]
    assert {
        f"{x} to converge, {rule}" for rule in RULES for x in ("time", "steps")
    } <= written.keys()
    assert written["time to converge, level"] == ["equal (1 of 1 seeds)", "–"]
    assert written["steps to converge, level"] == ["equal (1 of 1 seeds)", "–"]
    assert (
        "By the rule level, dual converged in 1 of 1 seeds. By chance alone, an algorithm "
        "identical to alphazero meets the rule in 60% of runs (8 pairs of games per evaluation), "
        "100% of these at the last evaluation. It meets the rule in at least 1 of 1 seeds with "
        "probability 0.60.\n\n"
        "dual and alphazero converged by the rule level at equal steps (1 of 1 seeds), so the "
        "ratio of their times, 1.00, is the ratio of their step times.\n"
    ) in markdown
    assert markdown.startswith("# Dual MCTS, reproduced\n\nOnce more.\n")
    tables = [row for row in rows if row[0] == "dual"]
    assert tables[0] == ["dual", "85", "240", "2.00", "1.50", "0.50", "15.32"]
    assert tables[1] == ["dual", "–", "2; 4.0", "3; 6.0", "–", "–", "12; 183.84"]
    # Elo is unbounded after only wins; columns for optimal moves and sides do not apply.
    assert tables[2] == ["dual", "–", "1.00", "1.00"]
    assert "after steps 0, 2, 3; there are never 3 in a row after the start." in markdown
    assert (
        "Command (connect-four, nim): dualmctx reproduce. Machine: device cpu.\n\n"
        "Command (nim): dualmctx reproduce. Machine: device gpu.\n"
    ) in markdown
    assert "Seeds: 0." in markdown
    assert (tmp_path / "figures" / "connect-four-paper.png").stat().st_size > 1000
    assert set(page.cells) >= {cell for row in rows for cell in row if cell != "---"}


def test_the_report_states_the_latest_start_of_three_in_a_row() -> None:
    assert describe_latest((0, 2, 4, 6, 8)) == "3 in a row begin at step 4 at the latest"
    assert describe_latest((0, 1, 2)).startswith("there are never 3")


def curve_of(elo: list, low: list, high: list, level: list) -> dict[str, Any]:
    trained = [1.0, 3.0, 6.0, 10.0]
    found = {"steps": [0, 2, 4], "optimal": [], "level": level, "trained": trained}
    return {"elo": elo, "low": low, "high": high, "mass": [0.0, 0.5, 1.0], "found": found}


def test_figures_show_the_numbers() -> None:
    """The mean has a gap where the Elo of a seed is unbounded; its band extends to the edge."""
    one = curve_of([-300, -100, 0], [-400, -150, -10], [-200, -50, 10], [0, 0.25, 0.5])
    other = curve_of([None, -200, 20], [None, -250, 10], [-100, -150, 30], [0, 0.75, 0.5])
    found = {"curves": {"0": one, "1": other}, "paper": {"steps": 3}}
    figure = draw_curves({"algorithms": {"alphazero": found}}, "title")
    elo, mass, play, *over_time = figure.axes
    thick = {axes: axes.lines[2].get_ydata() for axes in figure.axes}
    for axes, same in zip(over_time, (elo, mass, play), strict=True):
        np.testing.assert_array_equal(axes.lines[2].get_ydata(), thick[same])
        assert [*axes.lines[2].get_xdata()] == [0, 3, 10]
        assert (axes.get_xlabel(), same.get_xlabel()) == ("seconds of training", "step")
        assert axes.get_ylim() == same.get_ylim()
    assert mass.get_ylim() == play.get_ylim() == (-0.02, 1.02)
    np.testing.assert_array_equal(thick[elo], [np.nan, -150, 10])
    np.testing.assert_array_equal(thick[mass], [0, 0.5, 1])
    np.testing.assert_array_equal(thick[play], [0, 0.5, 0.5])
    assert [*mass.lines[3].get_xdata()] == [3, 3]
    assert elo.get_ylim() == (-450, 80)
    [band] = elo.collections
    corners = {tuple(x) for x in band.get_paths()[0].vertices}
    assert {(0, -450), (2, -200), (4, 0), (0, -150), (2, -100), (4, 20)} <= corners
    assert [x.get_text() for x in elo.get_legend().get_texts()] == ["alphazero"]


# The command.


def test_a_report_with_other_policies_is_not_resumed(
    tmp_path: Path,
    curves: dict[str, Curve],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "run_experiment", stop)
    arguments = ["reproduce", "--out", str(tmp_path / "new"), "--games"]
    assert main.main([*arguments, "nim"]) == 130
    algorithms = make_algorithms(GAMES["nim"], Size())
    outcomes = {name: {0: Outcome(SEED_ROWS, curve)} for name, curve in curves.items()}

    def resume(game: str, **policies: Any) -> tuple[int, str]:
        changed = {x: y._replace(policy=policies.get(x, y.policy)) for x, y in algorithms.items()}
        summary = summarize("nim", COMPARISONS["paper"], changed, outcomes)
        if "no" in policies:
            for entry in summary["algorithms"].values():
                del entry["policy"]
        content = json.dumps({"games": {"nim": {"paper": summary}}})
        (tmp_path / "new" / "report.json").write_text(content)
        capsys.readouterr()
        return main.main([*arguments, game, "--resume"]), capsys.readouterr().err

    assert resume("nim")[0] == resume("hsr")[0] == 130
    # A comparison without a record must be made again.
    assert resume("nim", no=None)[0] == 130
    for game, policies, words in (
        ("hsr", {"no": None}, "does not record the policies"),
        (
            "nim",
            {"alphazero": AlphaZero(85)},
            "root.visit_weights of alphazero was plain and is now",
        ),
    ):
        code, said = resume(game, **policies)
        assert (code, said.count("\n")) == (2, 1)
        assert words in said
        assert "choose another --out" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seeds", "1", "1"], "seeds is 1 1; it must have at least one value"),
        (["--positions", "100"], "positions is 100; it must be a multiple of num_games (128)"),
        (["--resume"], "no config.json"),
        (["--games", "nim", "--learning-rate", "0"], "learning_rate is 0.0; it must be positive"),
        (["--games", "nim", "--num-rounds", "0"], "num_rounds is 0"),
        (["--games", "nim", "--openings", "100"], "openings"),
    ],
)
def test_bad_input_gives_one_message_and_no_folder(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["reproduce", "--out", str(tmp_path / "new"), *flags]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_missing_open_spiel_is_an_error_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "open_spiel.python.egt.alpharank", None)
    assert main.main(["reproduce", "--out", str(tmp_path / "new")]) == 2
    said = capsys.readouterr().err
    assert 'pip install "dualmctx[compare]"' in said
    assert said.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_ctrl_c_prints_how_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "run_experiment", stop)
    assert main.main(["reproduce", "--out", str(tmp_path / "new")]) == 130
    assert "--resume continues" in capsys.readouterr().err
    assert main.main(["reproduce", "--out", str(tmp_path / "new"), "--resume"]) == 130
    grown = ["--resume", "--games", "nim", "--seeds", "9", "--comparisons", "best"]
    assert main.main(["reproduce", "--out", str(tmp_path / "new"), *grown]) == 130
    assert main.main(["reproduce", "--out", str(tmp_path / "new"), *grown, "--steps", "9"]) == 2
    assert "size.steps (18 → 9)" in capsys.readouterr().err


def test_a_second_process_cannot_write_to_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, codes = ["reproduce", "--out", str(tmp_path / "new")], []

    def run_another(*_: Any) -> None:
        if not codes:
            codes.append(None)
            codes.append(main.main([*arguments, "--resume"]))
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "run_experiment", run_another)
    assert main.main(arguments) == 130
    assert codes == [None, 2]
    assert f"new is being written by process {os.getpid()} on" in capsys.readouterr().err


TOY = [
    *("--quick", "--games", "nim", "--comparisons", "seconds", "--steps", "2"),
    *("--budgets", "3", "2", "--num-rounds", "2", "--width", "4", "--num-blocks", "2"),
    *("--positions", "32", "--num-games", "8", "--batch-size", "16", "--openings", "2"),
    *("--resamples", "5"),
]


@contextlib.contextmanager
def showing_until(task: str, number: int) -> Iterator[ShowFn]:
    """Raises KeyboardInterrupt when a task has done `number` units."""

    def show(this: str, done: int, total: int) -> None:
        if task in this and done >= number:
            raise KeyboardInterrupt

    yield show


@pytest.mark.slow
def test_the_whole_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "new"
    resume: list[str] = []
    for what, number in (("training", 3), ("games", 8)):
        with monkeypatch.context() as patch:
            patch.setattr(reproduce, "showing", lambda x=(what, number): showing_until(*x))
            assert main.main(["reproduce", *TOY, "--out", str(out), *resume]) == 130
        resume = ["--resume"]
    assert not (out / "report.json").exists()
    assert main.main(["reproduce", *TOY, "--out", str(out), "--resume"]) == 0
    report = json.loads((out / "report.json").read_text())
    assert report["games"].keys() == {"nim"}
    found = report["games"]["nim"]["seconds"]["algorithms"]
    assert found.keys() == {"alphazero-seconds", "dual-best"}
    content = (out / "nim" / "matches" / "seed-0" / "games.jsonl").read_bytes()
    # 6 checkpoints, 2 openings, both sides.
    assert content.count(b"\n") == 15 * 2 * 2
    measured = json.loads((out / "nim" / "equal-seconds.json").read_text())
    config = json.loads((out / "nim" / "alphazero-seconds" / "seed-0" / "config.json").read_text())
    rows = read_metrics(out / "nim" / "dual-best" / "seed-0" / "metrics.jsonl")
    assert measured["dual"] == pytest.approx(np.mean([row["selfplay_seconds"] for row in rows]))
    assert config["search"]["num_simulations"] == measured["simulations"]
    # Nothing is left to do, and nothing is measured again.
    assert main.main(["reproduce", *TOY, "--out", str(out), "--resume"]) == 0
    assert (out / "nim" / "matches" / "seed-0" / "games.jsonl").read_bytes() == content
    assert json.loads((out / "nim" / "equal-seconds.json").read_text()) == measured
    assert json.loads((out / "report.json").read_text()) == report
    [session] = report["sessions"]["nim"]
    assert session["command"] == f"dualmctx reproduce {shlex.join([*TOY, '--out', str(out)])}"
    assert session["machine"]["device"] == "cpu"
    # Results of another session stay in the report.
    report["games"]["hsr"] = {"seconds": report["games"]["nim"]["seconds"]}
    report["sessions"]["hsr"] = [session | {"machine": {"device": "another"}}]
    (out / "report.json").write_text(json.dumps(report))
    assert main.main(["reproduce", *TOY, "--out", str(out), "--resume"]) == 0
    assert json.loads((out / "report.json").read_text()) == report
    capsys.readouterr()
    assert main.main(["reproduce", *TOY, "--out", str(out)]) == 2
    assert "exists and is not empty" in capsys.readouterr().err
    # The configuration of complete runs is checked too: matches may be left to play.
    config = out / "nim" / "dual-best" / "seed-0" / "config.json"
    before = config.read_text()
    config.write_text(before.replace('"c_puct": 1.25', '"c_puct": 2.0'))
    assert main.main(["reproduce", *TOY, "--out", str(out), "--resume"]) == 2
    assert "has another configuration: search.puct.c_puct (2.0 → 1.25)" in capsys.readouterr().err
    config.write_text(before)
    other = [*TOY, "--out", str(out), "--resume", "--width", "8"]
    assert main.main(["reproduce", *other]) == 2
    assert "size.width (4 → 8)" in capsys.readouterr().err


@pytest.mark.slow
def test_the_quick_size_has_two_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiments = []

    def note(experiment: Experiment, *_: Any) -> dict[str, Any]:
        experiments.append(experiment)
        return {}

    monkeypatch.setattr(reproduce, "run_experiment", note)
    assert main.main(["reproduce", "--quick", "--out", str(tmp_path / "new")]) == 0
    assert [x.game for x in experiments] == ["nim", "connect-four"]
    assert {(x.size, x.seeds, x.comparisons) for x in experiments} == {(QUICK, (0,), ("paper",))}


@pytest.mark.slow
def test_the_quick_size(tmp_path: Path) -> None:
    """`test_the_whole_command` plays Nim."""
    flags = ["--quick", "--games", "connect-four", "--out", str(tmp_path / "new")]
    assert main.main(["reproduce", *flags]) == 0
    report = json.loads((tmp_path / "new" / "report.json").read_text())
    found = report["games"]["connect-four"]["paper"]["algorithms"]
    assert found.keys() == {"alphazero", "mpv", "dual"}
    assert all(x["seconds"]["mean"] > 0 for x in found.values())
