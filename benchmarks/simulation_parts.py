"""The parts of one simulation as programs that run in loops, for `benchmarks.phases`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import games
from benchmarks.common import make_params
from benchmarks.dual import make_positions
from dualmctx.experiment.assemble import record_of
from dualmctx.models.game_model import make_model
from dualmctx.models.packing import drop_observation, pack_bits
from dualmctx.models.search_fn import make_search_fn
from dualmctx.policies import AlphaZero, Execution, Root
from dualmctx.policies.search_setup import make_search_spec, set_up_search
from dualmctx.policies.top_actions import Inputs
from dualmctx.runs.network_record import build_network
from dualmctx.search.expand import Expansion, evaluate_path, insert_embeddings
from dualmctx.search.phases import run_steps, start_search
from dualmctx.search.simulate import SearchSpec
from dualmctx.search.slots import slot_actions
from dualmctx.search.tree import Tree, get_state
from dualmctx.training.presets import PRESETS
from dualmctx.types import LastEdge

KEY = jax.random.key
# A number that no array of a search holds.
_NEVER = -12345.0


class Program(NamedTuple):
    """A program to run in a loop.

    Attributes:
      run: `(inputs, carry) -> carry`. The result must depend on the carry; see `depend`.
      inputs: arrays that are the same in all iterations.
      carry: the carry of the first iteration.
      short: iterations of the short loop.
    """

    run: Callable[[Any, Any], Any]
    inputs: Any
    carry: Any
    short: int = 8


class Subject(NamedTuple):
    """A search to profile: `[B]` states, the policy, and the options of `make_model`."""

    preset: str
    env: Any
    network: Any
    params: Any
    policy: AlphaZero
    states: Any
    options: dict[str, Any]


class Moment(NamedTuple):
    """A search after half of its simulations, and the results of the parts of the next one.

    Attributes:
      spec: the functions of a simulation.
      tree: the trees.
      slot: the slot of the next node.
      path: the result of the walk.
      before: `[B]` states of the leaves' parents.
      action: `[B]` int32, the actions of the game that lead to the leaves.
      after: `[B]` states of the leaves.
      found: the result of the evaluation, which the backup writes into the new nodes.
    """

    spec: SearchSpec
    tree: Tree
    slot: int
    path: LastEdge
    before: Any
    action: Any
    after: Any
    found: Expansion

    @property
    def depth(self) -> float:
        """The mean number of edges of the walks."""
        return float(jnp.mean(self.path.depth))


def depend(inputs: Any, carry: Any) -> Any:
    """Returns the inputs, unchanged, in a form that XLA must compute anew for each carry."""
    is_never = jnp.ravel(jax.tree.leaves(carry)[0])[0].astype(jnp.float32) == _NEVER
    return jax.tree.map(lambda x: jnp.where(is_never, jnp.zeros_like(x), x), inputs)


def open_subject(preset: str, batch_size: int, num_simulations: int) -> Subject:
    """Makes the search of a preset, from positions of all stages of random games."""
    config = PRESETS[preset]
    env = games.make(config.game, **config.game_parameters)
    network = build_network(record_of(preset, config), env)
    states = make_positions(env, "all", batch_size)
    max_children = config.search.execution.max_children
    policy = AlphaZero(
        num_simulations,
        root=Root(dirichlet_fraction=0.0),
        execution=Execution(max_children=max_children),
    )
    params = make_params(network, states, 0)
    return Subject(preset, env, network, params, policy, states, config.network.model_kwargs())


def run_half(subject: Subject) -> Moment:
    """Runs half of the simulations of a search, and the parts of the next simulation."""
    env, policy, params = subject.env, subject.policy, subject.params
    model = make_model(env, subject.network, heads=policy.heads, **subject.options)
    root = jax.jit(model.root_fn)(params, subject.states)
    inputs = Inputs(root, model.recurrent_fn, None, ~subject.states.legal_action_mask)

    number = policy.num_simulations
    setup = set_up_search(inputs, policy.backup, policy.execution, num_new=number)
    half = number // 2
    spec = make_search_spec(policy, setup.evaluate_fn, num_simulations=setup.max_path)
    first = setup.first_slot

    @jax.jit
    def run(params: Any, tree: Tree) -> Any:
        search = start_search(KEY(1), tree, spec, rounds=((half,),), first_slot=first)
        tree = run_steps(params, search).tree
        path = spec.descend(KEY(2), tree)
        embedding = get_state(tree, path.parent)
        found = evaluate_path(params, KEY(3), tree, spec.evaluate_fn, path)
        actions = slot_actions(tree, path.parent)
        action = jnp.take_along_axis(actions, path.action[:, None], axis=1)[:, 0]
        before = choose_packing(subject).unpack(embedding.state)
        return tree, path, before, action, jax.vmap(env.step)(before, action), found

    tree, *parts = run(params, setup.tree)
    return Moment(spec, tree, first + half, *parts)


def choose_packing(subject: Subject) -> Any:
    """Returns the form in which the nodes store the states."""
    if not subject.options["compact_states"]:
        return drop_observation()
    example: Any = jax.eval_shape(lambda: subject.env.init(KEY(0)))
    return pack_bits(example, subject.env.state_ranges)


def make_programs(subject: Subject, moment: Moment) -> dict[str, Program]:
    """Makes the program of each part, and that of an empty loop."""
    spec, head = moment.spec, len(subject.network.head_depths) - 1

    def walk(tree: Tree, path: LastEdge) -> LastEdge:
        # All are active, but XLA does not know it.
        return spec.descend(KEY(2), tree, path.depth >= 0)

    def step(inputs: Any, after: Any) -> Any:
        return jax.vmap(subject.env.step)(*depend(inputs, after))

    def apply(params: Any, observation: Any) -> Any:
        return subject.network.apply(params, observation, head, method="begin")[1]

    def evaluate(inputs: Any, output: Any) -> Any:
        return apply(inputs[0], depend(inputs[1], output))

    def record(inputs: Any, tree: Tree) -> Tree:
        path, found = depend(inputs[0], tree), inputs[1]
        tree = insert_embeddings(tree, found, moment.slot)
        return spec.insert_and_backup(tree, path, found, moment.slot)

    inputs = subject.params, moment.after.observation
    output = jax.jit(apply)(*inputs)
    # Each call of the backup's loops copies the trees, so its short loop is longer than the others.
    return {
        "walk": Program(walk, moment.tree, moment.path),
        "game step": Program(step, (moment.before, moment.action), moment.after),
        "network": Program(evaluate, inputs, output),
        "backup": Program(record, (moment.path, moment.found), moment.tree, short=64),
        "empty": Program(lambda _, x: x + 1, None, jnp.zeros_like(moment.action)),
    }


def make_search_program(subject: Subject) -> Program:
    """Makes the program of the whole search."""
    search_fn = make_search_fn(subject.env, subject.network, subject.policy, **subject.options)

    def run(inputs: Any, weights: Any) -> Any:
        params, states = inputs
        return search_fn(params, KEY(1), depend(states, weights)).action_weights

    weights = jnp.zeros(subject.states.legal_action_mask.shape)
    return Program(run, (subject.params, subject.states), weights, short=1)
