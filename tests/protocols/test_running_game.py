"""The positions of a game on the host."""

import jax
import pytest

import games
from compilations import recorded_compilations
from dualmctx.protocols.running_game import RunningGame

FEN = "rnbqk/ppppp/P4/1PPPP/RNBQK b - - 0 1"


@pytest.mark.parametrize(
    ("name", "moves", "fen"),
    [
        ("tic_tac_toe", "5 1", None),
        pytest.param("gardner_chess", "b2b3 d4d3", FEN, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_compiled_after_the_start(name: str, moves: str, fen: str | None) -> None:
    jax.clear_caches()  # Other tests play the same games.
    game = RunningGame(games.make(name))
    game.compile()
    assert game.actions == []
    with recorded_compilations() as events:
        for move in moves.split():
            game.play(game.read(move))
        game.begin()
        if fen is not None:
            game.begin(fen)
            game.play(game.legal()[0])
        assert events == []
