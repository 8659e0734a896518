"""Players in the text form of `dualmctx compare`."""

import re

import pytest

from dualmctx.matches.player_spec import PlayerSpec, parse_player


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dual", PlayerSpec("dual", "dual")),
        (
            "name=dual:simulations=50,35:num-rounds=5",
            PlayerSpec("name", "dual", None, None, (50, 35), (("num_rounds", "5"),)),
        ),
        ("x=runs/c4@newest+gumbel", PlayerSpec("x", "gumbel", "runs/c4")),
        ("old=runs/c4@20+own", PlayerSpec("old", "own", "runs/c4", 20)),
        ("x=dual:window=2:paper", PlayerSpec("x", "dual", options=(("window", "2"),), paper=True)),
        ("x=a+b.safetensors+chain", PlayerSpec("x", "chain", "a+b.safetensors")),
        (
            "x=gtp:timeout=5:a --c=d:e",
            PlayerSpec("x", "gtp", options=(("timeout", "5"),), command="a --c=d:e"),
        ),
        (
            "x=uci:nodes=9:Skill Level=3:sh -c a:b=c",
            PlayerSpec(
                "x", "uci", options=(("nodes", "9"), ("Skill Level", "3")), command="sh -c a:b=c"
            ),
        ),
    ],
)
def test_players_are_read(text: str, expected: PlayerSpec) -> None:
    assert parse_player(text) == expected


def test_kin_differ_in_simulations_only() -> None:
    texts = ["dual", "x=dual:simulations=8,4", "y=dual:window=2", "z=gumbel", "a+dual"]
    texts += ["a@3+dual", "dual:paper"]
    one, other, *rest = (parse_player(text).without_budget() for text in texts)
    assert one == other
    assert len({one, *rest}) == 6


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "write [NAME=][CHECKPOINT[@ITERATION]+]SEARCH[:paper][:OPTION=VALUE ...]"),
        ("name=", "write [NAME=]"),
        ("runs/c4@2x+dual", "the iteration is 2x; it must be a number or newest"),
        ("runs/c4+random", "random plays without a network; remove runs/c4"),
        ("dual:5", "option '5' must be OPTION=VALUE, or paper"),
        ("dual:paper:window=2:paper", "paper is given twice"),
        ("dual:window=", "option 'window=' must be OPTION=VALUE"),
        ("dual:window=1:window=2", "an option is given twice"),
        ("dual:simulations=5,-1", "simulations is 5,-1; it must be a number, or one number per"),
        ("dual:simulations=0,0", "simulations is 0,0; it must be"),
        ("x=uci:nodes=5:", "write [NAME=]uci:[OPTION=VALUE: ...]COMMAND"),
        ("uci:nodes=5:nodes=6:a", "an option is given twice"),
    ],
)
def test_bad_players_are_refused(text: str, line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"player {text!r}: {line}")) as caught:
        parse_player(text)
    assert "\n" not in str(caught.value)
