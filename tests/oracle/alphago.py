"""The twin of AlphaGo, and rollouts of the hash game with a random outcome per position.

Written from Silver et al. 2016, Methods, and the readings in `dualmctx.policies.alphago`.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hash_model
from dualmctx.policies.alphago import AlphaGo
from oracle import leaves, twin
from oracle.models import PrunedModel

FATE = 4242  # the salt of a position's chance of a win


def hash_rollout(params: Any, rng_key: Any, embedding: Any) -> Any:
    """Wins if the sample of the rollout's key is below the position's hash, otherwise loses.

    Outcomes have the scale of the game's values, so where all positions look the same, all outcomes
    are 0. Otherwise rounding would decide ties: the engine's running mean of as many wins as losses
    may differ from 0 in the last bit, and the twin's mean, from the sum, does not.
    """
    fate = hash_model._uniform(embedding.state, FATE, jnp)
    return params.spread * jnp.where(luck(rng_key, fate.shape[0]) < fate, 1.0, -1.0)


@functools.partial(jax.jit, static_argnums=1)
def luck(rng_key: Any, number: int) -> Any:
    """Returns a uniform sample for each of `number` rollouts, with separate keys."""
    return jax.vmap(jax.random.uniform)(jax.random.split(rng_key, number))


@dataclasses.dataclass(frozen=True)
class HashAlphaGo(AlphaGo):
    """AlphaGo with the hash game's rollouts, called like the other policies."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return super().__call__(*args, rollout_fn=hash_rollout, **options)


class Search(leaves.Search):
    """The twin whose values are a mix of the model's value and the rollout's outcome."""

    def __init__(self, task: twin.Task) -> None:
        options = task.options
        self.mix, self.element = options.rollout_mix, task.element
        self.rollouts = 0
        # Rollouts are drawn for all places of a step, those without a leaf too.
        self.together = min(options.execution.leaves_per_step, options.num_simulations)
        super().__init__(task)

    def roll_out(self, embedding: Any, number: int, place: int) -> float:
        """Returns the outcome of the rollout in one of the `number` places of a batch."""
        self.rollouts += 1
        # With `max_children`, the actions that are kept stand beside the embedding.
        while not hasattr(embedding, "state"):
            embedding = embedding[0]
        fate = hash_model._uniform(np.asarray(embedding.state), FATE, np)[0]
        is_won = np.asarray(luck(self.rollout_key, number))[place] < fate
        model: Any = self.model.model if isinstance(self.model, PrunedModel) else self.model
        return model.rules.spread * (1.0 if is_won else -1.0)

    def value_root(self, rng_key: Any) -> None:
        self.rollout_key = rng_key
        index, size = self.element
        outcome = self.roll_out(self.root.embedding, size, index)
        self.root.raw = (1 - self.mix) * self.root.raw + self.mix * outcome
        self.root.stats[twin.SMALL].total = self.root.raw

    def create(self, parent: twin.Node, action: int, tree: int) -> twin.Node:
        node = super().create(parent, action, tree)
        if node.discount != 0:
            index, size = self.element
            place = index * self.together + self.place
            outcome = self.roll_out(node.embedding, size * self.together, place)
            node.raw = (1 - self.mix) * node.raw + self.mix * outcome
        elif self.mix == 1:
            node.raw = 0.0  # without a value head, the end of a game has no value of the model
        return node

    def grow(self, rng_key: Any, num_left: int) -> tuple[Any, int]:
        """Runs a step; returns the key of the next step and the number of remaining simulations."""
        rng_key, select_key, expand_key = jax.random.split(rng_key, 3)
        self.rollout_key = jax.random.split(expand_key)[1]
        self.place = 0
        if self.options.execution.leaves_per_step == 1:
            draws = self.make_draws(select_key, self.element) if self.needs_draws else None
            self.simulate(twin.SMALL, draws)
            return rng_key, num_left - 1
        return rng_key, num_left - self.step(min(self.together, num_left))


def alphago(task: twin.Task) -> twin.Result:
    """AlphaGo's search."""
    rng_key, root_key = jax.random.split(task.rng_key)
    _, search_key, _ = jax.random.split(rng_key, 3)
    search = Search(task)
    if task.kept is None:
        search.value_root(root_key)
    num_left = task.options.num_simulations
    while num_left:
        search_key, num_left = search.grow(search_key, num_left)
    return search.finish()
