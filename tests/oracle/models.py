"""Games and networks for the twin: one position at a time."""

from typing import Any

import jax
import numpy as np

import hash_model
from dualmctx.models.game_model import Model
from dualmctx.types import Embedding
from oracle import twin


def _first(tree: Any) -> Any:
    return jax.tree.map(lambda x: np.asarray(x)[0], tree)


class HashModel(twin.Model):
    """The hash game from one seed.

    `final` names the positions that the final head evaluates in place of the first: "nothing", the
    "root" or "all". A terminal position's value is no head's opinion, so it stays.
    """

    def __init__(
        self, seed: int, rules: hash_model.Rules, num_actions: int, final: str = "nothing"
    ) -> None:
        self.seed, self.rules, self.num_actions = seed, rules, num_actions
        self.final = final

    def root(self) -> tuple:
        output = hash_model.roots(np.array([self.seed]), self.rules, self.num_actions, np)
        logits, value = output.prior_logits[0], output.value[0]
        if self.final != "nothing":
            logits, value = self.refine_by(1, output.embedding)
        return logits, value, output.embedding

    def step(self, embedding: Any, action: int) -> tuple:
        output, embedding = hash_model.recurrent_fn(
            self.rules, None, np.array([action]), embedding, self.num_actions, np
        )
        logits, value = output.prior_logits[0], output.value[0]
        if self.final == "all":
            logits, said = self.refine_by(1, embedding)
            value = said if output.discount[0] != 0 else value
        return output.reward[0], output.discount[0], logits, value, embedding

    def refine_by(self, head: int, embedding: Any) -> tuple:
        rules = hash_model.of_head(self.rules, head)
        return _first(hash_model.refine_fn(rules, None, embedding, self.num_actions, np))


class GameModel(twin.Model):
    """A game and a network through the engine's own model functions, jitted for one position."""

    def __init__(self, model: Model) -> None:
        self._root = jax.jit(model.root_fn)
        self._step = jax.jit(model.recurrent_fn)
        self._refine = model.refine_fn and jax.jit(model.refine_fn)

    def at(self, params: Any, state: Any) -> "GameModel":
        """Returns itself, set to a root: an unbatched game state."""
        self.params = params
        self.state = jax.tree.map(lambda x: x[None], state)
        return self

    def root(self) -> tuple:
        output = self._root(self.params, self.state)
        return *_first((output.prior_logits, output.value)), output.embedding

    def step(self, embedding: Any, action: int) -> tuple:
        bare = Embedding(state=embedding.state)
        output, embedding = self._step(self.params, None, np.array([action], np.int32), bare)
        reward, discount, logits, value = _first(
            (output.reward, output.discount, output.prior_logits, output.value)
        )
        return reward, discount, logits, value, embedding

    def refine_by(self, head: int, embedding: Any) -> tuple:
        assert head == 1
        return _first(self._refine(self.params, None, embedding))


class PrunedModel(twin.Model):
    """A model in which only the best actions of the first head are legal."""

    def __init__(
        self, model: twin.Model, max_children: int, counters: twin.Counters, is_legal: Any = None
    ) -> None:
        self.model, self.max_children, self.is_legal = model, max_children, is_legal
        self.counters = counters

    def prune(self, logits: np.ndarray, is_legal: Any = True) -> tuple[np.ndarray, np.ndarray]:
        legal = np.flatnonzero(is_legal & (logits > -1e9))
        best = sorted(legal, key=lambda action: -logits[action])[: self.max_children]
        self.counters.pruned += len(legal) - len(best)
        is_kept = np.isin(np.arange(len(logits)), best)
        return np.where(is_kept, logits, np.finfo(np.float32).min), is_kept

    def root(self) -> tuple:
        logits, value, embedding = self.model.root()
        logits, is_kept = self.prune(logits, True if self.is_legal is None else self.is_legal)
        return logits, value, (embedding, is_kept)

    def step(self, embedding: Any, action: int) -> tuple:
        *edge, logits, value, embedding = self.model.step(embedding[0], action)
        logits, is_kept = self.prune(logits)
        return *edge, logits, value, (embedding, is_kept)

    def refine_by(self, head: int, embedding: Any) -> tuple:
        logits, value = self.model.refine_by(head, embedding[0])
        return np.where(embedding[1], logits, np.finfo(np.float32).min), value
