"""Transcripts of Othello: forced passes are added as in pgx's games."""

import functools

import jax
import pytest

import games
from dualmctx.matches.openings import play_randomly
from games.othello_text import split_transcript


@pytest.mark.slow
def test_forced_passes_are_added_to_transcripts() -> None:
    env = games.make("othello")
    keys = jax.random.split(jax.random.PRNGKey(0), 16)
    play = jax.jit(functools.partial(play_randomly, env, lengths=(70,)))
    passes = 0
    for row in play(keys)[0].tolist():
        actions = [action for action in row if action >= 0]
        # The last pass of a game without further moves is not forced by a later move.
        while actions[-1] == 64:
            actions.pop()
        names = games.format_moves(env, None, actions)
        passes += names.count("pass")
        squares = "".join(name for name in names if name != "pass")
        assert games.parse_moves(env, squares) == actions
        assert games.parse_moves(env, "".join(names)) == actions
    assert passes > 5


def test_a_pass_that_is_not_forced_stays_and_other_text_is_no_transcript() -> None:
    assert split_transcript("f5PASS") == ["f5", "pass"]
    # After f5, White may not play a1, but must play something.
    assert split_transcript("f5a1") == ["f5", "a1"]
    assert split_transcript("f5 d6") is split_transcript("f9") is split_transcript("") is None
