"""The parts of one simulation as programs and as costs, for `benchmarks.phases`."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import games
from benchmarks.common import make_params
from benchmarks.dual import make_positions
from benchmarks.looped import Cost, Program, count, depend
from dualmctx.experiment.assemble import record_of
from dualmctx.models.game_model import make_model
from dualmctx.models.packing import drop_observation, pack_bits
from dualmctx.models.search_fn import make_search_fn
from dualmctx.policies import AlphaZero, Execution, Root
from dualmctx.policies.search_setup import make_search_spec, set_up_search
from dualmctx.policies.top_actions import Inputs
from dualmctx.runs.network_record import build_network
from dualmctx.search.backend import LOOPS
from dualmctx.search.backup import backup
from dualmctx.search.expand import expand, insert_node
from dualmctx.search.phases import run_steps, start_search
from dualmctx.search.slots import slot_actions
from dualmctx.search.spec import SearchSpec
from dualmctx.search.tree import LastEdge, NodeInit, Tree, get_state
from dualmctx.training.presets import PRESETS

KEY = jax.random.key


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
      root: trees that hold only their roots and have room for no other node.
      tree: the trees.
      slot: the slot of the next node.
      path: the result of the walk.
      before: `[B]` states of the leaves' parents.
      action: `[B]` int32, the actions of the game that lead to the leaves.
      after: `[B]` states of the leaves.
      found: the evaluations and the embeddings, which the backup writes into the new nodes.
    """

    spec: SearchSpec
    root: Tree
    tree: Tree
    slot: int
    path: LastEdge
    before: Any
    action: Any
    after: Any
    found: tuple[NodeInit, Any]

    @property
    def depth(self) -> float:
        """The mean number of edges of the walks."""
        return float(jnp.mean(self.path.depth))


class Functions(NamedTuple):
    """The functions of the parts.

    Attributes:
      walk: `(tree, is_active) -> path`.
      step: `(states, actions) -> states`.
      evaluate: `(params, observations) -> output of the final head`.
      record: `(tree, path, found, slot) -> tree`, the backup.
    """

    walk: Callable[..., Any]
    step: Callable[..., Any]
    evaluate: Callable[..., Any]
    record: Callable[..., Any]


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

    def set_up(num_new: int) -> Any:
        return set_up_search(inputs, policy.backup, policy.execution, num_new=num_new)

    setup, half = set_up(policy.num_simulations), policy.num_simulations // 2
    spec = make_search_spec(
        policy, setup.evaluate_fn, num_simulations=setup.max_path, backend=setup.backend
    )
    first = setup.first_slot

    @jax.jit
    def run(params: Any, tree: Tree) -> Any:
        search = start_search(KEY(1), tree, spec, rounds=((half,),), first_slot=first)
        tree = run_steps(params, search).tree
        path = spec.backend.descend(spec, KEY(2), tree)
        embedding = get_state(tree, path.parent)
        found = spec.evaluate_fn(params, KEY(3), path.action, embedding)
        actions = slot_actions(tree, path.parent)
        action = jnp.take_along_axis(actions, path.action[:, None], axis=1)[:, 0]
        before = choose_packing(subject).unpack(embedding.state)
        return tree, path, before, action, jax.vmap(env.step)(before, action), found

    tree, *parts = run(params, setup.tree)
    return Moment(spec, set_up(0).tree, tree, first + half, *parts)


def choose_packing(subject: Subject) -> Any:
    """Returns the form in which the nodes store the states."""
    if not subject.options["compact_states"]:
        return drop_observation()
    example: Any = jax.eval_shape(lambda: subject.env.init(KEY(0)))
    return pack_bits(example, subject.env.state_ranges)


def make_functions(subject: Subject, spec: SearchSpec) -> Functions:
    """Makes the functions of the parts."""

    def walk(tree: Tree, is_active: Any) -> LastEdge:
        return spec.backend.descend(spec, KEY(2), tree, is_active)

    def evaluate(params: Any, observation: Any) -> Any:
        head = len(subject.network.head_depths) - 1
        return subject.network.apply(params, observation, head, method="begin")[1]

    def record(tree: Tree, path: LastEdge, found: tuple[NodeInit, Any], slot: int) -> Tree:
        tree, new = store(tree, path, found, slot)
        return spec.backend.insert_and_backup(spec, tree, path, new, slot)

    return Functions(walk, jax.vmap(subject.env.step), evaluate, record)


def store(
    tree: Tree, path: LastEdge, found: tuple[NodeInit, Any], slot: int
) -> tuple[Tree, NodeInit]:
    """Stores the embeddings of results that are known; returns the evaluations too."""
    return expand(None, KEY(3), tree, lambda *_: found, path, slot)


def make_programs(subject: Subject, moment: Moment) -> dict[str, Program]:
    """Makes the program of each part, and that of an empty loop."""
    functions = make_functions(subject, moment.spec)

    def walk(tree: Tree, path: LastEdge) -> LastEdge:
        # All are active, but XLA does not know it.
        return functions.walk(tree, path.depth >= 0)

    def step(inputs: Any, after: Any) -> Any:
        return functions.step(*depend(inputs, after))

    def evaluate(inputs: Any, output: Any) -> Any:
        params, observation = inputs
        return functions.evaluate(params, depend(observation, output))

    def record(inputs: Any, tree: Tree) -> Tree:
        path, found = inputs
        return functions.record(tree, depend(path, tree), found, moment.slot)

    inputs = subject.params, moment.after.observation
    output = jax.jit(functions.evaluate)(*inputs)
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


def count_parts(subject: Subject, moment: Moment) -> dict[str, Cost]:
    """Counts the operations and bytes of each part.

    XLA counts one level of a walk and of a climb, and whole arrays where it reads a row of them.
    Both are therefore counted in trees of one node, and multiplied by the mean number of levels. A
    climb has one more than the walk: the root. The counts are those of XLA's loops; kernels do the
    same work.
    """
    spec = moment.spec._replace(backend=LOOPS)
    functions = make_functions(subject, spec)

    def write(tree: Tree, path: LastEdge, found: tuple[NodeInit, Any]) -> Any:
        tree, new = store(tree, path, found, 0)
        return insert_node(tree, path, new, 0)

    is_active = jnp.ones(moment.action.shape, bool)
    walk = count(functions.walk, moment.root, is_active)
    climb = count(functools.partial(backup, spec), moment.root, moment.action, in_place=True)
    written = count(write, moment.root, moment.path, moment.found, in_place=True)
    return {
        "walk": walk.times(moment.depth),
        "game step": count(functions.step, moment.before, moment.action),
        "network": count(functions.evaluate, subject.params, moment.after.observation),
        "backup": climb.times(moment.depth + 1).plus(written),
    }
