"""The command `dualmctx evaluate`: results, invalid input, and resumption."""

import csv
import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
from pyarrow import parquet

import dualmctx.commands.evaluate
from dualmctx.commands.main import SUBCOMMANDS, main
from dualmctx.commands.search import LoadedSearch, SearchFlags, load_search
from refusals import refused
from untrained import export_untrained

BATCH_SIZE = 4
# Twenty positions, two of them invalid.
MOVES = ["4", "x", "1213141", "4444444", *(str(i) * j for i in range(1, 5) for j in range(4))]
ASKED = [{"id": f"q{i}", "moves": moves} for i, moves in enumerate(MOVES)]
# The message with the batch size, if there is no --batch.
CHOSEN = f"dualmctx evaluate: using --batch {BATCH_SIZE}\n"


class Setting(NamedTuple):
    """A fast network, and positions in files."""

    network: str
    searcher: LoadedSearch
    jsonl: str
    csv: str


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    folder = tmp_path_factory.mktemp("evaluate")
    network = str(export_untrained(folder / "c4.safetensors", "connect-four"))
    lines = "".join(json.dumps(x) + "\n" for x in ASKED)
    (folder / "p.jsonl").write_text(lines)
    (folder / "p.csv").write_text(
        "id,moves\n" + "".join(f"{x['id']},{x['moves']}\n" for x in ASKED)
    )
    searcher = load_search(SearchFlags(checkpoint=network, network_only=True), BATCH_SIZE)
    return Setting(network, searcher, str(folder / "p.jsonl"), str(folder / "p.csv"))


@pytest.fixture
def quick(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """Makes the command use the network that is already compiled."""

    def take(options: SearchFlags, *batch: int | None) -> LoadedSearch:
        return setting.searcher._replace(record=setting.searcher.record | {"seed": options.seed})

    monkeypatch.setattr(dualmctx.commands.evaluate, "load_search", take)
    return setting


def evaluate(setting: Setting, positions: str, out: Path | str, *flags: str) -> int:
    return main(["evaluate", setting.network, positions, "--out", str(out), *flags])


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def names(folder: Path) -> set[str]:
    return {x.name for x in folder.iterdir()}


@pytest.mark.slow
def test_all_formats_contain_the_rows(quick, tmp_path, capfd):
    assert evaluate(quick, quick.jsonl, tmp_path / "x.jsonl") == 1
    said = capfd.readouterr()
    assert re.fullmatch(f"{CHOSEN}.*x.jsonl: 20 rows, 2 of them errors, in [0-9.]+ s\n", said.err)
    assert said.out == ""
    rows = read(tmp_path / "x.jsonl")
    assert [(x["id"], x["line"]) for x in rows] == [(f"q{i}", i + 1) for i in range(20)]
    assert [x["id"] for x in rows if "error" in x] == ["q1", "q3"]
    assert evaluate(quick, quick.csv, tmp_path / "x.parquet") == 1
    found = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    # A header comes before the first position.
    expected = [{**dict.fromkeys(found[0]), **row, "line": row["line"] + 1} for row in rows]
    assert found == expected
    assert evaluate(quick, quick.csv, tmp_path / "x.csv") == 1
    with (tmp_path / "x.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert [x["error"] or json.loads(x["legal"]) for x in records] == [
        row.get("error", row.get("legal")) for row in rows
    ]
    files = {"x.jsonl", "x.parquet", "x.csv"}
    assert names(tmp_path) == files | {f"{x}.settings.json" for x in files}
    settings = json.loads((tmp_path / "x.csv.settings.json").read_text())
    written = (tmp_path / "x.csv").read_bytes()
    assert settings["finished"] == {
        **{"rows": 20, "errors": 2},
        "file": {"size": len(written), "crc": f"{zlib.crc32(written):08x}"},
    }
    assert settings["settings"]["game"] == "connect_four"


@pytest.fixture
def standard_input(tmp_path: Path) -> Iterator[Any]:
    """Replaces standard input by a file."""
    before = os.dup(0)

    def put(path: str) -> None:
        with open(path, "rb") as file:
            os.dup2(file.fileno(), 0)

    yield put
    os.dup2(before, 0)
    os.close(before)


def test_standard_input_gives_same_rows(quick, tmp_path, standard_input, capfd):
    assert evaluate(quick, quick.jsonl, tmp_path / "x.jsonl") == 1
    for out in ("-", str(tmp_path / "y.jsonl")):
        standard_input(quick.jsonl)
        assert evaluate(quick, "-", out) == 1
    whole = (tmp_path / "x.jsonl").read_text()
    assert (tmp_path / "y.jsonl").read_text() == capfd.readouterr().out == whole


def test_strict_stops_at_first_error(quick, tmp_path, capfd):
    assert evaluate(quick, quick.jsonl, tmp_path / "x.jsonl", "--strict") == 1
    rows = read(tmp_path / "x.jsonl")
    assert ["error" in row for row in rows] == [False, True]
    assert f"{quick.jsonl}, line 2: move 1, 'x'," in capfd.readouterr().err
    assert evaluate(quick, quick.jsonl, "-", "--strict") == 1
    assert capfd.readouterr().out == (tmp_path / "x.jsonl").read_text()


def test_a_strict_evaluation_that_was_stopped_after_its_error_is_resumed(
    quick, tmp_path, monkeypatch
):
    out = tmp_path / "x.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(dualmctx.commands.evaluate, "write_results", interrupted)
        assert evaluate(quick, quick.jsonl, out, "--strict") == 130
    assert evaluate(quick, quick.jsonl, out, "--strict", "--resume") == 1
    assert ["error" in row for row in read(out)] == [False, True]


def test_the_batch_is_chosen_for_the_number_of_lines(quick, tmp_path, monkeypatch, capfd):
    load = Mock(side_effect=dualmctx.commands.evaluate.load_search)
    monkeypatch.setattr(dualmctx.commands.evaluate, "load_search", load)
    assert evaluate(quick, quick.jsonl, tmp_path / "x.jsonl") == 1
    assert capfd.readouterr().err.startswith(CHOSEN)
    assert evaluate(quick, quick.csv, tmp_path / "y.jsonl", "--batch", "8") == 1
    assert "--batch" not in capfd.readouterr().err
    assert [call.args[1:] for call in load.mock_calls] == [(None, 20), (8, 21)]


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_finished_results_stay_and_removed_ones_are_computed_again(quick, tmp_path, capfd):
    out = tmp_path / "x.csv.gz"
    assert evaluate(quick, quick.jsonl, out) == 1
    whole = out.read_bytes()
    assert evaluate(quick, quick.csv, out, "--resume") == 2
    assert "different settings: positions (" in capfd.readouterr().err
    assert evaluate(quick, quick.jsonl, out, "--resume") == 1
    assert out.read_bytes() == whole
    out.unlink()
    assert evaluate(quick, quick.jsonl, out, "--resume") == 1
    assert out.read_bytes() == whole


def test_interrupted_standard_input_starts_again(
    quick, tmp_path, standard_input, monkeypatch, capfd
):
    with monkeypatch.context() as patch:
        standard_input(quick.jsonl)
        patch.setattr(dualmctx.commands.evaluate, "answer", interrupted)
        assert evaluate(quick, "-", tmp_path / "x.jsonl") == 130
    said = capfd.readouterr().err
    assert (said.endswith(": no row is written yet\n"), "--resume" in said) == (True, False)
    standard_input(quick.jsonl)
    assert evaluate(quick, "-", tmp_path / "x.jsonl") == 1


EXTRA = [{"player": "Anna", "value": 1}, {}, {"player": "Bo", "tags": [1]}]


@pytest.fixture
def annotated(tmp_path: Path) -> str:
    """Positions with further fields, compressed: three positions, twice; the second is invalid."""
    rows = [x | {"moves": moves} for x, moves in zip(EXTRA, ("4", "x", "1213141"), strict=True)] * 2
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "p.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(x) + "\n" for x in rows).encode()))
    return str(path)


def test_further_fields_pass_through(quick, annotated, tmp_path):
    assert evaluate(quick, annotated, tmp_path / "x.jsonl", "--echo") == 1
    rows = read(tmp_path / "x.jsonl")[:3]
    kept = [{k: v for k, v in x.items() if k in ("player", "input_value", "tags")} for x in rows]
    assert kept == [{"player": "Anna", "input_value": 1}, {}, {"player": "Bo", "tags": [1]}]
    assert [x["moves"] for x in rows] == ["4", "x", "1213141"]
    assert evaluate(quick, annotated, tmp_path / "x.csv", "--flat") == 1
    with (tmp_path / "x.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert [x["player"] for x in records] == ["Anna", "", "Bo"] * 2
    assert float(records[0]["network_value_1"]) == rows[0]["network_value"][0]
    assert "legal" not in records[0]


def test_selected_fields_are_the_columns(quick, annotated, tmp_path):
    """Every table has a column of errors."""
    fields = ("--fields", "move,moves", "player")
    assert evaluate(quick, annotated, tmp_path / "x.jsonl", *fields) == 1
    error = "move 1, 'x', is not a move of connect_four: write one of 1, 2 … 7."
    assert read(tmp_path / "x.jsonl")[4:] == [
        {"moves": "x", "error": error},
        {"move": None, "moves": "1213141", "player": "Bo"},
    ]
    assert evaluate(quick, annotated, tmp_path / "x.csv", *fields) == 1
    assert (tmp_path / "x.csv").read_text().splitlines()[::3] == [
        "move,moves,player,error",
        *[",1213141,Bo,"] * 2,
    ]
    assert evaluate(quick, annotated, tmp_path / "x.parquet", *fields) == 1
    columns = parquet.read_table(tmp_path / "x.parquet").column_names
    assert columns == ["move", "moves", "player", "error"]


def test_unknown_fields_name_those_of_the_first_position(
    quick, annotated, standard_input, tmp_path, capfd
):
    (tmp_path / "p.jsonl").write_bytes(gzip.decompress(Path(annotated).read_bytes()))
    standard_input(str(tmp_path / "p.jsonl"))
    for positions in (annotated, "-"):
        assert evaluate(quick, positions, "-", "--fields", "move", "playr") == 2
        said = capfd.readouterr()
        assert said.out == ""
        assert "fields has playr, perhaps you meant player; the fields are id, line" in said.err


def test_table_is_for_terminals_without_out(quick, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["evaluate", quick.network, quick.jsonl, "--fields", "id,move"]) == 1
    assert capsys.readouterr().out.split()[:2] == ["id", "move"]
    assert evaluate(quick, quick.jsonl, "-", "--fields", "id") == 1
    assert capsys.readouterr().out.startswith('{"id":"q0"}\n')


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--out", "none/x.csv"], "the folder none does not exist"),
        (["--game", "nim"], "game is nim; c4.safetensors plays connect_four"),
        (["--network-only", "--variant", "dual"], "network_only excludes a search"),
        (["--out", "x.txt"], "out is x.txt; it must end in"),
        (["--out", "-", "--resume"], "out is -; it must be a file with --resume"),
        (["--out", "x.jsonl", "--flat"], "flat is for CSV; out is x.jsonl"),
        (["--fields", ","], "fields is empty; name at least one field, such as move"),
    ],
)
def test_invalid_flags_fail_with_one_line(setting, tmp_path, monkeypatch, capfd, flags, error):
    monkeypatch.chdir(Path(setting.network).parent)
    before = names(Path())
    command = ["evaluate", "c4.safetensors", "p.jsonl", "--out", "out.csv", *flags]
    assert error in refused(command, capfd)
    assert names(Path()) == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--batch", "many"], "--batch: 'many' is given; it must be a whole number or \"none\""),
        (["--seed", "9" * 5000], "...9999999999999' is given; it must be a whole number"),
        (["--no-such-option"], "run dualmctx evaluate --help"),
    ],
)
def test_wrong_flags_are_named(flags, message, capfd):
    assert message in refused(["evaluate", "nim", "p.jsonl", *flags], capfd)
    assert "Missing from dualmctx evaluate: POSITIONS" in refused(["evaluate", "nim"], capfd)


@pytest.mark.parametrize(
    ("positions", "error"),
    [
        ("none.jsonl", "positions is none.jsonl; the file does not exist"),
        ("p.txt", "must end in one of .jsonl, .csv, .epd, .pgn, .sgf, .ggf, or be -; .gz"),
        ("empty.jsonl", "empty.jsonl has no positions"),
        ("header.csv", "header.csv: the header has no column moves or fen; it is 'a, b'"),
        ("cut.csv.gz", "cut.csv.gz cannot be decompressed: "),
    ],
)
def test_invalid_files_fail_with_one_line(tmp_path, monkeypatch, capfd, positions, error):
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").touch()
    Path("header.csv").write_text("a,b\n1,2\n")
    Path("p.txt").touch()
    Path("cut.csv.gz").write_bytes(gzip.compress(b"moves\n1\n")[:-1])
    assert error in refused(["evaluate", "nim", positions], capfd)


def test_parquet_without_pyarrow_fails_early(setting, monkeypatch, tmp_path, capfd):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert evaluate(setting, setting.jsonl, tmp_path / "x.parquet") == 2
    assert "pyarrow is not installed; run pip install" in capfd.readouterr().err
    assert names(tmp_path) == set()


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_has_help(name, capfd):
    assert main([name, "--help"]) == 0
    assert f"dualmctx {name} " in capfd.readouterr().out


def test_top_level_help(capfd):
    assert main(["--help"]) == 0
    said = capfd.readouterr().out
    assert all(f"  {name} " in said for name in SUBCOMMANDS)
    assert main([]) == 2
    capfd.readouterr()
    assert main(["evalute"]) == 2
    message = capfd.readouterr().err
    assert message.startswith("dualmctx: there is no command 'evalute'; ")
    assert message.endswith(f" {', '.join(SUBCOMMANDS)}\n")
