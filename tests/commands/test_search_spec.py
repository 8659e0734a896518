"""Searches that are specified on the command line with options."""

import pytest

from dualmctx import Dual
from dualmctx.commands.search import build_search
from dualmctx.errors import UserError
from dualmctx.policies import REGISTRY, with_options
from dualmctx.runs.folder import to_dict

SAVED = with_options(REGISTRY["dual"].policy(), window=7)
RECORD = {"search": {"variant": "dual"} | to_dict(SAVED)}


@pytest.mark.parametrize(
    ("text", "simulations", "variant", "changes"),
    [
        (None, None, "dual", {"window": 7}),
        ("own:c_puct=2.5", None, "dual", {"window": 7, "c_puct": 2.5}),
        ("dual:num-rounds=10", None, "dual", {"num_rounds": 10}),
        ("dual:num_rounds=10", (40, 20), "dual", {"num_simulations": (40, 20), "num_rounds": 10}),
        ("dual:simulations=40,20", None, "dual", {"num_simulations": (40, 20)}),
        ("alphazero:window=none:simulations=9", None, "alphazero", {"num_simulations": 9}),
        ("alphazero:regularized=act,learn", None, "alphazero", {"regularized": ("act", "learn")}),
        # Options that are only valid together.
        (
            "alphazero:leaves_per_step=4:virtual_loss=2",
            None,
            "alphazero",
            {"leaves_per_step": 4, "virtual_loss": 2},
        ),
    ],
)
def test_options_change_the_search(text, simulations, variant, changes):
    expected = with_options(REGISTRY[variant].policy(), **changes)
    assert build_search(RECORD, text, simulations) == expected


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("dual:window=15:paper", {"window": 15}),
        ("dual:paper:simulations=8,4:num_rounds=3", {"num_simulations": (8, 4), "num_rounds": 3}),
        ("dual:paper:simulations=17", {"num_simulations": (10, 7)}),
    ],
)
def test_options_start_from_the_setting_of_the_paper(text, changes):
    assert build_search(RECORD, text) == Dual.paper(**changes)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("duel:c_puct=1", "^variant is duel; it must be one of dual, "),
        ("dual:rounds=2", "^variant 'dual:rounds=2': dual has no option rounds; it has simul"),
        ("dual:num_rounds", "^variant 'dual:num_rounds': option 'num_rounds' must be OPTION="),
        ("dual:num_rounds=x", "num_rounds=x': num_rounds is 'x'; it must be a whole number$"),
        ("dual:num_rounds=" + "9" * 5000, r"num_rounds is '999.*9\.\.\.9.*'; it must be a whole"),
        ("dual:num_rounds=\ud800", r"num_rounds is '\\ud800'; it must be a whole number$"),
        ("dual:num_rounds=2\0", r"num_rounds is '2\\x00'; it must be a whole number$"),
        ("dual:c_puct=nan", "c_puct is nan; it must be positive and finite$"),
        ("alphazero:window=0x3", "window is '0x3'; it must be a whole number or \"none\"$"),
        ("alphazero:kernels=maybe", "kernels is 'maybe'; it must be one of 'auto', 'on', 'off', "),
        ("own:paper", "^the setting paper is for own; it must be for one of dual$"),
        ("net+dual", r"^variant 'net\+dual': write SEARCH\[:paper\]\[:OPTION=VALUE"),
    ],
)
def test_invalid_specifications_raise(text, error):
    with pytest.raises(UserError, match=error):
        build_search(RECORD, text)


def test_simulations_cannot_be_given_twice():
    with pytest.raises(UserError, match=r"given twice: \(4,\) in the variant, and \(5,\)"):
        build_search(RECORD, "alphazero:simulations=4", (5,))
