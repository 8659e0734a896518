import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
)
import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

import dualmctx
import games

env = games.make("nim")
states = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.PRNGKey(0), 4))
network = dualmctx.make_network(env.num_actions, env.observation_shape, trunk="mlp", width=8)
params = jax.jit(network.init)(jax.random.PRNGKey(1), states.observation)
search = dualmctx.make_search_fn(env, network, dualmctx.AlphaZero(num_simulations=4))
keys, mesh, rows = (
    jax.random.split(jax.random.key(2), 4),
    Mesh(jax.devices(), "x"),
    PartitionSpec("x"),
)


def actions(params, keys, states):
    return search(params, keys, states).action


specs = (PartitionSpec(), rows, rows)
share = jax.shard_map(actions, mesh=mesh, in_specs=specs, out_specs=rows, check_vma=False)
print(
    np.asarray(jax.jit(share)(params, keys, states)),
    np.asarray(jax.jit(actions)(params, keys, states)),
)
