"""Configurations that earlier versions wrote are read with the present names and groups."""

import json
from pathlib import Path
from typing import Any

import pytest

from dualmctx.policies import (
    MPV,
    REGISTRY,
    AlphaGo,
    AlphaZero,
    Chain,
    Contempt,
    Dual,
    Gumbel,
    MuZero,
    with_options,
)
from dualmctx.runs.folder import create_run, flatten, read_config, reopen_run, to_dict
from dualmctx.runs.record_names import with_current_names, with_current_players
from dualmctx.runs.saved_network import load_trained, trained_names
from dualmctx.runs.saved_policy import build_policy
from dualmctx.training.presets import PRESETS

PUCT = {
    **{"c_puct": 2.0, "max_depth": 9, "window": 3, "explore_fraction": 0.1, "explore_decay": 0.4},
    **{"dirichlet_fraction": 0.2, "dirichlet_alpha": 0.5, "temperature": 0.7, "max_children": 6},
    **{"leaves_per_step": 1, "virtual_loss": 0, "regularized": [], "visit_weights": "plain"},
    **{"minimax_mix": 0.0, "rave_visits": None},
}
ONE_TREE_PUCT = PUCT | {
    "window": None,
    "leaves_per_step": 4,
    "virtual_loss": 2,
    "regularized": ["act"],
    "visit_weights": "smoothed",
}
SHARED: dict[str, Any] = {
    **{"c_puct": 2.0, "max_depth": 9, "window": 3, "explore_fraction": 0.1, "explore_decay": 0.4},
    **{"dirichlet_fraction": 0.2, "dirichlet_alpha": 0.5, "temperature": 0.7, "max_children": 6},
}
ONE_TREE: dict[str, Any] = SHARED | {
    "window": None,
    "leaves_per_step": 4,
    "virtual_loss": 2,
    "regularized": ("act",),
    "visit_weights": "smoothed",
}
TREES = {"value_mix": 0.3, "prior_mix": 0.2, "action_weights": "all_visits", "kept_nodes": 5}
FLAT = {"max_depth": 9, "window": 3, "explore_fraction": 0.1, "explore_decay": 0.4}
# The entry `search` of an earlier version, and the policy that it describes.
RECORDS: dict[str, tuple[dict[str, Any], Any]] = {
    "alphazero": (
        {"num_simulations": 20, "puct": ONE_TREE_PUCT, "kept_nodes": 7, "head": 0},
        with_options(AlphaZero(20, reuse_capacity=7, head=0), **ONE_TREE),
    ),
    "contempt": (
        {
            **{"num_simulations": 20, "frozen_visit_limit": -3, "frozen_temperature": 0.5},
            **{"puct": PUCT, "kept_nodes": 0},
        },
        with_options(Contempt(20, -3, 0.5), **SHARED),
    ),
    "alphago": (
        {
            **{"num_simulations": 20, "puct": ONE_TREE_PUCT, "kept_nodes": 0, "rollout_mix": 0.2},
            **{"rollout_policy": "uniform", "rollout_length": 4},
        },
        with_options(
            AlphaGo(20, rollout_mix=0.2, rollout_policy="uniform", rollout_length=4), **ONE_TREE
        ),
    ),
    "dual": (
        {"num_simulations": [9, 6], "num_rounds": 2, **TREES, "puct": PUCT},
        with_options(Dual((9, 6), 2, 0.3, 0.2, "all_visits", reuse_capacity=5), **SHARED),
    ),
    "chain": (
        {"num_simulations": [9, 6, 4], "num_rounds": 2, **TREES, "puct": PUCT},
        with_options(Chain((9, 6, 4), 2, 0.3, 0.2, "all_visits", reuse_capacity=5), **SHARED),
    ),
    "mpv": (
        {"num_simulations": [2, 1], "schedule": [0, 1, 0], **TREES, "puct": PUCT},
        with_options(MPV((2, 1), (0, 1, 0), 0.3, 0.2, "all_visits", reuse_capacity=5), **SHARED),
    ),
    "gumbel": (
        {
            **{"num_simulations": 20, "qtransform": "qtransform_completed_by_mix_value"},
            **{"max_num_considered_actions": 4, "gumbel_scale": 0.5, **FLAT},
        },
        with_options(Gumbel(20, max_num_considered_actions=4, gumbel_scale=0.5), **FLAT),
    ),
    "muzero": (
        {
            **{"num_simulations": 20, "qtransform": "qtransform_by_parent_and_siblings", **FLAT},
            **{"dirichlet_fraction": 0.2, "dirichlet_alpha": 0.5, "temperature": 0.7},
            **{"pb_c_init": 1.5, "pb_c_base": 100.0, "kept_nodes": 5},
        },
        with_options(
            MuZero(20, pb_c_init=1.5, pb_c_base=100.0, reuse_capacity=5),
            **FLAT,
            dirichlet_fraction=0.2,
            dirichlet_alpha=0.5,
            temperature=0.7,
        ),
    ),
}


def old_config(variant: str) -> dict[str, Any]:
    return {"game": "nim", "search": {"variant": variant, **RECORDS[variant][0]}, "exams": {}}


def test_every_variant_has_an_old_record() -> None:
    assert set(RECORDS) == set(REGISTRY)


@pytest.mark.parametrize("variant", RECORDS)
def test_an_old_record_gives_its_policy(variant: str) -> None:
    record = with_current_names(old_config(variant))
    assert build_policy(record) == RECORDS[variant][1]
    assert "exams" not in record


@pytest.mark.parametrize("variant", RECORDS)
def test_an_old_run_can_be_resumed(variant: str, tmp_path: Path) -> None:
    create_run(tmp_path / "run", old_config(variant))
    search = {"variant": variant} | to_dict(RECORDS[variant][1])
    reopen_run(tmp_path / "run", {"game": "nim", "search": search, "evals": {}})
    search["backup"]["explore_decay"] = 0.9
    with pytest.raises(ValueError, match=r"search\.backup\.explore_decay \(0\.4 → 0\.9\)"):
        reopen_run(tmp_path / "run", {"game": "nim", "search": search, "evals": {}})


@pytest.mark.parametrize("variant", RECORDS)
def test_a_present_record_is_unchanged(variant: str) -> None:
    search = {"variant": variant} | to_dict(RECORDS[variant][1])
    record = {"game": "nim", "search": search, "evals": {"every": 3}}
    assert json.dumps(with_current_names(record)) == json.dumps(record)


def test_an_added_variant_keeps_options_of_the_same_names() -> None:
    record = {"search": {"variant": "uct", "temperature": 0.5, "window": 2}}
    assert with_current_names(record) == record


def test_players_of_an_old_tournament_are_read() -> None:
    """They name the class of the policy in place of the variant."""
    player = {"about": {"search": {"policy": "MuZero", **RECORDS["muzero"][0]}}, "cost": None}
    found = with_current_players({"players": {"me": player}})["players"]["me"]
    search = {"policy": "MuZero"} | to_dict(RECORDS["muzero"][1])
    assert found == {"about": {"search": search}, "cost": None}


@pytest.mark.parametrize("name", ["exams", "kept_nodes", "search"])
def test_names_of_players_and_game_parameters_are_kept(name: str) -> None:
    players = {name: {"about": {"player": "perfect"}, "cost": None}}
    settings = {"game": "nim", "players": players}
    assert with_current_players(settings) == settings
    assert with_current_names(settings) == settings
    record = {"game": "nim", "game_parameters": {name: 3}}
    assert with_current_names(record) == record


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", trained_names())
def test_the_search_of_a_packaged_network_is_read(name: str) -> None:
    record = load_trained(name).record
    policy = build_policy(record)
    assert type(policy) is type(PRESETS[record["preset"]].search)
    found = flatten(to_dict(policy))
    saved = flatten(record["search"])
    del saved["variant"]
    assert {option: found[option] for option in saved} == saved


def test_a_checkpoint_and_config_of_an_earlier_version_agree(tmp_path: Path) -> None:
    create_run(tmp_path / "run", old_config("dual"))
    assert read_config(tmp_path / "run") == with_current_names(old_config("dual"))
