"""The memory of a search is predicted, and a run that does not fit is refused."""

import dataclasses
import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import games
from dualmctx import (
    AlphaGo,
    AlphaZero,
    Chain,
    Dual,
    make_network,
    make_search_fn,
    search_memory,
    with_options,
)
from dualmctx.commands import train
from dualmctx.distributed.devices import free_memory
from dualmctx.experiment.assemble import record_of
from dualmctx.models import search_memory as search_memory_module
from dualmctx.models.search_memory import SearchMemory
from dualmctx.runs.saved_network import build_network
from dualmctx.training import memory_budget
from dualmctx.training.config import EvalConfig, NetworkOptions
from dualmctx.training.memory_budget import (
    TrainingMemory,
    describe_memory,
    eval_memory,
    require_memory,
    savings,
)
from dualmctx.training.selfplay import SelfPlay, make_play, start_games
from untrained import parse_train

GIB = 2**30


@functools.cache
def make(game: str, trunk: str, num_heads: int = 2) -> tuple[Any, Any]:
    env = games.make(game)
    state = jax.eval_shape(env.init, jax.random.PRNGKey(0))
    shapes = state.legal_action_mask.shape[0], state.observation.shape
    return env, make_network(
        *shapes, width=8, num_blocks=num_heads, num_heads=num_heads, trunk=trunk
    )


def reported(env: Any, network: Any, policy: Any, batch_size: int, **options: Any) -> int:
    """Returns XLA's report for the search as self-play runs it."""
    search = make_search_fn(env, network, policy, **options)

    def played(params: Any, rng_key: Any, state: Any) -> tuple:
        output = search(params, rng_key, state)
        return output.action, output.action_weights

    key = jax.ShapeDtypeStruct((2,), jnp.uint32)
    states = jax.eval_shape(lambda k: jax.vmap(env.init)(jax.random.split(k, batch_size)), key)
    params = jax.eval_shape(network.init, key, states.observation)
    return temporary_memory(played, params, key, states)


def temporary_memory(function: Any, *arguments: Any) -> int:
    """Returns XLA's report of the temporary arrays and the outputs of a program."""
    program = jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})
    report = program.lower(*arguments).compile().memory_analysis()
    return report.temp_size_in_bytes + report.output_size_in_bytes


# Self-play also reads the action values of the last tree, so that XLA cannot leave them out.
BOTH_TREES = Dual((50, 35), 5, action_weights="regularized")
CASES = {
    "few children": (
        *("tic_tac_toe", "mlp", with_options(AlphaZero(128), max_children=4), 1024),
        {"compact_states": True},
    ),
    "three trees of few actions": ("nim", "mlp", Chain((40, 30, 15), 5), 1024, {}),
    "rollouts": ("nim", "mlp", AlphaGo(128), 1024, {}),
    "stored activations": ("connect_four", "conv", BOTH_TREES, 512, {}),
    "several leaves": ("nim", "mlp", with_options(AlphaZero(64), leaves_per_step=8), 256, {}),
    "speculation": ("connect_four", "mlp", with_options(AlphaZero(64), speculation=8), 256, {}),
    "attention": ("connect_four", "transformer", AlphaZero(16), 1, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_prediction_is_enough_and_at_most_40_percent_too_high(case: str) -> None:
    game, trunk, policy, batch_size, options = CASES[case]
    env, network = make(game, trunk, max(2, len(policy.heads)))
    predicted = search_memory(env, network, policy, batch_size, **options).total
    actual = reported(env, network, policy, batch_size, **options)
    print(f"{case}: predicted {predicted:,}, reported {actual:,}, {predicted / actual:.2f} times")
    assert actual <= predicted <= 1.4 * actual


@pytest.mark.slow
def test_the_parts_follow_from_the_shapes_of_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    # The only number that takes a compilation.
    monkeypatch.setattr(search_memory_module, "temporary_bytes", lambda *_: 0)
    env, network = make("hsr", "mlp")
    memory = search_memory(env, network, Dual((10, 5), 2), 8)
    assert (memory.batch_size, memory.num_nodes, memory.num_children) == (8, 16, 17)
    assert memory.activations == 8 * 16 * 8 * 4  # a node keeps 8 features in float32
    halved = search_memory(env, network, Dual((10, 5), 2), 8, activations_dtype=jnp.bfloat16)
    assert memory.activations == 2 * halved.activations
    assert memory.tree - halved.tree == halved.activations
    options = NetworkOptions(dtype="bfloat16").model_kwargs()
    rounded = search_memory(env, network.clone(dtype="bfloat16"), Dual((10, 5), 2), 8, **options)
    assert (rounded.activations, rounded.tree) == (halved.activations, halved.tree)
    assert memory.activations < memory.embeddings < memory.tree < memory.total
    assert 8 * 16 * memory.node == pytest.approx(memory.tree, rel=0.01)
    plain = search_memory(env, network, AlphaZero(15), 8)
    assert plain.activations == plain.kept == 0
    assert plain.tree < halved.tree
    with pytest.raises(ValueError, match="batch_size is 0; it must be at least 1"):
        search_memory(env, network, AlphaZero(2), 0)


@pytest.mark.slow
def test_reused_trees_are_counted_beside_new_trees() -> None:
    """Counted in full; XLA takes some of it again for the search."""
    env, network = make("tic_tac_toe", "mlp")
    policy, options = AlphaZero(64, reuse_capacity=64), SelfPlay(num_games=256, num_steps=2)
    search_fn = make_search_fn(env, network, policy)
    play = make_play(env, search_fn, options, reuse_capacity=policy.reuse_capacity)
    key, keys = (jax.ShapeDtypeStruct(shape, jnp.uint32) for shape in ((2,), (256, 2)))
    start = jax.eval_shape(lambda k: start_games(env, k, options), keys)
    params = jax.eval_shape(network.init, key, start.state.observation)
    actual = temporary_memory(play, params, keys, start)
    memory = search_memory(env, network, policy, 256)
    assert memory.kept == pytest.approx(memory.tree * 65 / 129, rel=1e-3)
    assert memory.total - memory.kept < actual < memory.total


NONE = dict.fromkeys(("activations", "temporaries", "outputs", "margin"), 0)
SIZE = {"batch_size": 1024, "num_nodes": 86, "num_children": 4672}
SEARCH = SearchMemory(**SIZE, tree=12 * GIB, embeddings=GIB, **NONE)
RUN = TrainingMemory(search=SEARCH, state=GIB, replay=GIB, positions=0, gradient=GIB)


def test_a_run_that_does_not_fit_is_refused_with_a_remedy() -> None:
    # Self-play and learning take turns.
    assert RUN.total == 13 * GIB
    assert dataclasses.replace(RUN, gradient=20 * GIB).total == 21 * GIB
    parts = "search 12.0 GiB, learning 1.0 GiB, replay 1.0 GiB, evals 0.0 MiB"
    assert describe_memory(RUN) == f"memory: 13.0 GiB at most ({parts})"
    for free in (13 * GIB, None):
        require_memory(RUN, free, is_asked_for=False)
    with pytest.raises(ValueError, match=r"13.0 GiB, and 8.0 GiB are free; use") as error:
        require_memory(RUN, 8 * GIB, is_asked_for=False)
    # 7 GiB of 12 are left for the search, enough for 597 games.
    assert str(error.value).endswith("use --selfplay.num-games 512 or fewer simulations")
    with pytest.raises(ValueError, match=r"512, fewer simulations, --a or --b$"):
        require_memory(RUN, 8 * GIB, is_asked_for=False, savings=["--a", "--b"])
    with pytest.raises(ValueError, match=r"is 1.0 GiB; use a smaller --learner.capacity"):
        require_memory(RUN, GIB, is_asked_for=True)
    examined = dataclasses.replace(RUN, evals=20 * GIB)
    with pytest.raises(ValueError, match=r"whole run 21.0 GiB, .* use a smaller --evals.num-games"):
        require_memory(examined, 13 * GIB, is_asked_for=False)


def test_the_check_of_a_run_names_games_for_all_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The memory is of one device, the flag of the whole run, in equal shares."""
    monkeypatch.setattr(memory_budget, "choose_devices", lambda _: [None] * 3)
    monkeypatch.setattr(memory_budget, "search_memory", lambda *_, **__: SEARCH)
    monkeypatch.setattr(memory_budget, "training_memory", lambda *_, **__: RUN)
    name, config = parse_train(["nim", "--selfplay.num-games", "3072", "--memory-limit", "8"])
    env = games.make("nim")
    shapes: Any = None
    network = build_network(record_of(name, config), env)
    with pytest.raises(ValueError, match=r"of each of 3 devices, .* use --selfplay.num-games 1536"):
        memory_budget.check_memory(env, network, config, shapes)


BOTH = ["--search.execution.max-children 128", "--network.compact-states"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--game", "chess"], BOTH),
        (["--game", "chess", "--network.compact-states"], BOTH[:1]),
        (["--game", "chess", "--search.execution.max-children", "64"], BOTH[1:]),
        # In mctx's rules there is no limit on children.
        (["--game", "chess", "--search.variant", "gumbel"], BOTH[1:]),
        # With rave_visits there is none either.
        (
            ["--game", "chess", "--search.variant=alphazero", "--search.puct.rave-visits", "9"],
            BOTH[1:],
        ),
        (["--game", "hsr"], []),
    ],
)
def test_the_remedy_names_only_flags_that_help(arguments: list[str], expected: list[str]) -> None:
    config = parse_train(["hsr", *arguments])[1]
    num_actions = 4672 if "chess" in arguments else 17
    assert list(savings(SimpleNamespace(num_actions=num_actions), config)) == expected


def test_the_memory_of_large_evals_is_counted() -> None:
    env = games.make("nim")
    half = dataclasses.replace(SEARCH, batch_size=50, kept=2 * GIB)
    needs = [eval_memory(env, half, EvalConfig(num_games=n, batch_size=1)) for n in (50, 100)]
    assert needs == [12 * GIB, 24 * GIB]
    # The positions of a solved game are examined at once, as many as there are.
    num_positions = len(games.solve(env).values)
    assert num_positions < 256
    whole = eval_memory(env, half, EvalConfig(num_games=2, batch_size=256))
    assert whole == 12 * GIB * num_positions // 50


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory.max": "max", "memory.current": 3 * GIB}, 8 * GIB),
        ({"memory.max": GIB, "memory.current": GIB + 1}, 0),
        # Caches count as free, as they do outside of a container.
        (
            {
                **{"memory.max": 6 * GIB, "memory.current": 4 * GIB},
                "memory.stat": f"anon {GIB}\ninactive_file {GIB}\nactive_file {GIB}\n",
            },
            3 * GIB,
        ),
        (
            {
                "memory/memory.limit_in_bytes": 6 * GIB,
                "memory/memory.usage_in_bytes": 4 * GIB,
                "memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB}\n",
            },
            3 * GIB,
        ),
        (
            {"memory/memory.limit_in_bytes": 2**63 - 4096, "memory/memory.usage_in_bytes": GIB},
            8 * GIB,
        ),
    ],
)
def test_the_limit_of_a_container_applies_if_it_is_lower(
    files: dict[str, Any], expected: int, tmp_path: Path
) -> None:
    meminfo, cgroup = tmp_path / "meminfo", tmp_path / "cgroup"
    meminfo.write_text(f"MemTotal:       99 kB\nMemAvailable:   {8 * 2**20} kB\n")
    (cgroup / "memory").mkdir(parents=True)
    for name, content in files.items():
        (cgroup / name).write_text(f"{content}\n")
    assert free_memory(meminfo=meminfo, cgroup=cgroup) == expected // len(jax.local_devices())
    # Elsewhere than on Linux there is neither.
    assert free_memory(meminfo=tmp_path / "none", cgroup=tmp_path / "none") is None


@pytest.mark.slow
def test_the_command_refuses_a_run_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    command = ["connect2", "--search.variant", "alphazero", "--network.width", "8"]
    limited = [*command, "--memory-limit", "0.001", "--out", str(tmp_path / "run")]
    assert train.main(limited) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("dualmctx train: a search of ")
    assert said.err.count("\n") == 1
    assert "--memory-limit is 1.0 MiB; use" in said.err
    assert list(tmp_path.iterdir()) == []
