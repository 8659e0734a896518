"""Profile of one simulation: `python -m benchmarks.phases [--games PRESET ...] [--json FILE]`.

The search is AlphaZero's, with the game, the network, the packing of the states and the limit of
children of a training preset. The parameters are random. The parts of a simulation are timed alone,
on trees that have run half of their simulations:

- `walk`: the descent from the roots to the leaves.
- `game step`: `env.step` for all leaves.
- `network`: one evaluation by the final head.
- `backup`: writing the new nodes, and the climb to the roots.
- `rest`: the time of a simulation in the whole search, less the sum of the four. It holds the reads
  of the states in the tree, their packing, the masks and the priors. It is negative if the parts
  are slower alone than in the search.

`simulation` is the time of a whole search divided by the number of simulations, so the rest also
holds a share of the root's evaluation. All times are medians, measured in turns in one process,
without compilation and without the time of an empty loop. A program runs in a loop inside one
jitted call, and each iteration depends on the previous one. The time of an iteration is the
difference between a long and a short loop, divided by the difference of their lengths. So the costs
of a call cancel out: its dispatch, and the copies of its arguments.
"""

import functools
import statistics
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import games
from benchmarks.common import (
    for_device,
    make_params,
    make_parser,
    run_in_turns,
    show,
    show_environment,
)
from benchmarks.dual import make_positions
from benchmarks.ledger import write_measurement
from dualmctx.experiment.assemble import record_of
from dualmctx.models.game_model import make_model
from dualmctx.models.packing import drop_observation, pack_bits
from dualmctx.models.search_fn import make_search_fn
from dualmctx.policies import AlphaZero, Execution, Root
from dualmctx.policies.search_setup import set_up_search
from dualmctx.policies.top_actions import Inputs
from dualmctx.runs.network_record import build_network
from dualmctx.search.expand import expand
from dualmctx.search.node import LastEdge, NodeInit
from dualmctx.search.phases import run_steps, start_search
from dualmctx.search.slots import slot_actions
from dualmctx.search.spec import SearchSpec
from dualmctx.search.tree import Tree, get_state
from dualmctx.training.presets import PRESETS

GAMES = ("connect-four", "go-9x9", "gardner-chess")
SIMULATION = "simulation"
# The largest number of iterations that a long loop has in addition to those of the short one.
MOST = 2000
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
      found: the evaluations and the embeddings, which the backup writes into the new nodes.
    """

    spec: SearchSpec
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

    setup, half = set_up_search(policy, inputs), policy.num_simulations // 2
    spec = setup.make_spec(policy.make_rule())
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
        return spec.backend.descend(spec, KEY(2), tree, path.depth >= 0)

    def step(inputs: Any, after: Any) -> Any:
        return jax.vmap(subject.env.step)(*depend(inputs, after))

    def apply(params: Any, observation: Any) -> Any:
        return subject.network.apply(params, observation, head, method="begin")[1]

    def evaluate(inputs: Any, output: Any) -> Any:
        return apply(inputs[0], depend(inputs[1], output))

    def record(inputs: Any, tree: Tree) -> Tree:
        path, found = depend(inputs[0], tree), inputs[1]
        # The results are known, so the expansion only stores the embeddings.
        tree, new = expand(None, KEY(3), tree, lambda *_: found, path, moment.slot)
        return spec.backend.insert_and_backup(spec, tree, path, new, moment.slot)

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


class Row(NamedTuple):
    """A part of a simulation.

    Attributes:
      game: the preset.
      batch: number of roots.
      simulations: number of simulations of the whole search.
      depth: mean number of edges of the walks.
      part: the part, or `simulation` for the sum of all parts.
      us: its time in microseconds for the whole batch.
      share: its time as a share of the simulation's.
    """

    game: str
    batch: int
    simulations: int
    depth: float
    part: str
    us: float
    share: float


def make_loop(program: Program) -> Callable[[int], Any]:
    """Returns a function that runs a number of iterations.

    A GPU returns to the host in each iteration of a loop whose length is not known when it is
    compiled, so there the function is compiled for each length.
    """

    def loop(length: Any, inputs: Any, carry: Any) -> Any:
        return jax.lax.fori_loop(0, length, lambda _, carry: program.run(inputs, carry), carry)

    run = jax.jit(loop, static_argnums=for_device((), 0))
    return lambda length: run(length, program.inputs, program.carry)


def time_iterations(
    programs: Mapping[str, Program], seconds: float, repeats: int
) -> dict[str, float]:
    """Returns the median seconds of an iteration of each program, measured in turns.

    Args:
      programs: the programs by name.
      seconds: the time by which the long loop should exceed the short one. It is reached roughly,
        because the length is chosen by one run of the short loop.
      repeats: number of timed runs of each loop, after one that is not timed.
    """
    loops: dict[tuple[str, int], Callable[[], Any]] = {}
    for name, program in programs.items():
        run, short = make_loop(program), program.short
        loops[name, short] = functools.partial(run, short)
        # The first run includes the compilation.
        _, second = run_in_turns({name: loops[name, short]}, 2)[name]
        more = min(max(short, int(seconds * short / second[0])), MOST)
        loops[name, short + more] = functools.partial(run, short + more)
    run_in_turns(loops, 1)
    times = run_in_turns(loops, repeats)
    found = {}
    for name in programs:
        short, long = sorted(length for other, length in loops if other == name)
        pairs = zip(times[name, short], times[name, long], strict=True)
        found[name] = statistics.median(
            (two - one) / (long - short) for (one, _), (two, _) in pairs
        )
    return found


def measure(subject: Subject, seconds: float, repeats: int) -> list[Row]:
    """Times the parts and the whole search in turns."""
    half = run_half(subject)
    programs = make_programs(subject, half) | {SIMULATION: make_search_program(subject)}
    parts = time_iterations(programs, seconds, repeats)
    number = subject.policy.num_simulations
    whole, empty = parts.pop(SIMULATION) / number, parts.pop("empty")
    parts = {part: max(0.0, time - empty) for part, time in parts.items()}
    return make_rows((subject.preset, len(half.action), number, round(half.depth, 2)), parts, whole)


def make_rows(
    fields: tuple[str, int, int, float], parts: dict[str, float], whole: float
) -> list[Row]:
    """Makes the rows of a search from its first fields and the seconds of parts and the whole."""
    times = parts | {"rest": whole - sum(parts.values()), SIMULATION: whole}
    return [Row(*fields, x, round(1e6 * y, 3), round(y / whole, 4)) for x, y in times.items()]


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    for_gpu = [f"{game}-gpu" if f"{game}-gpu" in PRESETS else game for game in GAMES]
    chosen = for_device(list(GAMES), for_gpu)
    add("--games", nargs="+", default=chosen, choices=PRESETS, metavar="PRESET", help="presets")
    add("--batch", type=int, default=for_device(32, 2048), help="number of roots")
    add("--simulations", type=int, default=for_device(16, 64), help="simulations of the search")
    add("--repeats", type=int, default=7, help="timed runs of each loop and search")
    options = parser.parse_args(arguments)
    if options.quick:
        options.games, options.batch, options.simulations = ["tic-tac-toe"], 2, 4
        options.repeats = 1
    for name, least in (("batch", 1), ("simulations", 2), ("repeats", 1)):
        if (value := getattr(options, name)) < least:
            parser.error(f"--{name} is {value}; it must be at least {least}")
    show_environment()
    seconds, rows = 0.005 if options.quick else 0.03, []
    for preset in options.games:
        subject = open_subject(preset, options.batch, options.simulations)
        found = measure(subject, seconds, options.repeats)
        title = f"{preset}: {options.batch:,} games, mean depth {found[0].depth}, µs"
        cells = [{"part": x.part, "µs": f"{x.us:,.1f}", "share": f"{x.share:.1%}"} for x in found]
        show(title, cells)
        rows += [row._asdict() for row in found]
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
