"""The presets for a GPU: their sizes, their memory, and that their programs are lowered."""

from typing import Any

import jax
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
    *("--selfplay.num-games", "2", "--selfplay.num-steps", "2", "--game", "tic_tac_toe"),
    *("--learner.batch-size", "4", "--learner.num-updates", "1", "--learner.capacity", "8"),
    *("--network.width", "8", "--network.num-blocks", "2"),
]


def gib(text: str) -> float:
    number, unit = text.split()
    assert unit == "GiB"
    return float(number)


def shapes_of(tree: Any) -> list[Any]:
    return [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]


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
def test_a_preset_for_a_gpu_is_lowered_with_few_games(name: str) -> None:
    """Compiling the programs would take long.

    The two presets cover both trunks and both searches, augmentation, compact states and
    resignation.
    """
    budget = ["4"] if name == "connect-four-gpu" else ["2", "1", "--search.num-rounds", "1"]
    name, config = parse_train([name, *FEW_GAMES, "--search.num-simulations", *budget])
    env = games.make(config.game)
    trainer = build_trainer(config, env, build_network(record_of(name, config), env))
    shapes = trainer.shapes
    programs = trainer.lower(shapes)
    played, learned = programs.play.out_info[:2], programs.learn.out_info[:2]
    assert shapes_of(played) == shapes_of((shapes.games, shapes.buffer_state))
    assert shapes_of(learned) == shapes_of((shapes.params, shapes.opt_state))
    assert {x.dtype.name for x in jax.tree.leaves(shapes.params)} == {"float32"}
