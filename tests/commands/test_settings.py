"""Settings from files: TOML and JSON, names and types, precedence, and the printed TOML."""

import dataclasses
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dualmctx import Dual, Gumbel
from dualmctx.commands import compare, evaluate, train
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.train import to_toml
from dualmctx.experiment.assemble import record_of
from dualmctx.policies import REGISTRY
from dualmctx.training.config import Config
from dualmctx.training.presets import PRESETS
from untrained import parse_train


def written(path: Path, content: Any) -> str:
    """Writes a file of settings; a dictionary is written as JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return str(path)


def train_with(path: Path, content: Any, *arguments: str) -> Config:
    suffix = ".toml" if isinstance(content, str) else ".json"
    file = written(path / f"settings{suffix}", content)
    return parse_train([*arguments, "--config", file])[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_the_printed_settings_of_a_preset_are_read_back(name, tmp_path):
    text = to_toml(name, PRESETS[name])
    file = written(tmp_path / "printed.toml", text)
    assert parse_train(["--config", file]) == (name, PRESETS[name])
    # Every setting is printed, so the preset may change later.
    nothing = dataclasses.replace(PRESETS[name], search=Dual(), game="")
    settings = {x: y for x, y in tomllib.loads(text).items() if x != "preset"}
    assert settings.keys() >= {
        x.name for x in dataclasses.fields(Config) if getattr(nothing, x.name)
    }


@pytest.mark.slow
@pytest.mark.parametrize("variant", REGISTRY)
def test_the_printed_settings_of_a_variant_are_read_back(variant, tmp_path):
    arguments = ["nim", "--search.variant", variant, "--out", 'a "b\\c" ü\t']
    limit = ["--learner.max-gradient-norm", "inf", "--game-parameters", "komi", "6.0", "pile", "9"]
    name, config = parse_train([*arguments, *limit, "--memory-limit", "1e-05"])
    file = written(tmp_path / "printed.toml", to_toml(name, config))
    assert parse_train(["--config", file]) == (name, config)


def test_print_config_applies_preset_file_and_flags(tmp_path, capsys):
    file = written(tmp_path / "some.toml", "seed = 3\nkeep = 4\n[selfplay]\nnum-games = 32\n")
    flags = ["--config", file, "--keep", "5", "--print-config", "--evals.every", "1"]
    assert train.main(["nim", *flags]) == 0
    printed = capsys.readouterr().out
    name, config = parse_train(["--config", written(tmp_path / "all.toml", printed)])
    expected = dataclasses.replace(
        PRESETS["nim"],
        seed=3,
        keep=5,
        selfplay=dataclasses.replace(PRESETS["nim"].selfplay, num_games=32),
        evals=dataclasses.replace(PRESETS["nim"].evals, every=1),
    )
    assert (name, config) == ("nim", expected)


def test_the_config_of_a_run_starts_another_one(tmp_path):
    arguments = ["hsr", "--search.variant", "gumbel", "--learner.max-gradient-norm", "inf"]
    name, config = parse_train([*arguments, "--selfplay.resign-below", "-0.9"])
    record = record_of(name, config) | {"architecture": {}}
    # JSON has no infinite numbers.
    assert math.isinf(record["learner"]["max_gradient_norm"])
    record["learner"]["max_gradient_norm"] = None
    file = written(tmp_path / "config.json", record)
    name, again = parse_train(["--config", file])
    assert name == "hsr"
    # The record has the type of the network that the variant chose.
    network = dataclasses.replace(config.network, separate_trunks=False)
    assert again == dataclasses.replace(config, network=network)


def test_a_file_with_all_groups_needs_no_preset(tmp_path):
    text = to_toml("mine", PRESETS["nim"]).partition("\n")[2]
    file = written(tmp_path / "none.toml", text)
    assert parse_train(["--config", file]) == ("nim", PRESETS["nim"])


def test_the_variant_of_a_flag_replaces_that_of_the_file(tmp_path):
    settings = {"preset": "nim", "search": {"variant": "gumbel", "num_simulations": 9}}
    assert train_with(tmp_path, settings).search == Gumbel(num_simulations=9)
    flags = ["--search.variant", "dual", "--search.num-rounds", "7"]
    assert train_with(tmp_path, settings, "nim", *flags).search == Dual(num_rounds=7)
    kept = train_with(tmp_path, settings, "nim", "--search.variant", "gumbel").search
    assert kept == Gumbel(num_simulations=9)


def test_the_setting_of_the_paper_is_changed_by_flags_and_recorded(tmp_path):
    flags = ["--search.variant", "dual", "--search.paper", "--search.backup.window", "15"]
    name, config = parse_train(["connect-four", *flags])
    assert config.search == Dual.paper(window=15)
    # The record has every option, so a later default does not change the run.
    record = record_of(name, config)
    assert "paper" not in record["search"]
    again = parse_train(["--config", written(tmp_path / "config.json", record)])[1]
    assert again.search == config.search
    # The flag replaces the search of the file; without a variant, it needs a search of Dual.
    in_file = {"search": {"variant": "dual", "num_rounds": 7}}
    assert train_with(tmp_path, in_file, "nim", "--search.paper").search == Dual.paper()
    in_file["search"] |= {"paper": True, "value_mix": 0.5}
    assert train_with(tmp_path, in_file, "nim").search == Dual.paper(num_rounds=7, value_mix=0.5)
    with pytest.raises(ValueError, match=r"^the setting paper is for gumbel; it must be"):
        parse_train(["connect-four", "--search.paper"])


# A file of settings, and the parts of the message that refuses it.
BAD = {
    "unknown": ("sede = 1", "no entry 'sede'; perhaps you meant seed"),
    "unknown in a group": ("[learner]\nrate=1", "no entry 'learner.rate'"),
    "group left out": ("learning_rate = 1", "'learning_rate'; perhaps you meant learner.learning"),
    "text for a number": ('seed = "1"', "seed is '1'; it must be a whole number"),
    "number for a group": ("learner = 1", "learner is 1; it must be a table of settings"),
    "out of range": ("[learner]\nlearning_rate = -1", "[learner] learning_rate is -1.0; it must"),
    "variant": ('[search]\nvariant = "x"', "there is no search variant 'x'; the variants are dual"),
    "paper of another variant": (
        '[search]\nvariant = "mpv"\npaper = true',
        "the setting paper is for mpv; it must be for one of dual; choose it by search.variant",
    ),
    "number as preset": ("preset = 3", "preset is 3; it must be text"),
    "trunk as factory": ('[network]\nfactory="mlp"', "toml: network.factory is mlp; write it as"),
    "function": ('[search]\nvariant = "gumbel"\nqtransform = "f"', "cannot hold another function"),
    "resume": ("resume = true", "resume is a flag only"),
    "another preset": ('preset = "hsr"', "preset is 'hsr', but the command names nim"),
    "not TOML": ("seed = ", "is not valid TOML"),
    "in two spellings": ("[selfplay]\nnum_games=1\nnum-games=1", "selfplay.num_games occurs twice"),
    "not JSON": ([1], "holds no object"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_its_name(name, tmp_path, capsys):
    content, words = BAD[name]
    with pytest.raises(ValueError, match="settings") as error:
        train_with(tmp_path, content, "nim")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", '{"seed": 1, "seed": 2}', "a.json: the JSON names the field 'seed' twice"),
        ("a.json", '{"seed": NaN}', "a.json: not JSON: "),
        ("a.yaml", "seed: 1", "ends in .toml or .json"),
    ],
)
def test_a_file_of_another_format_is_refused(name, content, words, tmp_path):
    with pytest.raises(ValueError, match=r"^--config ") as error:
        parse_train(["nim", "--config", written(tmp_path / name, content)])
    assert words in str(error.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match="No such file"):
        parse_train(["nim", "--config", str(tmp_path / "none.toml")])
    with pytest.raises(ValueError, match=r"is a folder; name a file, such as .*config\.json"):
        parse_train(["nim", "--config", str(tmp_path)])
    (tmp_path / "binary.toml").write_bytes(b"\xff\x00")
    with pytest.raises(ValueError, match="is not UTF-8 text, at byte 0"):
        parse_train(["nim", "--config", str(tmp_path / "binary.toml")])
    with pytest.raises(ValueError, match="--config is given twice; write all settings into one"):
        parse_train(["nim", "--config", "a.toml", "--config=b.toml"])


@pytest.mark.parametrize(
    ("default", "settings", "arguments", "expected"),
    [
        (
            evaluate.Options(),
            {"checkpoint": "nim", "positions": "a.csv", "variant": "dual", "seed": 1, "batch": 2},
            ["--seed", "4"],
            {"checkpoint": "nim", "positions": "a.csv", "batch": 2, "variant": "dual", "seed": 4},
        ),
        (
            compare.Options(),
            {"players": ["random", "perfect"], "sprt": [0, 10], "opening-plies": [2, 4]},
            ["--games", "10"],
            {"players": ("random", "perfect"), "sprt": (0.0, 10.0), "opening_plies": (2, 4)},
        ),
    ],
)
def test_other_commands_read_settings(default, settings, arguments, expected, tmp_path):
    file = written(tmp_path / "settings.json", settings)
    options = parse_flags(default, [*arguments, "--config", file], "", "")
    assert {name: getattr(options, name) for name in expected} == expected


def test_other_commands_refuse_bad_settings(tmp_path):
    file = written(tmp_path / "settings.json", {"simulation": 3})
    for default in (evaluate.Options(), compare.Options()):
        with pytest.raises(ValueError, match=r"'simulation'; perhaps you meant simulations$"):
            parse_flags(default, ["--config", file], "", "")
    file = written(tmp_path / "few.json", {"players": ["random"]})
    with pytest.raises(ValueError, match=r"few\.json: number of players is 1"):
        parse_flags(compare.Options(), ["--config", file], "", "")
