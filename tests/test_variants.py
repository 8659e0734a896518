"""docs/variants.md says what is there: every variant, every option, and what goes together."""

import dataclasses
import functools
import pathlib
import re
from typing import Any

import pytest

from dualmctx.policies import REGISTRY, Puct

TEXT = (pathlib.Path(__file__).parents[1] / "docs" / "variants.md").read_text()
# A value for each option of the matrix, beside the defaults.
VALUES: dict[str, Any] = {
    "window": 3,
    "max_depth": 5,
    "max_children": 4,
    "kept_nodes": 10,
    "leaves_per_step": 4,
    "virtual_loss": 3,
    "regularized": ("act",),
    "minimax_mix": 0.4,
    "rave_visits": 1000.0,
}


def table(first_column: str) -> list[dict[str, str]]:
    """Returns the rows of the table whose first heading this is."""
    lines = iter(TEXT.splitlines())
    heading = next(line for line in lines if line.startswith(f"| {first_column} |"))
    names = [cell.strip() for cell in heading.strip("|").split("|")]
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append(dict(zip(names, cells, strict=True)))
    return rows


MATRIX = [
    (row["option"].strip("`"), name, cell)
    for row in table("option | alphazero")
    for name, cell in row.items()
    if name != "option"
]


def test_every_variant_has_a_row() -> None:
    assert {row["variant"].strip("`") for row in table("variant | what it is")} == set(REGISTRY)
    assert {name for _, name, _ in MATRIX} == set(REGISTRY)


@pytest.mark.parametrize("name", REGISTRY)
def test_every_option_is_named(name: str) -> None:
    [row] = [x for x in table("variant | what it is") if x["variant"] == f"`{name}`"]
    options = {field.name for field in dataclasses.fields(REGISTRY[name].policy)}  # pyright: ignore
    if "puct" in options:
        named = set(re.findall(r"`(\w+)`", row["options beside `puct`"]))
        assert options - named <= {"puct", "kept_nodes", "num_simulations"}
        assert named <= options


def test_every_option_of_puct_is_named() -> None:
    rows = table("option | what it does")
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row["option"])}
    assert named == {field.name for field in dataclasses.fields(Puct)}


@pytest.mark.parametrize(("option", "name", "cell"), MATRIX)
def test_what_goes_together_does_and_the_rest_is_refused(option: str, name: str, cell: str) -> None:
    assert cell in ("yes", "no")
    policy = REGISTRY[name].policy
    fields = {field.name for field in dataclasses.fields(policy)}  # pyright: ignore
    value = {option: VALUES[option]}
    if option in fields:
        build = functools.partial(policy, **value)
    elif "puct" in fields:
        build = functools.partial(_with_puct, policy(), value)
    else:
        assert cell == "no"
        return
    if cell == "yes":
        build()
    else:
        with pytest.raises(ValueError, match=rf"^{option} is [^\n]+; it must be [^\n]+$"):
            build()


def _with_puct(policy: Any, options: dict[str, Any]) -> Any:
    return dataclasses.replace(policy, puct=dataclasses.replace(policy.puct, **options))


def test_costs_are_computed_right() -> None:
    sums = re.findall(r"\| ([\d·+()− ]+) = (\d+) \|", TEXT)
    assert len(sums) == len(table("variant | formula"))
    for terms, result in sums:
        assert eval(terms.replace("·", "*").replace("−", "-")) == int(result)
