"""The documents are correct: commands parse, examples run, named files and folders exist."""

import argparse
import collections
import dataclasses
import importlib
import io
import json
import pathlib
import re
import runpy
import shlex
from collections.abc import Iterable
from typing import Any

import pytest

from documents import PAGES, ROOT, Command, blocks, commands, read, shell_lines
from dualmctx.commands import evaluate, flags, train, train_settings
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.main import SUBCOMMANDS, main
from dualmctx.commands.train_settings import read_request, settle
from dualmctx.experiment.assemble import record_of
from dualmctx.matches.player_spec import NETWORKLESS, parse_player
from dualmctx.policies import REGISTRY, Dual
from dualmctx.training.presets import PRESETS
from stand_in import traced
from untrained import make_run, make_untrained, parse_train

README = read("README.md")
OWN_GAME = "docs/tutorials/own-game.md"


class Parsed(Exception):
    """Stops a benchmark after it has parsed its flags."""


def parse_benchmark(name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, given: Any = None) -> Any:
        check_players(getattr(parse(parser, given), "players", ()))
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    with pytest.raises(Parsed):
        importlib.import_module(name).main(arguments)


def check_players(players: Iterable[str]) -> None:
    searches = {parse_player(player).search for player in players}
    assert searches <= {*REGISTRY, "own", "policy", *NETWORKLESS}


def parse_training(arguments: list[str]) -> None:
    """Parses a training command; there is a run in the folder of `--resume`."""
    request = read_request(arguments, "")
    name = request.preset or "hsr"
    is_new = request.early.resume in (None, "auto")
    saved = None if is_new else record_of(name, PRESETS[name])
    settle(request, train.resumed_folder(request), saved, "")


@pytest.mark.parametrize("command", commands(PAGES), ids=" ".join)
def test_commands_are_valid(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    if command.page == OWN_GAME:
        # As the tutorial says: its first cell, saved as a file.
        (tmp_path / "take134.py").write_text(blocks(OWN_GAME, "python")[0], encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
    # The files of settings in the examples do not exist.
    monkeypatch.setattr(flags, "read_settings", lambda _: {})
    monkeypatch.setattr(train_settings, "read_settings", lambda _: {"preset": "connect-four"})
    arguments, name = shlex.split(command.arguments), command.program.split()[-1]
    if name.startswith("benchmarks."):
        parse_benchmark(name, arguments, monkeypatch)
    elif name in ("train", "train.py") and arguments:
        if arguments[-2:] == ["--pipeline", "--help"]:
            arguments = ["hsr", "--pipeline", "supervised"]
        parse_training([x for x in arguments if x != "--help"])
    elif arguments:
        module = SUBCOMMANDS[name].load()
        options = parse_flags(module.Options(), arguments, command.program, "")
        check_players(getattr(options, "players", ()))
    else:
        assert name in SUBCOMMANDS


def test_settings_of_the_page_are_read(tmp_path: pathlib.Path) -> None:
    [text] = blocks("docs/training.md", "toml")
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    name, config = parse_train(["--config", str(file)])
    expected = PRESETS["connect-four"]
    assert name == "connect-four"
    assert config == dataclasses.replace(
        expected,
        num_iterations=500,
        search=Dual(num_simulations=(32, 16)),
        learner=dataclasses.replace(expected.learner, learning_rate=1e-3),
    )


# The first page of the site, and its pages of formulas and of code.
WITHOUT_COMMANDS = {
    "docs/algorithms.md",
    "docs/index.md",
    "docs/tutorials/from-mctx.md",
}


def test_every_page_has_commands() -> None:
    found = commands(PAGES)
    assert set(PAGES) - WITHOUT_COMMANDS == {command.page for command in found}
    # This command is wrapped over two lines.
    assert Command("README.md", "python -m benchmarks.engine", "--repeats 3") in found


def lowered(trainer: Any, state: Any) -> Any:
    """Stands for `trainer.compile`: an iteration is lowered only, and changes nothing."""
    assert trainer.lower(state)
    return lambda state: (state, collections.Counter())


# Other tests check the numbers of the searches and of the training, so nothing is compiled here.
TRACED = {"jax.jit": "traced"}
SMALL = {
    **{"connect_four": "connect2", "env.observation_shape)": "env.observation_shape, width=4)"},
    "dualmctx.get_subtree(": 'traced(dualmctx.get_subtree, static_argnames="reuse_capacity")(',
}
CHANGES: dict[str, dict[str, str]] = {
    "README.md": TRACED | SMALL,
    "docs/search.md": TRACED | SMALL,
    "docs/python.md": TRACED | {"trainer.compile(": "lowered(trainer, "},
    "docs/networks.md": TRACED,
    "docs/trees.md": {"Dual((21, 9))": "AlphaZero(8)"},
    "games/README.md": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("page", CHANGES)
def test_python_examples_run(
    page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs the examples of a page in order, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(page, "python"))
    assert code
    for old, new in CHANGES[page].items():
        assert old in code or page == "README.md"
        code = code.replace(old, new)
    exec(compile(code, page, "exec"), {"traced": traced, "lowered": lowered})


@pytest.mark.parametrize("line", [x for x in shell_lines("README.md") if x.startswith("make")])
def test_make_targets_exist(line: str) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert line.split()[1] in targets


def test_links_of_the_readme_exist() -> None:
    links = re.findall(r"\]\(((?!https:)[^)#]+)", README)
    assert {"docs/trees.png", "docs/search.md"} <= set(links)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_speedup_figure_shows_the_recorded_ratios() -> None:
    drawing = runpy.run_path(str(ROOT / "docs" / "draw_speedup.py"))
    rows = drawing["read_rows"](drawing["ROWS"])
    svg = (ROOT / "docs" / "speedup.svg").read_text()
    assert len(rows) == 15
    labels = sorted(f"{row.ratio:.1f}×" for row in rows)
    assert sorted(re.findall(r">([\d.]+×)</text>", svg)) == labels


@pytest.mark.slow
def test_evaluation_commands_run_in_order(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Starts from the run that `make train` creates, and no other files."""
    [block] = [block for block in blocks("README.md", "sh") if "dualmctx evaluate" in block]
    monkeypatch.chdir(tmp_path)
    make_run(pathlib.Path("runs/hsr"), make_untrained("hsr"))
    # Compiling a search takes the time; other tests run it.
    load = evaluate.load_search

    def load_network(search: Any, *sizes: Any) -> Any:
        return load(dataclasses.replace(search, network_only=True), *sizes)

    monkeypatch.setattr(evaluate, "load_search", load_network)
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
    assert (tmp_path / "hsr.safetensors").exists()
    assert len(pathlib.Path("results.csv").read_text().splitlines()) == 2


def test_the_folders_described_are_those_of_the_package() -> None:
    [table] = re.findall(
        r"\| folder \| content \|\n\|[-|]+\n((?:\|.*\n)+)", read("dualmctx/README.md")
    )
    described = re.findall(r"^\| `([\w./]+)`.* \| .{5,} \|$", table, flags=re.MULTILINE)
    package = [x for x in (ROOT / "dualmctx").iterdir() if not x.name.startswith(("_", "."))]
    # A folder that was removed may still hold compiled files.
    folders = [x for x in package if x.is_dir() and any(y.is_file() for y in x.iterdir())]
    expected = {f"{x.name}/" for x in folders} | {x.name for x in package if x.suffix == ".py"}
    assert sorted(described) == sorted(expected | {"games/"})
    assert len(described) == len(table.splitlines())
