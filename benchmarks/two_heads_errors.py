"""The errors of two heads of a real network, and the synthetic game that has the same errors.

The model of the errors is that of `benchmarks.two_heads_game`. A head's value is tanh(k v + σ e),
where v is the exact value and e has the standard deviation 1. The logits of moves that keep the
value exceed those of other moves by d on average, with the standard deviation τ around both means.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
from benchmarks.connect_four import Positions
from benchmarks.two_heads import Cell, compile_search, searches, summarise
from benchmarks.two_heads_game import EARLY, FINAL, Heads, evaluate, roots
from dualmctx.types import Environment, Params, PolicyValueNetwork

_LARGEST = 0.9999


class HeadErrors(NamedTuple):
    """The errors of a head.

    Attributes:
      value_signal: k.
      value_noise: σ.
      value_error: the root-mean-square error of the values.
      persistence: ρ, of the error at a position and after a move that keeps the value.
      prior_signal: d, in contested positions.
      prior_noise: τ.
      prior_mass: the prior's weight on moves that keep the value.
    """

    value_signal: float
    value_noise: float
    value_error: float
    persistence: float
    prior_signal: float
    prior_noise: float
    prior_mass: float


class Errors(NamedTuple):
    """The errors of an early head and of the final head.

    Attributes:
      early: those of the early head.
      final: those of the final head.
      value_correlation: c, of the errors of the two values.
      prior_correlation: c, of the errors of the two priors.
      keeping: the share of moves that keep the value among the legal ones of contested positions.
      actions: the mean number of legal moves there, rounded.
    """

    early: HeadErrors
    final: HeadErrors
    value_correlation: float
    prior_correlation: float
    keeping: float
    actions: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields, those of the heads too, by name."""
        return self._asdict() | {"early": self.early._asdict(), "final": self.final._asdict()}


def measure_errors(
    env: Environment, network: PolicyValueNetwork, params: Params, head: int, data: Positions
) -> Errors:
    """Measures the errors of an early head and of the final head in labelled positions."""
    states = games.replay(env, data.histories)
    outputs = _evaluate(network, params, states.observation, head)
    children, goes_on = _play_keeping(env, states, data)
    after = _evaluate(network, params, children.observation, head)
    contested, value = data.is_contested, data.values
    masks = data.keeping[contested], data.legal[contested]
    heads, value_errors, prior_errors = [], [], []
    for (logits, found), (_, later) in zip(outputs, after, strict=True):
        signal, errors = fit_value(found, value)
        # The player to move is the other one.
        _, later_errors = fit_value(-later[goes_on], value[goes_on])
        d, spread = fit_prior(logits[contested], *masks)
        row = HeadErrors(
            value_signal=signal,
            value_noise=float(np.std(errors[value != 0])),
            value_error=float(np.sqrt(np.mean((found - value) ** 2))),
            persistence=_correlate(errors[goes_on], later_errors),
            prior_signal=d,
            prior_noise=float(np.sqrt((spread**2).sum() / (masks[1].sum() - 2 * len(spread)))),
            prior_mass=prior_mass(logits[contested], *masks),
        )
        heads.append(row)
        value_errors.append(errors)
        prior_errors.append(spread)
    return Errors(
        *heads,
        value_correlation=_correlate(*value_errors),
        prior_correlation=_correlate(*prior_errors),
        keeping=float(masks[0].sum() / masks[1].sum()),
        actions=round(float(masks[1].sum(axis=1).mean())),
    )


def make_heads(errors: Errors) -> Heads:
    """Returns the synthetic game with these errors; it has no negative correlations."""
    early, final = errors.early, errors.final
    return Heads(
        value_noise=(early.value_noise, final.value_noise),
        prior_noise=(early.prior_noise, final.prior_noise),
        correlation=max(0.0, errors.value_correlation),
        persistence=max(0.0, final.persistence),
        keeping=errors.keeping,
        value_signal=(early.value_signal, final.value_signal),
        prior_signal=(early.prior_signal, final.prior_signal),
    )


def predict(errors: Errors, cell: Cell, number: int) -> dict[str, Any]:
    """Runs the searches of a cell in the synthetic game with the given errors; see `summarise`."""
    heads, players = make_heads(errors), searches(cell)
    found = {
        name: compile_search(search, errors.actions, number)(heads, jnp.uint32(0))
        for name, search in players.items()
    }
    return summarise(found, players)


def model_masses(errors: Errors, number: int) -> tuple[float, float]:
    """Returns the prior's weight on moves that keep the win in the synthetic game, by each head."""
    heads = make_heads(errors)
    state = roots(0, number, heads, errors.actions)
    masses = [
        jnp.sum(jnp.exp(evaluate(heads, state, mix)[0]) * state.keeps, axis=1).mean()
        for mix in (EARLY, FINAL)
    ]
    return float(masses[0]), float(masses[1])


def _evaluate(
    network: PolicyValueNetwork, params: Params, observation: Any, head: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns `[S, A]` logits and `[S]` values of an early head and of the final head."""
    found = []
    for each in (head, len(network.head_depths) - 1):
        _, output = jax.jit(lambda p, x, each=each: network.apply(p, x, each, method="begin"))(
            params, observation
        )
        found.append((np.asarray(output.logits, np.float64), np.asarray(output.value, np.float64)))
    return found


def _play_keeping(env: Any, states: Any, data: Positions) -> tuple[Any, np.ndarray]:
    """Plays a random move that keeps the value in each position.

    Returns:
      The positions after the moves, and `[S]` bool, whether the game goes on.
    """
    rng = np.random.default_rng(0)
    moves = np.argmax(rng.random(data.keeping.shape) * data.keeping, axis=1)
    children = jax.jit(jax.vmap(env.step))(states, jnp.asarray(moves))
    return children, ~np.asarray(children.terminated | children.truncated)


def fit_value(found: np.ndarray, value: np.ndarray) -> tuple[float, np.ndarray]:
    """Fits tanh(k v + σ e) in decided positions; returns k and `[S]` errors σ e.

    The errors of drawn positions, which the synthetic game does not have, are 0.
    """
    logit = np.arctanh(np.clip(found, -_LARGEST, _LARGEST))
    decided = value != 0
    signal = float(np.mean(logit[decided] * value[decided]))
    return signal, np.where(decided, logit - signal * value, 0.0)


def fit_prior(
    logits: np.ndarray, keeping: np.ndarray, legal: np.ndarray
) -> tuple[float, np.ndarray]:
    """Fits the logits of contested positions; returns d and `[S, A]` errors τ m.

    The errors are 0 at illegal moves.
    """
    others = legal & ~keeping
    means = [(logits * x).sum(axis=1) / x.sum(axis=1) for x in (keeping, others)]
    centred = logits - np.where(keeping, means[0][:, None], means[1][:, None])
    return float(np.mean(means[0] - means[1])), np.where(legal, centred, 0.0)


def prior_mass(logits: np.ndarray, keeping: np.ndarray, legal: np.ndarray) -> float:
    """Returns the mean weight of a prior on moves that keep the value."""
    odds = np.where(legal, np.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
    return float(np.mean((odds * keeping).sum(axis=1) / odds.sum(axis=1)))


def _correlate(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the correlation where both numbers are defined."""
    is_known = (first != 0) & (second != 0)
    return float(np.corrcoef(first[is_known], second[is_known])[0, 1])
