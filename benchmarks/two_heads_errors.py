"""The errors of two heads of a real network, and the synthetic game that has the same errors.

The model of the errors is that of `benchmarks.two_heads_game`: a head's value is tanh(k v + s e),
where v is the exact value and e has the standard deviation 1. The synthetic game fixes k = 0.9, so
its noise is σ = 0.9 s / k. In the same way, the logits of moves that keep the value exceed those of
other moves by d on average, with a standard deviation t around the two means, and τ = t / d.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
from benchmarks.connect_four import Positions
from benchmarks.two_heads import Cell, compile_search, searches, summarise
from benchmarks.two_heads_game import Heads
from dualmctx.types import Params, PolicyValueNetwork

GAME = "connect_four"
_SIGNAL, _LARGEST = 0.9, 0.9999


class Errors(NamedTuple):
    """The errors of an early head and of the final head.

    Attributes:
      value_noise: σ of both heads.
      prior_noise: τ of both heads.
      correlation: c, of the two heads' errors.
      persistence: ρ, of the final head's error at a position and after a move that keeps the value.
      value_errors: root-mean-square errors of the values of both heads.
      prior_masses: the prior's weight on moves that keep the value, in contested positions.
      keeping: the share of such moves among the legal ones, in contested positions.
      actions: the mean number of legal moves there, rounded.
    """

    value_noise: tuple[float, float]
    prior_noise: tuple[float, float]
    correlation: float
    persistence: float
    value_errors: tuple[float, float]
    prior_masses: tuple[float, float]
    keeping: float
    actions: int


def measure_errors(
    network: PolicyValueNetwork, params: Params, head: int, data: Positions
) -> Errors:
    """Measures the errors of an early head and of the final head in labelled positions."""
    env = games.make(GAME)
    states = games.replay(env, data.histories)
    outputs = _evaluate(network, params, states.observation, head)
    children, is_child = _play_keeping(env, states, data)
    after = _evaluate(network, params, children.observation, head)
    value = data.values
    noises, residuals, persistences = [], [], []
    for (_, found), (_, later) in zip(outputs, after, strict=True):
        noise, residual = fit_value(found, value)
        noises.append(noise)
        residuals.append(residual)
        # The player to move is the other one.
        _, later_residual = fit_value(-later[is_child], value[is_child])
        persistences.append(_correlate(residual[is_child], later_residual))
    legal = ~np.isnan(data.move_values)
    contested = data.keeping.sum(axis=1) < legal.sum(axis=1)
    masks = data.keeping[contested], legal[contested]
    priors = [fit_prior(logits[contested], *masks) for logits, _ in outputs]
    sizes = [float(np.sqrt(np.mean((x - value) ** 2))) for _, x in outputs]
    return Errors(
        value_noise=(noises[0], noises[1]),
        prior_noise=(priors[0][0], priors[1][0]),
        correlation=_correlate(*residuals),
        persistence=persistences[1],
        value_errors=(sizes[0], sizes[1]),
        prior_masses=(priors[0][1], priors[1][1]),
        keeping=float((data.keeping & legal)[contested].sum() / legal[contested].sum()),
        actions=round(float(legal[contested].sum(axis=1).mean())),
    )


def predict(errors: Errors, cell: Cell, number: int) -> dict[str, Any]:
    """Runs the searches of a cell in the synthetic game with the given errors; see `summarise`."""
    heads = Heads(
        errors.value_noise,
        errors.prior_noise,
        # The model has no negative correlations.
        max(0.0, errors.correlation),
        max(0.0, errors.persistence),
        errors.keeping,
    )
    players = searches(cell)
    found = {
        name: compile_search(search, errors.actions, number)(heads, jnp.uint32(0))
        for name, search in players.items()
    }
    return summarise(found, players)


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
    """Fits tanh(k v + s e); returns σ = 0.9 s / k and the errors s e, both of decided positions.

    The errors of drawn positions, which the synthetic game does not have, are 0.
    """
    logit = np.arctanh(np.clip(found, -_LARGEST, _LARGEST))
    decided = value != 0
    signal = float(np.mean(logit[decided] * value[decided]))
    residual = np.where(decided, logit - signal * value, 0.0)
    return _SIGNAL * float(np.std(residual[decided])) / max(signal, 1e-3), residual


def fit_prior(logits: np.ndarray, keeping: np.ndarray, legal: np.ndarray) -> tuple[float, float]:
    """Returns τ of a prior, and its weight on moves that keep the value."""
    odds = np.where(legal, np.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
    mass = float(np.mean((odds * keeping).sum(axis=1) / odds.sum(axis=1)))
    others = legal & ~keeping
    means = [(logits * x).sum(axis=1) / x.sum(axis=1) for x in (keeping, others)]
    centred = logits - np.where(keeping, means[0][:, None], means[1][:, None])
    freedom = legal.sum() - 2 * len(logits)
    spread = np.sqrt((centred[legal] ** 2).sum() / freedom)
    return float(spread / max(np.mean(means[0] - means[1]), 1e-3)), mass


def _correlate(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the correlation where both numbers are defined."""
    is_known = (first != 0) & (second != 0)
    return float(np.corrcoef(first[is_known], second[is_known])[0, 1])
