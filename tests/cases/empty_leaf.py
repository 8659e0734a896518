import jax
import jax.numpy as jnp
import mctx

import dualmctx

logits, value = jnp.zeros((2, 3)), jnp.zeros(2)


def recurrent_fn(params, key, action, embedding):
    step = mctx.RecurrentFnOutput(
        reward=value, discount=-jnp.ones(2), prior_logits=logits, value=value
    )
    return step, embedding


def refine_fn(params, key, embedding):
    size = embedding[0].shape[0]
    return jnp.zeros((size, 3)), jnp.zeros(size)


root = mctx.RootFnOutput(
    prior_logits=logits, value=value, embedding=(jnp.zeros(2, jnp.int32), jnp.zeros((2, 0)))
)
policy = dualmctx.Dual(num_simulations=(4, 2), num_rounds=2)  # also MPV, and leaves_per_step=2
print(policy(None, jax.random.key(0), root, recurrent_fn, refine_fn).action)
