"""Trained networks are loaded from a run's folder, an exported file or a name."""

import dataclasses
import functools
import json
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from safetensors.numpy import load_file

import dualmctx
import games
from dualmctx import export_trained, load_trained
from dualmctx.errors import UserError
from dualmctx.experiment import assemble
from dualmctx.models.network import SeparateTrunks
from dualmctx.policies import MPV, REGISTRY, Chain, Dual, MuZero
from dualmctx.runs import saved_network
from dualmctx.runs.array_file import read_arrays, write_arrays
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import read_config, to_dict, with_versions
from dualmctx.runs.network_record import build_network, describe_network
from dualmctx.runs.saved_network import model_kwargs_of, trained_names
from dualmctx.runs.saved_policy import build_policy, with_simulations
from dualmctx.typed_values import show_json
from untrained import assert_same_network, make_fake_trainer, parse_train, random_params

SEARCH = Dual(num_simulations=(3, 2), num_rounds=2)
RECORD: dict[str, Any] = {
    "game": "nim",
    "game_parameters": {"pile": 9},
    "search": {"variant": "dual"} | to_dict(SEARCH),
    "network": {
        **{"trunk": "auto", "width": 4, "num_blocks": 2, "num_heads": 2, "head_depths": None},
        **{"separate_trunks": False, "kept_activations": "bfloat16", "compact_states": True},
        **{"dtype": "bfloat16", "value_blocks": None},
    },
}
ARCHITECTURE: dict[str, Any] = {
    "type": "Network",
    "fields": {
        **{"num_actions": 3, "trunk": "mlp", "width": 4, "num_blocks": 2},
        **{"head_depths": [1, 2], "dtype": "bfloat16"},
    },
}
WHOLE = RECORD | {"architecture": ARCHITECTURE}


class Saved(NamedTuple):
    """A run of two checkpoints, and the later one as a file."""

    run: Path
    file: Path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    folder = tmp_path_factory.mktemp("saved")
    run, file = folder / "run", folder / "files" / "nim.safetensors"
    run.mkdir()
    (run / "config.json").write_text(json.dumps(with_versions(WHOLE)))
    env = games.make("nim", pile=9)
    network = build_network(WHOLE, env)
    checkpoints = open_checkpoints(run / "checkpoints", config=WHOLE)
    init = jax.jit(network.init)
    for step in (5, 7):
        params = init(jax.random.PRNGKey(step), jnp.zeros((1, *env.observation_shape)))
        checkpoints.save(step, {"params": params, "iteration": jnp.int32(step)})
    checkpoints.wait()
    export_trained(load_trained(run), file)
    return Saved(run, file)


def test_exported_file_matches_run(saved: Saved) -> None:
    assert_same_network(load_trained(saved.file), load_trained(saved.run))
    found = load_trained(str(saved.file))
    assert (found.iteration, found.record) == (7, WHOLE)
    assert found.env.observation_shape == (10,)
    assert load_file(saved.file)[KERNEL_PATH].shape == (10, 4)
    # Written complete or not at all.
    assert [x.name for x in saved.file.parent.iterdir()] == ["nim.safetensors"]


def test_earlier_checkpoint_can_be_loaded(saved: Saved) -> None:
    early, late = load_trained(saved.run, 5), load_trained(saved.run)
    assert (early.iteration, late.iteration) == (5, 7)
    kernels = (x.params["params"]["stem"]["kernel"] for x in (early, late))
    assert not np.array_equal(*kernels)
    assert_same_network(load_trained(saved.file, 7), late)
    with pytest.raises(ValueError, match=r"^iteration is 5; .* holds that of iteration 7$"):
        load_trained(saved.file, 5)
    with pytest.raises(ValueError, match="there is no checkpoint of iteration 6"):
        load_trained(saved.run, 6)


def test_packaged_network_is_loaded_by_name(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_network, "_PACKAGED", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^nim-9 is neither .* \(none yet\)$"):
        load_trained("nim-9")
    for name in ("nim-9", "other"):
        shutil.copy(saved.file, tmp_path / f"{name}.safetensors")
    assert trained_names() == ["nim-9", "other"]
    for name in ("nim-9", "nim_9"):
        assert_same_network(load_trained(name), load_trained(saved.file))
    with pytest.raises(ValueError, match=r"^go is neither .* \(nim-9, other\)$"):
        load_trained("go")


def rewrite(file: Path, to: Path, *, record: Any = None, **changes: Any) -> Path:
    """Copies a file with another record of the run, other entries of the file, or other arrays.

    Args:
      file: the file.
      to: the copy, with a checksum of its content.
      record: the record; by default that of the file.
      changes: arrays, or entries beside the record; `None` removes one.
    """
    arrays, content = read_arrays(file, "a network")[::-1]
    content |= {} if record is None else {"config": record}
    for name, change in changes.items():
        target = content if name in content else arrays
        target[name.replace("__", "/")] = change
    kept = ({name: x for name, x in part.items() if x is not None} for part in (arrays, content))
    write_arrays(to, *kept)
    return to


KERNEL, KERNEL_PATH = "params__stem__kernel", "params/stem/kernel"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({KERNEL: None}, r"does not fit .*: params/stem/kernel is missing$"),
        ({"params__x": np.ones(3)}, r"does not fit .*: params/x is unknown$"),
        ({KERNEL: np.ones((10, 4))}, r"kernel is float64 \[10, 4\], not float32 \[10, 4\]$"),
        ({"config": None}, "is not an exported network: its record has no config$"),
        ({"record": {}}, "has a record that cannot be used: game is missing$"),
        (
            {"record": WHOLE | {"game": 3}},
            "game is 3; it must be text without NUL$",
        ),
        ({"record": WHOLE | {"game": "chess"}}, "chess has no parameter 'pile'"),
        ({"record": WHOLE | {"game": "chss"}}, "cannot be used: no game 'chss': choose one of"),
        ({"record": WHOLE | {"network": {"dtype": "int8"}}}, "network.dtype is 'int8'; it must be"),
        ({"record": WHOLE | {"search": None}}, "search is null; it must be an object$"),
        ({"record": RECORD}, "architecture is missing$"),
        *(
            ({"iteration": x}, rf"its iteration is {re.escape(show_json(x))}; it must be a number")
            for x in (3.7, "7", 2**31)
        ),
        ({KERNEL: np.full((10, 4), -2e15, "f")}, rf"used: {KERNEL_PATH} holds -2e\+15;"),
    ],
)
def test_mismatched_file_is_refused(
    saved: Saved, tmp_path: Path, changes: Any, reason: str
) -> None:
    file = rewrite(saved.file, tmp_path / "other.safetensors", **changes)
    with pytest.raises(UserError, match=rf"other\.safetensors .*{reason}") as error:
        load_trained(file)
    assert "\n" not in str(error.value)


def test_the_fields_decide_and_not_the_options(saved: Saved, tmp_path: Path) -> None:
    """Options that a later version would read in another way."""
    options = RECORD["network"] | {"width": 99, "head_depths": [2]}
    record = WHOLE | {"network": options}
    found = load_trained(rewrite(saved.file, tmp_path / "x.safetensors", record=record))
    assert found.network == load_trained(saved.file).network


def test_separate_trunks_are_rebuilt_from_their_fields() -> None:
    env = games.make("nim", pile=9)
    network = SeparateTrunks(3, "mlp", 8, (3, 1), value_depth=2)
    record = json.loads(json.dumps({"architecture": describe_network(network)}))
    assert build_network(record, env) == network


FIELDS = ARCHITECTURE["fields"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fields": FIELDS | {"dropout": 0.1}}, "dropout is unknown; use the version"),
        ({"fields": {k: x for k, x in FIELDS.items() if k != "width"}}, "width is missing; use"),
        ({"fields": FIELDS | {"width": -4}}, "width is -4; it must be a number from 0 to"),
        ({"fields": FIELDS | {"width": 2**31 - 1}}, r"not float32 \[2147483647\]"),
        (
            {"fields": FIELDS | {"num_blocks": 10**9, "head_depths": [10**9]}},
            "describes more blocks than the 34 arrays that are saved",
        ),
        ({"fields": FIELDS | {"trunk": "conv"}}, "trunk is conv, which needs"),
        ({"fields": FIELDS | {"head_depths": ["2"]}}, r"head_depths is \['2'\]; it must be a list"),
        ({"fields": FIELDS | {"head_depths": [2, 1]}}, r"head_depths is \(2, 1\); it must incr"),
        ({"fields": FIELDS | {"num_actions": 9}}, "network has 9 actions, but nim has 3"),
        ({"type": "Forest"}, "network is Forest; it must be one of Network, SeparateTrunks"),
        ({"fields": None}, "architecture.fields is null; it must be an object"),
    ],
)
def test_other_fields_of_the_network_are_refused(
    saved: Saved, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    record = RECORD | {"architecture": ARCHITECTURE | changes}
    with pytest.raises(UserError, match=rf"x\.safetensors .*{words}") as error:
        load_trained(rewrite(saved.file, tmp_path / "x.safetensors", record=record))
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_run_records_every_field_of_its_network_and_resumes_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    flags = ("--search.variant", "alphazero", "--network.width", "4", "--network.num-blocks", "2")
    states = ("--network.kept-activations", "none", "--network.compact-states")
    name, config = parse_train(["connect2", *flags, *states, "--out", str(tmp_path / "run")])
    makers = [Mock(wraps=assemble.make_search_fn), Mock(side_effect=make_fake_trainer)]
    for maker, maker_name in zip(makers, ("make_search_fn", "make_trainer"), strict=True):
        monkeypatch.setattr(assemble, maker_name, maker)
    record = assemble.assemble(name, config).record
    options = {"keep_activations": False, "compact_states": True}
    assert all(options.items() <= maker.call_args.kwargs.items() for maker in makers)
    file = tmp_path / "run" / "config.json"
    saved = json.loads(file.read_text())
    network = build_network(saved, games.make("connect2"))
    assert saved["architecture"] == record["architecture"] == describe_network(network)

    resumed = dataclasses.replace(config, resume=True)
    assert assemble.assemble(name, resumed).record == record
    rounded = dataclasses.replace(config.network, dtype="bfloat16")
    with pytest.raises(ValueError, match=r"network\.dtype \(float32 → bfloat16\)"):
        assemble.assemble(name, dataclasses.replace(resumed, network=rounded))
    # A version with fewer fields did not write this one.
    del saved["architecture"]["fields"]["width"]
    file.write_text(json.dumps(saved))
    with pytest.raises(ValueError, match=r"configuration: architecture.fields.width \(\w+ → 4\);"):
        assemble.assemble(name, resumed)


def test_single_wrong_number_is_found(saved: Saved, tmp_path: Path) -> None:
    kernel = np.full((10, 4), 1e15, "f")
    load_trained(rewrite(saved.file, tmp_path / "large.safetensors", **{KERNEL: kernel}))
    kernel[7, 2] = np.inf
    message = f"{KERNEL_PATH} holds inf; parameters must be finite and at most 1e\\+15 in size"
    with pytest.raises(ValueError, match=message):
        load_trained(rewrite(saved.file, tmp_path / "bad.safetensors", **{KERNEL: kernel}))
    run = shutil.copytree(saved.run, tmp_path / "run")
    params = load_trained(saved.run).params
    params["params"]["stem"]["kernel"] = kernel
    checkpoints = open_checkpoints(run / "checkpoints", config=read_config(run))
    checkpoints.save(9, {"params": params, "iteration": jnp.int32(9)})
    checkpoints.wait()
    with pytest.raises(ValueError, match=f"^{run} cannot be used: {message}"):
        load_trained(run)
    assert load_trained(run, 7).iteration == 7


def test_changed_config_is_refused(saved: Saved, tmp_path: Path) -> None:
    run = shutil.copytree(saved.run, tmp_path / "run")
    other = json.dumps(with_versions(WHOLE | {"game_parameters": {"pile": 11}}))
    (run / "config.json").write_text(other)
    with pytest.raises(
        ValueError, match=r"iteration 7 was .*: game_parameters\.pile \(9 → 11\); put"
    ):
        load_trained(run)


def test_damaged_checkpoint_is_refused(saved: Saved, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(saved.run, run)
    # The numbers are in the largest file.
    parts = [x for x in (run / "checkpoints" / "7").rglob("*") if x.is_file()]
    largest = max(parts, key=lambda x: x.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 255
    largest.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"checkpoint of iteration 7 in .* cannot be read"
    ) as error:
        load_trained(run)
    assert "\n" not in str(error.value)
    assert load_trained(run, 5).iteration == 5


def test_a_folder_of_several_runs_names_them(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(with_versions(RECORD)))
    with pytest.raises(ValueError, match=r"^there is no checkpoint in "):
        load_trained(tmp_path)
    assert [x.name for x in tmp_path.iterdir()] == ["config.json"]
    for name in ("value", "player"):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
    names = f"name a run below it: {tmp_path}/player, {tmp_path}/value"
    with pytest.raises(ValueError, match=f"; {re.escape(names)}$"):
        load_trained(tmp_path)


def test_export_refuses_other_suffixes(saved: Saved, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"net\.zip; its name must end in \.safetensors$"):
        export_trained(load_trained(saved.file), tmp_path / "net.zip")
    found = load_trained(saved.file)
    unwritable = found._replace(record=WHOLE | {"a": object()})
    with pytest.raises(TypeError):
        export_trained(unwritable, tmp_path / "net.safetensors")
    broken = found._replace(params=jax.tree.map(lambda x: x * np.nan, found.params))
    with pytest.raises(ValueError, match=r"^params/\S+ has NaN or infinite numbers; export"):
        export_trained(broken, tmp_path / "net.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", REGISTRY)
def test_search_round_trips_through_record(name: str) -> None:
    policy = REGISTRY[name].policy()
    budget = policy.num_simulations
    other = tuple(n + 1 for n in budget) if isinstance(budget, tuple) else budget + 1
    policy = dataclasses.replace(policy, num_simulations=other)
    record = json.loads(json.dumps({"search": {"variant": name} | to_dict(policy)}))
    assert build_policy(record) == policy
    assert build_policy(record, name) == REGISTRY[name].policy()
    with pytest.raises(ValueError, match="choose a --variant"):
        build_policy({"search": to_dict(policy)})


def test_search_budgets_can_be_changed() -> None:
    assert build_policy(RECORD) == SEARCH
    assert build_policy(RECORD, None, (8, 4)) == dataclasses.replace(SEARCH, num_simulations=(8, 4))
    # No more rounds than simulations of the later trees.
    assert build_policy(RECORD, None, (8, 1)) == Dual((8, 1), num_rounds=1)
    assert build_policy(RECORD, "chain", (8, 2, 3)) == Chain((8, 2, 3), num_rounds=3)
    in_two = MPV((4, 2), schedule=(0, 0, 1, 0, 0, 1))
    assert with_simulations(in_two, (8, 4)) == MPV((8, 4), schedule=(0, 0, 0, 0, 1, 1) * 2)
    assert with_simulations(in_two, (8, 1)) == MPV((8, 1), schedule=(*(0,) * 8, 1))
    for simulations in ((8, 0), (8, 4, 2), (2.5, 1)):
        with pytest.raises(ValueError, match=r"^num_simulations is .*; it must be two numbers"):
            with_simulations(in_two, simulations)
    # Several trees share one number.
    assert build_policy(RECORD, None, [10]) == Dual((6, 4), num_rounds=2)
    assert build_policy(RECORD, "chain", np.int64(10)) == Chain((5, 3, 2), num_rounds=3)
    assert with_simulations(Dual((9, 0)), 10) == Dual((10, 0), num_rounds=1)
    for simulations in (9, (9,), [9], np.int64(9), (np.int32(9),)):
        policy = build_policy(RECORD, "alphazero", simulations)
        # As JSON can hold it.
        assert (policy.num_simulations, type(policy.num_simulations)) == (9, int)
    bad = {
        "variant is azero; it must be one of dual, ": ("azero", None),
        "num_simulations is 3 2 1; it must be two numbers": (None, (3, 2, 1)),
        "num_simulations is empty; it must be two numbers": (None, ()),
        "num_simulations is 2.5; it must be a whole number": (None, 2.5),
        "num_simulations is 1 1 0; it must be two numbers or more": ("chain", 2),
        "num_simulations is .*; it must be a whole number": ("gumbel", (3, 2)),
        "num_simulations is 0; it must be at least 1": ("muzero", 0),
    }
    for words, (variant, simulations) in bad.items():
        with pytest.raises(ValueError, match=f"^{words}"):
            build_policy(RECORD, variant, simulations)


def test_non_default_function_is_refused() -> None:
    """JSON stores only a name, so the loaded search would differ."""
    transform = functools.partial(mctx.qtransform_by_parent_and_siblings, epsilon=0.5)
    name, policy = "muzero", MuZero(4, qtransform=transform)
    record = json.loads(json.dumps({"search": {"variant": name} | to_dict(policy)}))
    words = r"^qtransform is .*qtransform_by_.*; it must be 'qtransform_.* a --variant$"
    with pytest.raises(ValueError, match=words) as error:
        build_policy(record)
    assert "\n" not in str(error.value)
    assert build_policy(record, name) == MuZero()


@pytest.mark.parametrize(
    "search", [None, 3, {"variant": "dual", "puct": 3}, {"variant": "dual", "depth": 3}]
)
def test_unreadable_search_is_refused(search: Any) -> None:
    with pytest.raises(ValueError, match=r"^the record's search cannot be read: "):
        build_policy({"search": search})


def test_model_options_come_from_run() -> None:
    options = model_kwargs_of(RECORD)
    assert options == {"activations_dtype": "bfloat16", "compact_states": True}
    older = {"network": {"width": 4}}
    assert model_kwargs_of(older) == {"activations_dtype": "float32", "compact_states": False}
    rounded = {"network": {"dtype": "bfloat16", "kept_activations": "float32"}}
    assert model_kwargs_of(rounded)["activations_dtype"] == "bfloat16"
    anew = {"network": {"kept_activations": "none"}}
    assert model_kwargs_of(anew) == {"keep_activations": False, "compact_states": False}


def make_parts(**options: Any) -> tuple[Any, Any]:
    env = games.make("nim", pile=9)
    sizes = {"width": 4, "num_blocks": 3, **options}
    network = dualmctx.make_network(env.num_actions, env.observation_shape, **sizes)
    return network, random_params(network, env.observation_shape)


@pytest.mark.parametrize("variant", ["dual", "mpv"])
def test_network_is_loaded_as_it_was_saved(variant: str, tmp_path: Path) -> None:
    policy = REGISTRY[variant].policy()
    network, params = make_parts(
        dtype="bfloat16",
        num_heads=len(policy.heads),
        separate_trunks=policy.traits.separate_trunks,
    )
    pile = {"pile": 9}
    made = dualmctx.make_trained("nim", network, params, policy, game_parameters=pile, iteration=4)
    dualmctx.export_trained(made, tmp_path / "nim.safetensors")
    found = dualmctx.load_trained(tmp_path / "nim.safetensors")
    assert (found.network, found.iteration) == (network, 4)
    assert found.env.observation_shape == made.env.observation_shape == (10,)
    jax.tree.map(np.testing.assert_array_equal, found.params, params)
    assert build_policy(found.record) == policy


def test_unsavable_parts_are_refused() -> None:
    network, params = make_parts()
    policy = dualmctx.AlphaZero(4)
    with pytest.raises(ValueError, match="the network's num_actions is 3; it must be 4, those of"):
        dualmctx.make_trained("connect2", network, params, policy)
    with pytest.raises(ValueError, match="no game 'nym'"):
        dualmctx.make_trained("nym", network, params, policy)
    # A user's class of the same name and with the same fields may compute something else.
    same: Any = type("Network", (type(network),), {})(network.num_actions)
    with pytest.raises(ValueError, match=r"^the type of the network is test_trained.Network; it "):
        dualmctx.make_trained("nim", same, params, policy, game_parameters={"pile": 9})
    own: Any = type("Own", (), {})()
    with pytest.raises(ValueError, match="policy is of type Own; it must be of one of the types"):
        dualmctx.make_trained("nim", network, params, own, game_parameters={"pile": 9})
