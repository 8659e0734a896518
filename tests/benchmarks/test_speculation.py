"""The searches of `benchmarks.speculation` are the engine's, with and without guesses."""

from typing import Any

import jax
import numpy as np
import pytest

import dualmctx
import games
from benchmarks import speculation
from benchmarks.connect_four import as_histories
from dualmctx import AlphaZero, load_trained

SIMULATIONS = 40
# The start, a position with few moves left, and one in the middle.
GAMES = [[], [3, 3, 3, 3, 3, 3, 2, 4, 1, 0, 6], [3, 2, 3, 4, 1]]


@pytest.fixture(scope="module")
def searched() -> tuple[list[Any], Any]:
    """Returns the positions below the roots, and the engine's output."""
    trained = load_trained("connect-four")
    states = games.replay(trained.env, as_histories(GAMES))
    policy = AlphaZero(SIMULATIONS).for_evaluation()
    search = jax.jit(dualmctx.make_search_fn(trained.env, trained.network, policy))
    output = search(trained.params, jax.random.PRNGKey(0), states)
    step = speculation.compile_step(trained.network, trained.params, 0)
    each = [jax.tree.map(lambda x, i=i: x[i], states) for i in range(len(GAMES))]
    return [speculation.Positions(step, state) for state in each], output


@pytest.mark.parametrize("kind", ["early", "parent"])
@pytest.mark.parametrize("width", [1, 5])
def test_guesses_save_calls_and_change_nothing(searched: Any, kind: str, width: int) -> None:
    roots, output = searched
    for positions, weights in zip(roots, np.asarray(output.action_weights), strict=True):
        tree, calls, guessed, used = speculation.count_calls(kind, positions, SIMULATIONS, width)
        np.testing.assert_allclose(tree.visits[()], SIMULATIONS * weights, atol=1e-4)
        new = len(tree.priors) - 1
        if width == 1:
            assert (calls, guessed, used) == (new, 0, 0)
        else:
            assert new / width <= calls < new
            assert used == new - calls
            assert used <= guessed <= calls * (width - 1)


def test_the_benchmark_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    speculation.main(["--quick"])
    shown = capsys.readouterr().out
    assert "8 simulations, 2 roots" in shown
    with pytest.raises(SystemExit, match="simulations is 0"):
        speculation.main(["--simulations", "0"])
