"""What the documents tell a reader to type works."""

import pathlib
import re
import shlex

import pytest

import train

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def commands(program: str) -> list[str]:
    lines = "\n".join(blocks(README, "sh")).splitlines()
    return [line.split("#")[0].strip() for line in lines if line.startswith(program)]


@pytest.mark.parametrize("name", ["README.md", "games/README.md"])
def test_python_examples_run(name: str) -> None:
    """A document's examples, one after the other, as a reader would type them."""
    code = "\n".join(blocks((ROOT / name).read_text(), "python"))
    assert code
    exec(compile(code, name, "exec"), {})


@pytest.mark.parametrize("command", commands("python train.py"))
def test_training_commands_are_valid(command: str) -> None:
    preset, config = train.parse(shlex.split(command)[2:])
    assert config != train.PRESETS[preset]


@pytest.mark.parametrize("command", commands("make"))
def test_make_commands_exist(command: str) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert command.split()[1] in targets


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w./-]+\.(?:md|py))`", README))))
def test_files_named_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_pictures_exist() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert pictures
    assert all((ROOT / picture).exists() for picture in pictures)
