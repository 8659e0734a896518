"""The presets for a GPU: their sizes, their memory, and that they run on a CPU."""

import jax
import numpy as np
import pytest

import games
from documents import table
from dualmctx.distributed.devices import share
from dualmctx.experiment.assemble import build_trainer, record_of
from dualmctx.runs.network_record import build_network
from dualmctx.training.config import Config
from dualmctx.training.memory_budget import check_memory
from dualmctx.training.presets import GPU_PRESETS, PRESETS
from untrained import parse_train

# By default, JAX takes three quarters of the GPU's memory.
MEMORY = 0.75 * 80e9
FEW_GAMES = [
    *("--selfplay.num-games", "2", "--selfplay.num-steps", "2"),
    *("--learner.batch-size", "4", "--learner.num-updates", "1", "--learner.capacity", "8"),
]


def gib(text: str) -> float:
    number, unit = text.split()
    assert unit == "GiB"
    return float(number)


def replay_ratio(config: Config) -> float:
    learner, selfplay = config.learner, config.selfplay
    learned = learner.num_updates * learner.batch_size
    return learned / (selfplay.num_games * selfplay.num_steps)


@pytest.mark.parametrize("name", GPU_PRESETS)
def test_a_preset_for_a_gpu_enlarges_that_of_the_game(name: str) -> None:
    config, small = PRESETS[name], PRESETS[name.removesuffix("-gpu")]
    assert (config.game, config.game_parameters) == (small.game, small.game_parameters)
    assert config.network.dtype == "bfloat16"
    assert small.network.dtype == "float32"
    assert config.selfplay.num_games >= 2048
    assert config.network.width >= 128
    assert config.learner.capacity % config.selfplay.num_games == 0
    expected = 8 if name == "connect-four-gpu" else replay_ratio(small)
    assert replay_ratio(config) == expected


def test_the_page_lists_the_sizes() -> None:
    rows = table("docs/training.md", "preset | games × moves")
    assert [row["preset"] for row in rows] == [f"`{name}`" for name in GPU_PRESETS]
    for row, config in zip(rows, GPU_PRESETS.values(), strict=True):
        assert gib(row["predicted memory"]) * 2**30 <= MEMORY
        network, selfplay, learner = config.network, config.selfplay, config.learner
        trunk = "conv" if network.trunk == "auto" else network.trunk
        assert row["games × moves"] == f"{selfplay.num_games:,} × {selfplay.num_steps}"
        assert row["trunk"] == f"`{trunk}`, {network.width:,} × {network.num_blocks}"
        assert row["updates × batch"] == f"{learner.num_updates} × {learner.batch_size:,}"
        assert row["buffer"] == f"{learner.capacity:,}"
        budget = config.search.num_simulations
        numbers = budget if isinstance(budget, tuple) else (budget,)
        shown = " + ".join(map(str, numbers))
        assert row["search"] == f"{type(config.search).__name__}, {shown}"


@pytest.mark.slow
def test_the_memory_of_a_preset_is_that_of_the_page() -> None:
    """The other presets take long to compile."""
    name = "connect-four-gpu"
    _, config = parse_train([name, "--memory-limit", str(MEMORY / 2**30)])
    env = games.make(config.game)
    network = build_network(record_of(name, config), env)
    trainer = build_trainer(config, env, network)
    memory = check_memory(env, network, config, share(trainer.shapes))
    [row] = [x for x in table("docs/training.md", "preset | games × moves") if name in x["preset"]]
    assert memory.total / 2**30 == pytest.approx(gib(row["predicted memory"]), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["connect-four-gpu", "go-9x9-gpu"])
def test_a_preset_for_a_gpu_trains_on_a_cpu_with_few_games(name: str) -> None:
    """Smaller trunks, budgets and games, because theirs would take minutes to compile.

    The two presets cover both trunks and both searches, augmentation, compact states and
    resignation.
    """
    flags = ["--game", "tic_tac_toe", "--network.width", "8", "--network.num-blocks", "2"]
    budgets = "4" if name == "connect-four-gpu" else "4 2 --search.num-rounds 2"
    flags += ["--search.num-simulations", *budgets.split()]
    _, config = parse_train([name, *FEW_GAMES, *flags])
    env = games.make(config.game)
    network = build_network(record_of(name, config), env)
    trainer = build_trainer(config, env, network)
    state = trainer.init(0)
    state, row = trainer.compile(state)(state)
    assert all(np.isfinite(row[x]) for x in row if "loss" in x)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.params))
    assert {x.dtype.name for x in jax.tree.leaves(state.params)} == {"float32"}
