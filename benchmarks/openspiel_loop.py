"""OpenSpiel's Python AlphaZero as a training loop, for `benchmarks.throughput`.

Its own pieces: `MCTSBot` with PUCT and noise, `AlphaZeroEvaluator`, whose cache starts anew with
each iteration's weights, its network of the same depth and width, and that model's `update`. An
iteration is a game, and the share of an optimiser step that its positions are, as each is learned
once. It is made for N actor processes and a learner, which are left out: self-play and learning
take turns in this one, so N cores could make it N times as fast at best. It evaluates a position
at a time, without `jax.jit`, as it comes.

Its network is not ours in all: batch normalisation where ours normalises over features, no
residual connections between dense layers, one dense layer more in the policy's head, and heads of
other widths.

Source: OpenSpiel 2 (open_spiel/python/algorithms/alpha_zero/alpha_zero.py: actor and learner).
"""

import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
from open_spiel.python.algorithms import mcts

from benchmarks.pgx_loop import Loop, Sizes
from dualmctx.types import PolicyValueNetwork

GAME = "connect_four"
C_PUCT = 1.25
# Fraction and alpha at the root.
NOISE = (0.25, 1.0)
TEMPERATURE_PLIES = 10
TRUNKS = {"conv": "resnet", "mlp": "mlp"}


def depth_of(trunk: str, num_blocks: int) -> int:
    """Returns the depth that OpenSpiel's network needs to have as many layers as ours.

    Its residual block has two convolutions after a first one, as ours; its block of an "mlp" is one
    dense layer, where ours has two after a first one.
    """
    return num_blocks if trunk == "conv" else 2 * num_blocks + 1


def make_loop(
    network: PolicyValueNetwork, sizes: Sizes, *, trunk: str, width: int, num_blocks: int
) -> Loop:
    """Makes the loop with OpenSpiel's network, or with one of ours, jitted, that does not learn.

    Args:
      network: `None`, or a `dualmctx.models.network.Network` in the place of OpenSpiel's.
      sizes: of the search and of an optimiser step.
      trunk: of OpenSpiel's network, "conv" for residual blocks or "mlp" for dense layers.
      width: likewise.
      num_blocks: blocks of ours, to which OpenSpiel's network is made as deep.

    Returns:
      The loop; `init` takes a seed.
    """
    # Importing the model warns whoever does.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from open_spiel.python.algorithms.alpha_zero import evaluator, model_linen, utils
    game = pyspiel.load_game(GAME)

    def init(seed: int) -> Any:
        if network is not None:
            return OurModel(network, seed)
        shape, actions = game.observation_tensor_shape(), game.num_distinct_actions()
        kind, rate, folder = TRUNKS[trunk], sizes.learning_rate, None
        depth = depth_of(trunk, num_blocks)
        return model_linen.Model.build_model(
            kind, shape, actions, width, depth, 0.0, rate, folder, seed
        )

    def learn(model: Any, positions: list[tuple]) -> float:
        """Takes a step on positions, repeated to fill the batch; returns its seconds."""
        repeated = (positions * sizes.batch_size)[: sizes.batch_size]
        observation, mask, weights, value = map(jnp.array, zip(*repeated, strict=True))
        start = time.perf_counter()
        batch = utils.TrainInput(
            observation=observation, legals_mask=mask > 0, policy=weights, value=value
        )
        # It reads its losses, so it is done when it returns.
        model.update(batch)
        return time.perf_counter() - start

    def iterate(model: Any) -> tuple:
        # A new one has an empty cache.
        judge = evaluator.AlphaZeroEvaluator(game, model)
        start = time.perf_counter()
        positions = play_game(game, judge, sizes.num_simulations)
        selfplay = time.perf_counter() - start
        learning = 0.0
        if network is None:
            learning = learn(model, positions) * len(positions) / sizes.batch_size
        seconds = {"selfplay_seconds": selfplay, "learn_seconds": learning}
        metrics = {"positions": len(positions), "seconds": selfplay + learning}
        return model, metrics | seconds

    return Loop(init, iterate)


def play_game(game: Any, judge: mcts.Evaluator, num_simulations: int) -> list[tuple]:
    """Plays a game; returns observation, mask, policy and the first player's result by position."""
    bot = mcts.MCTSBot(
        game,
        C_PUCT,
        num_simulations,
        judge,
        solve=False,
        dirichlet_noise=NOISE,
        child_selection_fn=mcts.SearchNode.puct_value,
        dont_return_chance_node=True,
    )
    state, positions = game.new_initial_state(), []
    while not state.is_terminal():
        root = bot.mcts_search(state)
        weights = np.zeros(game.num_distinct_actions(), np.float32)
        for child in root.children:
            weights[child.action] = child.explore_count
        weights /= weights.sum()
        positions.append((state.observation_tensor(), state.legal_actions_mask(), weights))
        is_opening = len(positions) <= TEMPERATURE_PLIES
        drawn = np.random.choice(len(weights), p=weights / weights.sum(dtype=np.float64))
        state.apply_action(int(drawn) if is_opening else root.best_child().action)
    return [(*position, np.float32(state.returns()[0])) for position in positions]


class OurModel:
    """A network of ours where OpenSpiel's evaluator expects its own model; it does not learn.

    It reads the planes of the two players' stones, always in the same order, as OpenSpiel's does,
    whose values are the first player's.
    """

    def __init__(self, network: PolicyValueNetwork, seed: int) -> None:
        self.params = network.init(jax.random.PRNGKey(seed), jnp.zeros((1, 6, 7, 2)))

        @jax.jit
        def call(params: Any, observation: Any, mask: Any) -> tuple:
            planes = jnp.moveaxis(observation.reshape(3, 6, 7)[1:], 0, -1)
            output = network.apply(params, planes[None])[-1]
            logits = jnp.where(mask, output.logits[0], -jnp.inf)
            return output.value[0], jax.nn.softmax(logits)

        self.call = call

    def inference(self, observation: Any, mask: Any) -> tuple:
        """Evaluates a position; returns the first player's value and the policy."""
        observation = np.asarray(observation, np.float32)
        return jax.device_get(self.call(self.params, observation, np.asarray(mask, bool)))
