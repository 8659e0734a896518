"""A game without rules: all properties of a position are hashes of the actions that led to it.

One set of functions serves the engine, with `xp=jax.numpy`, and the twin, with `xp=numpy`. Whatever
decides the shape of the game (who moves, what is legal, where it ends) comes out the same, bit by
bit; values and logits do up to the last bit.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import mctx
import numpy as np

from dualmctx.types import Embedding

_MASK_LOGIT = float(np.finfo(np.float32).min)


class Rules(NamedTuple):
    """The kind of game; passed as the policy's `params`, so it is not static.

    Probabilities are in [0, 1] and apply to each position or action by itself.
    """

    terminal: Any = 0.1
    """that a position is terminal."""
    same_player: Any = 0.0
    """that the player who moved moves again."""
    illegal: Any = 0.2
    """that an action is illegal; one action is always legal."""
    reward: Any = 0.0
    """Size of the rewards on edges to positions that are not terminal."""
    noise: Any = 0.8
    """Share of the intermediate head's output that the final head disagrees with."""
    spread: Any = 1.0
    """Scale of logits, values, rewards and rollouts; 0 makes every position look the same."""
    final_salt: Any = 0
    """Changes what the final head says and nothing else."""


def roots(seeds: Any, rules: Rules, num_actions: int, xp: Any = jnp) -> mctx.RootFnOutput:
    """Returns `[B]` roots, evaluated by the intermediate head."""
    code = _scramble(xp.asarray(seeds).astype(xp.uint32) + xp.uint32(77), xp)
    logits, value = _head(code, rules, num_actions, xp, is_final=False)
    return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=_embed(code))


def recurrent_fn(
    rules: Rules, rng_key: Any, action: Any, embedding: Any, num_actions: int, xp: Any = jnp
) -> tuple[mctx.RecurrentFnOutput, Embedding]:
    """Plays actions, evaluates with the intermediate head; terminal positions have a value too."""
    del rng_key
    code = _scramble(embedding.state * xp.uint32(31) + xp.asarray(action).astype(xp.uint32), xp)
    is_terminal = _uniform(code, 1, xp) < rules.terminal
    sign = xp.where(_uniform(code, 2, xp) < rules.same_player, 1.0, -1.0)
    result = xp.floor(_uniform(code, 3, xp) * 3) - 1
    passing = rules.reward * (2 * _uniform(code, 4, xp) - 1)
    logits, value = _head(code, rules, num_actions, xp, is_final=False)
    output = mctx.RecurrentFnOutput(
        reward=(rules.spread * xp.where(is_terminal, result, passing)).astype(xp.float32),
        discount=xp.where(is_terminal, 0.0, sign).astype(xp.float32),
        prior_logits=logits,
        value=value,
    )
    return output, _embed(code)


def refine_fn(
    rules: Rules, rng_key: Any, embedding: Any, num_actions: int, xp: Any = jnp
) -> tuple[Any, Any]:
    """Evaluates with the final head, from the activations alone."""
    del rng_key
    code = embedding.activations[..., 0] ^ xp.uint32(0xABCDEF)
    return _head(code, rules, num_actions, xp, is_final=True)


def of_head(rules: Rules, head: int) -> Rules:
    """Returns the rules of the head-th later head, counted from 1."""
    return rules._replace(final_salt=rules.final_salt + head - 1)


def refine_fns(num_heads: int, num_actions: int) -> Any:
    """Returns the functions of all later heads, as a policy takes them; `None` for none."""

    def refine_by(head: int) -> Any:
        return lambda rules, rng_key, embedding: refine_fn(
            of_head(rules, head), rng_key, embedding, num_actions
        )

    fns = tuple(refine_by(head) for head in range(1, num_heads))
    return fns if len(fns) > 1 else next(iter(fns), None)


def search(
    policy: Any, rules: Rules, rng_key: Any, roots_or_seeds: Any, num_actions: int, **arguments: Any
) -> mctx.PolicyOutput:
    """Calls a policy, with `arguments`, from roots of the hash game or from their seeds `[B]`."""
    return begin(policy, rules, rng_key, roots_or_seeds, num_actions, run=policy, **arguments)


def begin(
    policy: Any,
    rules: Rules,
    rng_key: Any,
    roots_or_seeds: Any,
    num_actions: int,
    *,
    run: Any = None,
    **arguments: Any,
) -> Any:
    """Sets up a search as `search` does, or calls another function that takes the arguments."""

    def step(*inputs: Any) -> tuple[mctx.RecurrentFnOutput, Embedding]:
        return recurrent_fn(*inputs, num_actions)

    root = roots_or_seeds
    if not isinstance(root, mctx.RootFnOutput):
        root = roots(root, rules, num_actions)
    later = refine_fns(len(policy.heads), num_actions)
    return (run or policy.init)(rules, rng_key, root, step, later, **arguments)


def _embed(code: Any) -> Embedding:
    # The activations are a transformed state, so a mix-up of the two is detected.
    return Embedding(state=code, activations=code[..., None] ^ np.uint32(0xABCDEF))


def _head(code: Any, rules: Rules, num_actions: int, xp: Any, *, is_final: bool) -> tuple:
    def opinions(salt: Any) -> Any:
        shared = _uniform(code[..., None], salt, xp)
        own_salt = 1000 + salt + (1000 * (1 + rules.final_salt) if is_final else 0)
        own = _uniform(code[..., None], own_salt, xp)
        return rules.spread * (2 * (shared + rules.noise * (own - shared)) - 1)

    actions = xp.arange(num_actions, dtype=xp.uint32)
    is_illegal = _uniform(code[..., None], xp.uint32(100) + actions, xp) < rules.illegal
    is_illegal &= (
        actions.reshape((1,) * code.ndim + (-1,)) != (code % xp.uint32(num_actions))[..., None]
    )
    said = opinions(xp.arange(200, 201 + num_actions))  # one logit per action, and the value
    logits = xp.where(is_illegal, _MASK_LOGIT, 2 * said[..., :-1])
    return logits.astype(xp.float32), (0.9 * said[..., -1]).astype(xp.float32)


def _uniform(code: Any, salt: Any, xp: Any) -> Any:
    """Returns floats in [0, 1), multiples of 2^-16, different for each salt."""
    salt = xp.asarray(salt).astype(xp.uint32)
    salt = salt.reshape((1,) * (code.ndim - salt.ndim) + salt.shape)
    with np.errstate(over="ignore"):
        salted = code + salt * xp.uint32(0x85EBCA6B)
    bits = _scramble(salted, xp) >> xp.uint32(16)
    return bits.astype(xp.float32) / np.float32(65536)


def _scramble(x: Any, xp: Any) -> Any:
    x = (x ^ (x >> xp.uint32(16))) * xp.uint32(0x7FEB352D)
    x = (x ^ (x >> xp.uint32(15))) * xp.uint32(0x846CA68B)
    return x ^ (x >> xp.uint32(16))
