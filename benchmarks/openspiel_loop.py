"""OpenSpiel's Python AlphaZero as a training loop, for `benchmarks.throughput`.

The loop uses OpenSpiel's own parts: `MCTSBot` with PUCT and noise, `AlphaZeroEvaluator`, whose
cache is empty at the start of each iteration, a network of the same depth and width as ours, and
that model's `update`. An iteration is one game and the fraction of an optimiser step that its
positions are, because each position is learned once. OpenSpiel's program is made for N actor
processes and a learner. Here self-play and learning take turns in one process, so N cores could
make it N times as fast at best. It evaluates one position at a time, without `jax.jit`, as in
OpenSpiel.

Its network differs from ours: batch normalisation where ours normalises over features, no residual
connections between dense layers, one more dense layer in the policy head, and other head widths.

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
# Fraction and alpha of the Dirichlet noise at the root.
NOISE = (0.25, 1.0)
TEMPERATURE_PLIES = 10
TRUNKS = {"conv": "resnet", "mlp": "mlp"}


def depth_of(trunk: str, num_blocks: int) -> int:
    """Returns the depth with which OpenSpiel's network has as many layers as ours.

    Both networks start with one layer. A residual block has two convolutions in both. A block of an
    "mlp" is one dense layer in OpenSpiel and two in ours.
    """
    return num_blocks if trunk == "conv" else 2 * num_blocks + 1


def make_loop(
    network: PolicyValueNetwork, sizes: Sizes, *, trunk: str, width: int, num_blocks: int
) -> Loop:
    """Makes the loop with OpenSpiel's network, or with a network of ours, jitted, without learning.

    Args:
      network: `None` for OpenSpiel's network, or a `dualmctx.models.network.Network`.
      sizes: the sizes of the search and of an optimiser step.
      trunk: trunk of OpenSpiel's network: "conv" for residual blocks or "mlp" for dense layers.
      width: width of OpenSpiel's network.
      num_blocks: number of blocks of our network with the same depth.

    Returns:
      The loop; `init` takes a seed.
    """
    # Importing the model emits warnings.
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
        """Takes an optimiser step on positions, repeated to fill the batch; returns its seconds."""
        repeated = (positions * sizes.batch_size)[: sizes.batch_size]
        observation, mask, weights, value = map(jnp.array, zip(*repeated, strict=True))
        start = time.perf_counter()
        batch = utils.TrainInput(
            observation=observation, legals_mask=mask > 0, policy=weights, value=value
        )
        # `update` reads the losses, so the step is done when it returns.
        model.update(batch)
        return time.perf_counter() - start

    def iterate(model: Any) -> tuple:
        # A new evaluator has an empty cache.
        evaluate = evaluator.AlphaZeroEvaluator(game, model)
        start = time.perf_counter()
        positions = play_game(game, evaluate, sizes.num_simulations)
        selfplay = time.perf_counter() - start
        learning = 0.0
        if network is None:
            learning = learn(model, positions) * len(positions) / sizes.batch_size
        seconds = {"selfplay_seconds": selfplay, "learn_seconds": learning}
        metrics = {"positions": len(positions), "seconds": selfplay + learning}
        return model, metrics | seconds

    return Loop(init, iterate)


def play_game(game: Any, evaluate: mcts.Evaluator, num_simulations: int) -> list[tuple]:
    """Plays a game.

    Returns:
      For each position, the observation, the mask, the policy and the first player's result.
    """
    bot = mcts.MCTSBot(
        game,
        C_PUCT,
        num_simulations,
        evaluate,
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
        sampled = np.random.choice(len(weights), p=weights / weights.sum(dtype=np.float64))
        state.apply_action(int(sampled) if is_opening else root.best_child().action)
    return [(*position, np.float32(state.returns()[0])) for position in positions]


class OurModel:
    """A network of ours with the interface of OpenSpiel's model; it does not learn.

    As in OpenSpiel, the planes of the two players' stones are always in the same order, and values
    are from the first player's view.
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
        """Evaluates a position; returns the value in the first player's view, and the policy."""
        observation = np.asarray(observation, np.float32)
        return jax.device_get(self.call(self.params, observation, np.asarray(mask, bool)))
