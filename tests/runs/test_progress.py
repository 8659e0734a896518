"""Progress on a terminal and in a log file."""

import io
from collections.abc import Callable

import pytest

from dualmctx.console import Console
from dualmctx.experiment.report import describe_training
from dualmctx.runs.progress import Display, Pace, showing


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock."""
    clock = [100.0]
    monkeypatch.setattr("dualmctx.runs.progress.time.monotonic", lambda: clock[0])

    def put(now: float) -> None:
        clock[0] = now

    return put


def test_pace_starts_at_first_report(at: Callable[[float], None]) -> None:
    pace = Pace()
    assert (pace.rate, pace.left(100)) == (0, "")
    # Forty were done before; the first new one took a minute to compile.
    at(160.0)
    pace.report(41)
    assert (pace.rate, pace.left(100)) == (0, "")
    at(180.0)
    pace.report(51)
    assert (pace.rate, pace.left(100)) == (0.5, "0:01:38 left")
    # More is done than the total: a run resumed with fewer iterations.
    assert pace.left(50) == "0:00:00 left"


@pytest.mark.parametrize("ends", [True, False])
def test_log_file_gets_periodic_lines(ends: bool, at: Callable[[float], None]) -> None:
    said = io.StringIO()
    with showing(Console(file=said, width=60), ends=ends) as show:
        # Two steps were done before.
        for now, done in ((101.0, 2), (105.0, 3), (112.0, 4), (113.0, 6)):
            at(now)
            show("nim: training", done, 6, "[note]")
        show("nim: ratings", 0, 1)
    lines = [
        "nim: training: 2/6  [note]",
        "nim: training: 4/6  0:00:11 left  [note]",
        "nim: training: 6/6  [note]",
        "nim: ratings: 0/1",
    ]
    assert said.getvalue().splitlines() == (lines if ends else lines[1:2])


def test_bars_and_clocks_fit_into_80_columns(at: Callable[[float], None]) -> None:
    said = io.StringIO()
    note = "12.3 per second  alphazero – gumbel +120 =30 −50"
    with showing(Console(file=said, force_terminal=True, width=80, color_system=None)) as show:
        show("games", 12345, 200000, note)
        at(4100.0)
        show("games", 52345, 200000, note)
        show("nim: training against itself", 52, 200)
        show("games", 52345, 200000, note)
    shown = said.getvalue().split("\x1b[2K")[-1]
    games, training, below = shown.splitlines()[:3]
    assert "52,345/200,000" in games
    assert "4:06:06 left" in games
    assert training.startswith("nim: training against itself ━━━")
    assert below.strip() == note


LOSSES = {"policy_loss_0": 0.5, "policy_loss_1": 0.25, "value_loss_0": 0.75, "value_loss_1": 1.5}
RATES = {"games_per_second": 98.76, "positions_per_second": 1234.5}
RATES |= {"simulations_per_second": 67890.1}
ROW = {"iteration": 7, "seconds": 12.5, **LOSSES, **RATES}
EVALS = {
    **{"path/search_optimal": 0.987, "path/network_optimal": 0.876},
    **{"exact/search_optimal": 0.543, "exact/network_optimal": 0.432, "exact_positions": 1023},
}


def against(opponent: str) -> dict[str, float]:
    results = [f"{side}_{x}" for side in ("first", "second") for x in ("wins", "draws", "losses")]
    scores = dict(zip(results, (11, 12, 13, 21, 22, 23), strict=True)) | {"win_share": 0.32}
    return {f"{opponent}/{name}": number for name, number in scores.items()}


def plain_display(is_terminal: bool = False, done: int = 0) -> tuple[Display, io.StringIO]:
    text = io.StringIO()
    console = Console(file=text, width=60, highlight=False, force_terminal=is_terminal)
    return Display(20, done, console, describe=describe_training), text


def test_a_log_file_gets_plain_lines() -> None:
    shown, text = plain_display()
    with shown:
        shown.say("a line [with brackets] that is longer than the sixty columns of this console")
        shown.show(ROW)
        # Too early for another line, unless there are evals.
        shown.show({**ROW, "iteration": 8})
        shown.show({**ROW, "iteration": 9, **EVALS, **against("perfect")})
    lines = text.getvalue().splitlines()
    assert "\x1b" not in text.getvalue()
    assert len(lines) == 4
    assert lines[0].endswith("sixty columns of this console")
    numbers = "12.5 s  98.8 games/s  1,234 positions/s  67,890 simulations/s  "
    numbers += "loss policy 0.250 value 1.500"
    assert lines[1].split() == ["7/20", *numbers.split()]
    assert lines[2].split() == ["9/20", *numbers.split(), "0:00:00", "left"]
    for words in (
        "optimal path: network 87.6%, search 98.7% optimal",
        "1,023 positions: network 43.2%, search 54.3% optimal",
        "against perfect: +32 =34 −36",
    ):
        assert words in lines[3]


def test_a_terminal_gets_live_lines_and_keeps_evals() -> None:
    shown, text = plain_display(is_terminal=True, done=5)
    with shown:
        shown.show(ROW)
        shown.show({**ROW, "iteration": 8, **against("random")})
    assert "\x1b" in text.getvalue()
    assert "8/20" in text.getvalue()
    # The live lines show the last evals.
    assert "iteration 8: against random: +32 =34 −36" in text.getvalue()
    # Only the iteration with evals is printed above the live lines.
    assert text.getvalue().count("12.5 s") == 1
