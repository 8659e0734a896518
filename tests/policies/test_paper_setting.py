"""The setting of the paper: complete, whatever the defaults are, and changed by options."""

import dataclasses
from typing import Any

import pytest

from dualmctx import Backup, Dual, Execution, Puct, Root
from dualmctx.errors import UserError
from dualmctx.policies import REGISTRY, paper_setting

# The same as in section 4 of the paper and docs/reproduce.md, written a second time.
SETTING: dict[str, Any] = {
    "num_simulations": (50, 35),
    "num_rounds": 1,
    "value_mix": 0.25,
    "prior_mix": 0.25,
    "action_weights": "large_visits",
    "puct": {"c_puct": 1.25, "regularized": (), "minimax_mix": 0.0, "rave_visits": None},
    "root": {
        "dirichlet_fraction": 0.25,
        "dirichlet_alpha": 0.3,
        "temperature": 1.0,
        "visit_weights": "plain",
    },
    "backup": {"window": None, "explore_fraction": 0.05, "explore_decay": 0.5},
    "execution": {
        "max_depth": None,
        "max_children": None,
        "leaves_per_step": 1,
        "virtual_loss": 0,
        "speculation": 1,
        "kernels": "auto",
    },
    "reuse_capacity": 0,
}


def test_the_setting_of_the_paper_has_these_values() -> None:
    assert dataclasses.asdict(Dual.paper()) == SETTING
    assert paper_setting("dual") == Dual.paper()


def test_the_setting_of_the_paper_uses_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new option, or a new default, must not change it."""
    for cls in (Dual, Puct, Root, Backup, Execution):
        monkeypatch.setattr(cls.__init__, "__defaults__", None)
        with pytest.raises(TypeError, match=r"missing .* required positional argument"):
            cls()
    assert dataclasses.asdict(Dual.paper()) == SETTING


def test_options_change_the_setting_of_the_paper() -> None:
    changed = Dual.paper(window=15, num_rounds=5)
    assert changed == dataclasses.replace(Dual.paper(), num_rounds=5, backup=Backup(window=15))
    with pytest.raises(UserError, match=r"^Dual has no option rounds; it has num_simulations, "):
        Dual.paper(rounds=5)
    with pytest.raises(UserError, match=r"^num_rounds is 99; it must be"):
        Dual.paper(num_rounds=99)


@pytest.mark.parametrize("variant", [*sorted(REGISTRY.keys() - {"dual"}), "own"])
def test_other_variants_have_no_setting_of_a_paper(variant: str) -> None:
    with pytest.raises(UserError, match=f"^the setting paper is for {variant}; .* one of dual$"):
        paper_setting(variant)
