"""The commands and examples of the README work."""

import io
import json
import pathlib
import re
import runpy
import shlex

import pytest

from dualmctx.commands import compare, train
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.main import main
from dualmctx.matches.player_spec import parse_player
from dualmctx.policies import REGISTRY
from dualmctx.runs.saved_network import trained_names
from untrained import make_run, make_untrained

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def commands(program: str) -> list[str]:
    lines = "\n".join(blocks(README, "sh")).splitlines()
    return [line.split("#")[0].strip() for line in lines if line.startswith(program)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["README.md", "docs/search.md", "games/README.md"])
def test_python_examples_run(name: str) -> None:
    """Runs a document's examples in order."""
    code = "\n".join(blocks((ROOT / name).read_text(), "python"))
    assert code
    exec(compile(code, name, "exec"), {})


@pytest.mark.parametrize("command", commands("python train.py"))
def test_training_commands_are_valid(command: str) -> None:
    preset, config = train.parse(shlex.split(command)[2:])
    assert config != train.PRESETS[preset]


@pytest.mark.parametrize("command", commands("make"))
def test_make_commands_exist(command: str) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert command.split()[1] in targets


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w./-]+\.(?:md|py))`", README))))
def test_named_files_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_pictures_exist() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert pictures
    assert all((ROOT / picture).exists() for picture in pictures)


def test_speedup_figure_shows_the_recorded_ratios() -> None:
    """`docs/draw_speedup.py` draws it from the table in benchmarks/README.md."""
    table = runpy.run_path(str(ROOT / "docs" / "draw_speedup.py"))["read_table"]
    rows = table((ROOT / "benchmarks" / "README.md").read_text())
    svg = (ROOT / "docs" / "speedup.svg").read_text()
    assert len(rows) == 15
    labels = sorted(f"{row.ratio:.1f}×" for row in rows)
    assert sorted(re.findall(r">([\d.]+×)</text>", svg)) == labels


@pytest.mark.slow
def test_evaluation_commands_run_in_order(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Starts from the run that `make train` creates, and no other files."""
    [block] = [block for block in blocks(README, "sh") if "dualmctx evaluate" in block]
    monkeypatch.chdir(tmp_path)
    make_run(pathlib.Path("runs/hsr"), make_untrained("hsr"))
    for line in block.splitlines():
        match shlex.split(line):
            case ["echo", text, ">", file]:
                pathlib.Path(file).write_text(f"{text}\n")
                continue
            case ["echo", text, "|", "dualmctx", *arguments]:
                typed = io.BytesIO(f"{text}\n".encode())
                name = "dualmctx.commands.source.open_standard_input"
                monkeypatch.setattr(name, lambda typed=typed: typed)
            case ["dualmctx", *arguments]:
                pass
            case _:
                raise AssertionError(line)
        assert main(arguments) == 0, line
    row = json.loads(capfd.readouterr().out.splitlines()[0])
    assert (row["line"], "move" in row) == (1, True)
    assert (tmp_path / "hsr.npz").exists()
    assert len(pathlib.Path("results.csv").read_text().splitlines()) == 2
    assert len(pathlib.Path("results.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("line", commands("dualmctx compare"))
def test_comparisons_are_valid(line: str) -> None:
    options = parse_flags(compare.Options(), shlex.split(line)[2:], "dualmctx compare", "")
    assert {parse_player(player).search for player in options.players} <= {*REGISTRY, "random"}
    assert options.checkpoint in trained_names()


FOLDERS = re.compile(r"<!-- folders -->\n```text\n(.*?)```\n<!-- /folders -->", re.DOTALL)


def test_the_folders_described_are_those_of_the_repository() -> None:
    [block] = FOLDERS.findall(README)
    described = [line.split()[0] for line in block.splitlines()]
    package = [x for x in (ROOT / "dualmctx").iterdir() if not x.name.startswith(("_", "."))]
    expected = {"games/", "tests/", "benchmarks/", "docs/", "train.py"}
    expected |= {f"dualmctx/{x.name}/" for x in package if x.is_dir()}
    expected |= {f"dualmctx/{x.name}" for x in package if x.suffix == ".py"}
    assert sorted(described) == sorted(expected)
    assert all((ROOT / name).exists() for name in described)
    assert all(len(line.split()) > 1 for line in block.splitlines())
