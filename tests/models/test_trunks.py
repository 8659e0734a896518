"""Trunks are registered by name, fit the observations, and train."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import games
from dualmctx import AlphaZero, Network, make_network
from dualmctx.commands import train
from dualmctx.models.game_model import mask_illegal
from dualmctx.models.trunks import TRUNKS, Trunk, choose_trunk
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import make_trainer


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("auto", (6, 7, 2), "conv"),
        ("auto", (21,), "mlp"),
        ("auto", (5, 2), "mlp"),
        ("conv", (6, 7, 2), "conv"),
        ("mlp", (6, 7, 2), "mlp"),
        ("transformer", (6, 7, 2), "transformer"),
        ("transformer", (21,), "transformer"),
    ],
)
def test_the_trunk_follows_from_name_and_observations(
    name: str, shape: tuple[int, ...], expected: str
) -> None:
    assert choose_trunk(name, shape) == expected


@pytest.mark.parametrize(("shape", "num_tokens"), [((4, 3, 2), 12), ((5, 2), 5), ((7,), 7)])
def test_the_transformer_has_one_token_per_cell_or_feature(
    shape: tuple[int, ...], num_tokens: int
) -> None:
    network = Network(6, "transformer", width=8, num_blocks=2, head_depths=(1, 2))
    observation = jnp.zeros((3, *shape))
    variables = jax.eval_shape(network.init, jax.random.key(0), observation)
    assert variables["params"]["stem"]["position"].shape == (num_tokens, 8)
    activations, _ = jax.eval_shape(
        lambda x: network.apply(x, observation, 0, method="begin"), variables
    )
    assert activations.shape == (3, num_tokens, 8)


class TinyBlock(nn.Module):
    """One dense layer."""

    features: int
    dtype: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return x + nn.Dense(self.features, dtype=self.dtype)(x)


def test_a_new_trunk_is_one_line_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Trunk(
        make_stem=nn.Dense,
        make_block=TinyBlock,
        accepts=lambda shape: len(shape) == 1,
        requirement="observations with one axis",
    )
    monkeypatch.setitem(TRUNKS, "tiny", tiny)
    network = make_network(3, (5,), width=4, num_blocks=2, trunk="tiny")
    params = network.init(jax.random.key(0), jnp.zeros((2, 5)))
    assert set(params["params"]) == {"stem", "blocks_0", "blocks_1", "heads_0", "heads_1"}
    kept, _ = network.apply(params, jnp.ones((2, 5)), 0, method="begin")
    resumed = network.apply(params, kept, 0, 1, method="resume")[1]
    jax.tree.map(np.testing.assert_array_equal, resumed, network.apply(params, jnp.ones((2, 5)))[1])
    with pytest.raises(ValueError, match=r"trunk is tiny, which needs .* one axis; .* use conv or"):
        make_network(3, (5, 5, 1), trunk="tiny")


def test_the_flag_names_every_trunk() -> None:
    for name in TRUNKS:
        config = train.parse(["tic-tac-toe", "--network.trunk", name])[1]
        assert config.network.trunk == name


def optimal_share(env: Any, network: Any, params: Any) -> tuple[float, float]:
    """Returns the shares of positions played optimally by the final head and by random moves."""
    solution = games.solve(env)
    states = games.replay(env, solution.histories)
    legal = np.asarray(states.legal_action_mask)
    logits = jax.jit(network.apply)(params, states.observation)[-1].logits
    action = np.asarray(mask_illegal(logits, states.legal_action_mask)).argmax(axis=-1)
    chosen = solution.optimal_actions[np.arange(len(action)), action]
    by_chance = (solution.optimal_actions & legal).sum(axis=-1) / legal.sum(axis=-1)
    return float(chosen.mean()), float(by_chance.mean())


@pytest.mark.slow
def test_the_transformer_learns_tic_tac_toe() -> None:
    env = games.make("tic_tac_toe")
    network = make_network(9, (3, 3, 2), width=16, num_blocks=2, trunk="transformer")
    trainer = make_trainer(
        env,
        network,
        AlphaZero(8),
        SelfPlay(num_games=64, num_steps=8, temperature_plies=6, random_plies=6),
        Learner(learning_rate=4e-3, batch_size=64, num_updates=24, capacity=4096),
        num_iterations=10,
    )
    state = trainer.init(0)
    iterate, rows = trainer.compile(state), []
    for _ in range(10):
        state, row = iterate(state)
        rows.append(row)
    for head in range(2):
        first, last = rows[0], np.mean([row[f"value_loss_{head}"] for row in rows[-3:]])
        assert last < 0.8 * first[f"value_loss_{head}"]
    share, by_chance = optimal_share(env, network, state.params)
    assert share > by_chance + 0.1
