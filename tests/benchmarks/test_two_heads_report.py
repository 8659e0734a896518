"""`python -m benchmarks.two_heads_report`, on results made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ledger
from benchmarks.two_heads_report import (
    changes,
    counted,
    main,
    places,
    read_pairs,
    summaries,
)
from dualmctx.runs.journal import reopen_journal

SEARCHES = ("final", "early", "average", "root", "dual 1", "dual paper")


def row(
    seed: int,
    kept: tuple[float, ...],
    *,
    ratio: float,
    error: float = 0.5,
    number: int = 4096,
    **cell: Any,
) -> dict[str, Any]:
    """Returns a row of `benchmarks.two_heads`, with the wins that each search keeps."""
    shares = dict(zip(SEARCHES, kept, strict=True))
    searches = {
        name: {"kept": share}
        | {f"kept - {x}": [100 * (share - shares[x]), error] for x in ("early", "final", "root")}
        for name, share in shares.items()
    }
    given = {"part": "map", "budget": 16, "noise": 1.0, "ratio": ratio, "correlation": 0.5}
    cell = given | {"options": []} | cell
    return {"cell": cell, "number": number, "seed": seed, "searches": searches}


def write(folder: Path, seed: int, rows: list[dict[str, Any]]) -> str:
    path = folder / f"map-{seed}.jsonl"
    reopen_journal(path).append(rows)
    return str(path)


# By cell: the first seed, the second seed.
CELLS = {
    # The split that the first seed chooses is the worse one with the second seed.
    1.0: ((0.90, 0.80, 0.89, 0.88, 0.95, 0.93), (0.90, 0.80, 0.89, 0.88, 0.87, 0.93)),
    # It beats both heads, and the mean of both heads is far behind.
    2.0: ((0.80, 0.85, 0.80, 0.86, 0.86, 0.90), (0.82, 0.84, 0.80, 0.84, 0.84, 0.89)),
    # A head keeps nearly everything.
    3.0: ((0.99, 0.80, 0.80, 0.80, 0.80, 0.80), (0.70, 0.80, 0.80, 0.80, 0.80, 0.99)),
}


def files(folder: Path) -> list[str]:
    return [
        write(folder, i, [row(i, kept[i], ratio=ratio) for ratio, kept in CELLS.items()])
        for i in range(2)
    ]


def test_the_first_seed_chooses_and_the_second_one_measures(tmp_path: Path) -> None:
    first, second = map(Path, files(tmp_path))
    one, two = pairs = counted(read_pairs(first, second))
    assert (one.head, one.split) == ("final", "dual 1")
    assert (two.head, two.split) == ("early", "dual paper")
    assert one.gain(one.split)[0] == pytest.approx(-3)
    assert two.gain(two.split)[0] == pytest.approx(5)
    found = {x["search"]: x for x in summaries(pairs)}
    # (−3 + 5) / 2; the half width is 1.96 times the root of 2 times 0.5², divided by 2.
    assert found["best split of Dual"]["mean"] == "+1.00 ± 0.69"
    assert found["best split of Dual"]["beats both"] == "50.0%"
    assert found["dual paper"]["mean"] == "+4.00 ± 0.69"
    # The heads of the first cell are 10 points apart with the first seed, those of the second 5.
    counts = [[*x.values()] for x in places(pairs)]
    assert counts == [[0.5, "within", 1, 1, 1, 0, 0], [0.5, "beyond", 1, 0, 1, 0, 0]]


def test_tables_are_shown_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*files(tmp_path), "--json", str(tmp_path / "out.json")])
    assert "over 2 cells" in capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_bytes())
    assert [row["search"] for row in found["rows"]] == [*SEARCHES, "best split of Dual"]
    assert (found["cells"], len(found["places"])) == (2, 2)


def test_the_recorded_tables_are_those_of_the_recorded_rows(tmp_path: Path) -> None:
    """Also the largest losses of the page of findings."""
    names = ("two_heads_map_0", "two_heads_map_1", "two_heads_connect_four")
    *maps, networks = (str(ledger.RESULTS / f"{name}.jsonl") for name in names)
    main([*maps, "--networks", networks, "--json", str(tmp_path / "out.json")])
    found, recorded = json.loads((tmp_path / "out.json").read_bytes()), ledger.read("two_heads_map")
    for name in ("rows", "cells", "places", "changes_independent", "changes_alike", "losses"):
        assert found[name] == recorded[name], name


def pairs_of(folder: Path, rows: list[list[dict[str, Any]]]) -> Any:
    return read_pairs(*(Path(write(folder, i, x)) for i, x in enumerate(rows)))


def test_each_seed_chooses_the_head_of_a_changed_cell_for_the_other_one(tmp_path: Path) -> None:
    shares = ((0.90, 0.80, 0.9, 0.9, 0.9, 0.9), (0.80, 0.84, 0.9, 0.9, 0.9, 0.9))
    rows = [
        [
            row(seed, kept, ratio=1.0, part="alike"),
            row(seed, kept, ratio=2.0, part="alike", options=[["num_rounds", 1]]),
            row(seed, kept, ratio=1.0),
        ]
        for seed, kept in enumerate(shares)
    ]
    ((part, (none, changed)),) = changes(pairs_of(tmp_path, rows))
    assert (part, none["change"], changed["change"]) == ("alike", "none", "ratio 2.0, num_rounds 1")
    # Above the final head with the second seed, and above the early one with the first seed.
    assert none["dual 1"] == f"{(10 + 10) / 2:+.1f} ± 0.7"
    assert none["final"] == f"{(0 + 10) / 2:+.1f} ± 0.7"


def test_unsuitable_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = files(tmp_path)
    few = write(tmp_path, 2, [row(2, CELLS[1.0][0], ratio=1.0)])
    reopen_journal(bad := tmp_path / "bad.jsonl").append([{"seed": 3, "number": 1}])
    few_splits = [{"depths": [1, 2], "measured": {"dual 1": {}}}]
    reopen_journal(small := tmp_path / "small.jsonl").append(few_splits)
    reopen_journal(deep := tmp_path / "deep.jsonl").append([{"depths": [1, 3], "measured": {}}])
    for arguments, message in (
        ((first, first), "two seeds"),
        ((first, few), "different cells"),
        ((first, str(bad)), "no rows of benchmarks.two_heads"),
        ((str(tmp_path / "none"), second), "none"),
        ((first, second, "--networks", str(small)), f"{small} must have rows whose early"),
        ((first, second, "--networks", str(deep)), f"{deep} must have rows whose early"),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            main([*arguments])
        assert message in capsys.readouterr().err
