"""`python -m benchmarks.two_heads_predictions`, on results made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.two_heads_predictions import main, read_pairs, summaries
from dualmctx.runs.journal import reopen_journal

SEARCHES = ("final", "early", "average", "root", "dual 1", "dual paper")


def row(seed: int, kept: tuple[float, ...], *, ratio: float, error: float = 0.5) -> dict[str, Any]:
    """Returns a row of `benchmarks.two_heads`, with the wins that each search keeps."""
    shares = dict(zip(SEARCHES, kept, strict=True))
    searches = {
        name: {"kept": share}
        | {f"kept - {x}": [100 * (share - shares[x]), error] for x in ("early", "final", "root")}
        for name, share in shares.items()
    }
    cell = {"part": "map", "budget": 16, "noise": 1.0, "ratio": ratio}
    return {"cell": cell, "number": 4096, "seed": seed, "searches": searches}


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
    one, two = pairs = read_pairs(first, second)
    assert (one.head, one.split, one.best) == ("final", "dual 1", "dual 1")
    assert (two.head, two.split, two.best) == ("early", "dual paper", "dual paper")
    assert one.gain(one.split)[0] == pytest.approx(-3)
    assert two.gain(two.split)[0] == pytest.approx(5)
    found = {x["search"]: x for x in summaries(pairs)}
    # (−3 + 5) / 2; the half width is 1.96 times the root of 2 times 0.5², divided by 2.
    assert found["best split of Dual"]["mean"] == "+1.00 ± 0.69"
    assert found["best split of Dual"]["beats both"] == "50.0%"
    assert found["dual paper"]["mean"] == "+4.00 ± 0.69"


def test_predictions_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*files(tmp_path), "--json", str(tmp_path / "out.json")])
    assert "over 2 cells" in capsys.readouterr().out
    rows = json.loads((tmp_path / "out.json").read_bytes())["rows"]
    found = [row["found"] for row in rows if "prediction" in row]
    assert found == [
        "1 of 2 (50%)",
        "5.0",
        "1 of 1 (100%)",
        "1 of 2 (50%)",
        "1 of 2 (50%)",
        "0 of 0",
        "2 of 2 (100%)",
        "1 of 2 (50%)",
    ]


def test_unsuitable_files_are_refused(tmp_path: Path) -> None:
    first, second = files(tmp_path)
    few = write(tmp_path, 2, [row(2, CELLS[1.0][0], ratio=1.0)])
    reopen_journal(bad := tmp_path / "bad.jsonl").append([{"seed": 3, "number": 1}])
    for pair, message in (
        ((first, first), "two seeds"),
        ((first, few), "different cells"),
        ((first, str(bad)), "no rows of benchmarks.two_heads"),
        ((str(tmp_path / "none"), second), "none"),
    ):
        with pytest.raises(SystemExit, match=message):
            main([*pair])
