"""`dualmctx dataset`: files of games, bad games, exit codes, resuming."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import games
from dualmctx.datasets import load_dataset, read_manifest, read_shard
from dualmctx.datasets.records import open_records, parse_result, read_records
from dualmctx.datasets.shards import shard_paths
from dualmctx.errors import UserError
from dualmctx.matches import Tournament, play_tournament, random_openings, random_player
from dualmctx.runs.journal import read_rows
from made_data_sets import ALL, make, play_randomly, run, write_games

GARDNER = '[Variant "Gardner"]\n'
MATE = f'{GARDNER}[SetUp "1"]\n[FEN "4k/1q3/5/2r2/K4 b - - 0 1"]\n[Result "*"]\n\n1... Qb2# 0-1\n\n'
WON = f'{GARDNER}[Result "1-0"]\n\n1. b3 axb3 1-0\n\n'
OPEN = f'{GARDNER}[Result "*"]\n\n1. c3 *\n\n'
BAD = f'{GARDNER}[Result "1-0"]\n\n1. b3 axb3 2. Kc3 1-0\n\n'


def go(size: int, moves: str, *, komi: str = "0.5", result: str = "B+3.5") -> str:
    played = "".join(f";{'BW'[i % 2]}[{move}]" for i, move in enumerate(moves.split(",")))
    return f"(;GM[1]FF[4]SZ[{size}]KM[{komi}]RE[{result}]{played})\n"


@pytest.mark.slow
def test_chess_gives_results_of_games_and_of_records_after_a_fen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Black moves first and mates; White is the first side."""
    file = tmp_path / "x.pgn.gz"
    file.write_bytes(gzip.compress((MATE + BAD + WON + OPEN).encode()))
    # The first one has its result after its moves only.
    found = [(x.number, x.result, x.error is None) for x in read_records([open_records(file)])]
    assert found == [(1, -1, True), (2, 1, False), (3, 1, True), (4, None, True)]
    assert run("gardner_chess", file, "--out", tmp_path / "set", *ALL) == 1
    output = capsys.readouterr()
    assert f"{file}, game 2: move 3, 'Kc3', is not possible" in output.err
    assert "games: 4 read, 1 bad, 1 without a result" in output.out
    results = {"first_wins": 1, "draws": 0, "second_wins": 1, "unknown": 0}
    assert read_manifest(tmp_path / "set").splits["train"]["results"] == results
    assert [row["number"] for row in read_rows(tmp_path / "set" / "bad-games.jsonl")] == [2]
    [path] = shard_paths(tmp_path / "set", "train")
    assert read_shard(path).values.tolist() == [1, 1, -1]


def test_games_of_a_fen_are_loaded_from_there(tmp_path: Path) -> None:
    game = "own_nim:NimWithPositions"
    file = write_games(tmp_path / "x.jsonl", [{"moves": "3 2", "fen": "5p\n"}, {"moves": "3 3 3"}])
    flags = ("--game-parameters", "pile", 9, "--out", tmp_path / "set")
    assert run(game, file, *flags, *ALL) == 0
    [batch] = load_dataset(tmp_path / "set", env=games.make(game, pile=9), shuffle=False)
    # The game shows the whole pile in a position of a FEN.
    piles = np.argmax(batch.positions.observation, axis=1)
    assert piles.tolist() == [9, 2, 9, 6, 3]
    assert np.asarray(batch.positions.value).tolist() == [-1, 1, 1, -1, 1]


@pytest.mark.slow
def test_sgf_of_another_size_komi_or_game_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.sgf"
    records = [
        go(9, "ee,dd,cc"),
        go(19, "dd,pp"),
        go(9, "ee,cc", komi="7.5"),
        "(;GM[2];B[d3])\n",
        go(9, "ee,ee"),
        go(9, "aa,,,dd"),
        go(9, "aa", result="Void"),
        # Two passes on an empty board: White wins by the komi, the record says otherwise.
        go(9, ",", result="B+R"),
        "(;GM[1]SZ[9];B[",
    ]
    file.write_text("".join(records))
    flags = ("--game-parameters", "komi", "0.5", "--results", "record")
    assert run("go_9x9", file, *flags, "--out", tmp_path / "set", *ALL) == 1
    reasons = [row["reason"] for row in read_rows(tmp_path / "set" / "bad-games.jsonl")]
    parts = [
        "the board is 19×19, but this is go_9x9 on 9×9",
        "the komi is 7.5, but the data set has komi 0.5",
        "the game is othello, but this is go_9x9; give games of go_9x9",
        "move 2, 'E5', is illegal",
        "move 4, 'D6', comes after the end of the game",
        "not closed",
    ]
    for part, reason in zip(parts, reasons, strict=True):
        assert part in reason
    manifest = read_manifest(tmp_path / "set")
    names = ("read", "bad", "without_result", "contradicted")
    assert [manifest.counts[name] for name in names] == [9, 6, 1, 1]
    assert manifest.splits["train"]["results"]["first_wins"] == 2
    assert manifest.game_parameters == {"komi": 0.5}
    assert "6 bad" in capsys.readouterr().out


def test_results_are_parsed() -> None:
    texts = {
        **{"B+R": 1, "B+3.5": 1, "w+0.5": -1, "0": 0, "Draw": 0, "jigo": 0},
        **{"1-0": 1, "0-1": -1, "1/2-1/2": 0},
        **dict.fromkeys(("*", "Void", "?", "", "B")),
    }
    assert {text: parse_result(text) for text in texts} == texts
    texts = {"-64.00:r": -1, "+2.000": 1, "4:t": 1, "-0.00:s": 0, "0": 0, "2:x": None, "B+2": 1}
    assert {text: parse_result(text, is_ggf=True) for text in texts} == texts


def test_games_in_ggf_have_the_result_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "x.ggf"
    file.write_text("(;GM[Othello]RE[-64.00:r]B[f5];)(;GM[Othello]RE[12.00:t]B[f5];)")
    assert [game.result for game in read_records([open_records(file)])] == [-1, 1]


def test_of_failures_only_a_resignation_is_a_result(tmp_path: Path) -> None:
    endings = (None, "resigned", "crashed", "timed out", "illegal move", "refused")
    rows = [{"moves": [0], "result": -1, "is_over": True, "ending": x} for x in endings]
    file = write_games(tmp_path / "games.jsonl", rows)
    found = [game.result for game in read_records([open_records(file)])]
    assert found == [-1, -1, None, None, None, None]


@pytest.mark.slow
def test_games_of_a_tournament_are_read(tmp_path: Path) -> None:
    env = make("tic_tac_toe")
    tournament = Tournament(
        env=env,
        players=(random_player("a"), random_player("b")),
        openings=random_openings(env, 4, plies=2, seed=0),
        max_plies=7,
    )
    played = play_tournament(tournament, tmp_path / "games")
    file = tmp_path / "games" / "games.jsonl"
    assert run("tic-tac-toe", file, "--out", tmp_path / "set", *ALL) == 0
    manifest = read_manifest(tmp_path / "set")
    cut = sum(not game.is_over for game in played)
    assert cut
    # A game that was cut short counts as a draw in a tournament; here it has no result.
    assert manifest.counts["without_result"] == cut
    for batch in load_dataset(tmp_path / "set", env=env):
        # The two moves of the opening were not chosen.
        assert np.asarray(batch.plies).min() == 2


def test_games_with_other_parameters_are_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"moves": [2, 2, 0], "result": 0},
        {"moves": [2, 1], "result": 1, "game_parameters": {"pile": 20, "max_take": 3}},
        {"moves": [1], "result": 1, "game_parameters": {"pile": 9}},
        {"moves": [1], "result": 1, "game_parameters": {"size": 9}},
        {"moves": [1], "result": 1, "game_parameters": 9},
    ]
    file = write_games(tmp_path / "x.jsonl", lines)
    assert run("nim", file, "--out", tmp_path / "set", *ALL) == 1
    errors = capsys.readouterr().err.splitlines()
    parts = ("has pile 9, but the data set has pile 20", "has size 9", "it must be an object")
    for part, line in zip(parts, errors, strict=True):
        assert part in line
    assert "--game-parameters pile 9" in errors[0]
    # The parameters of a tournament are in its folder.
    file = write_games(tmp_path / "games.jsonl", [{"moves": [2, 2], "result": 0}])
    settings = {"game": "nim", "about": {"game_parameters": {"pile": 9}}, "players": {}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert run("nim", file, "--out", tmp_path / "played", *ALL) == 2
    assert "the game has pile 9, but the data set has pile" in capsys.readouterr().err
    for damaged in ("{", "[1]", "[" * 100_000, '{"players": {}}', '{"players": {}, "about": 5}'):
        (tmp_path / "config.json").write_text(damaged)
        with pytest.raises(UserError, match=r"config\.json cannot be read: .*; put back a copy or"):
            open_records(file)


def test_bad_lines_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [moves] = play_randomly("tic_tac_toe", 1)
    lines = [
        json.dumps({"moves": moves}),
        "[1",
        json.dumps({"game": 1}),
        json.dumps({"moves": "1 2", "result": "x" * 2, "opening": -1}),
        json.dumps({"moves": [0], "result": 7}),
        json.dumps({"moves": "1 z"}),
        json.dumps({"moves": [0], "fen": "x"}),
        json.dumps({"moves": [0], "random": "x"}),
        json.dumps({"error": "the program gave no answer"}),
        json.dumps({"moves": moves, "game": "hex"}),
        "\xff",
        json.dumps({"error": 5}),
        json.dumps({"moves": [0], "random": [10**30]}),
        json.dumps({"moves": moves, "result": "white"}),
    ]
    file = tmp_path / "x.jsonl"
    file.write_text("\n".join(lines), encoding="latin-1")
    assert run("tic_tac_toe", file, "--out", tmp_path / "set", *ALL) == 1
    parts = (
        *("line 2: not JSON", "line 3: not a game with the field moves", "line 4: opening is -1"),
        *("line 5: result is 7", "move 2, 'z', is not a move"),
        *("FEN", "line 8: random is 'x'", "the program gave no answer", "game is hex", "not UTF-8"),
        *("line 12: not a game with the field moves", "line 13: the JSON has"),
        "line 14: result is 'white'; it must be from -1 to 1, null, or",
    )
    errors = capsys.readouterr().err.splitlines()
    found = [line for line in errors if f"{file}, game" in line]
    for number, (part, line) in enumerate(zip(parts, found, strict=True), start=2):
        assert f"game {number}: " in line
        assert part in line


def test_many_bad_games_are_listed_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of a file may have any bytes, and a game may give any reason, of any length."""
    reasons = ["\ud800", "\x1b[2J\n", "x" * 10_000]
    rows = [*play_randomly("tic_tac_toe", 1), *({"error": x} for x in reasons), *[[0, 0]] * 30]
    file = write_games(tmp_path / "x\udcff.jsonl", rows)
    assert run("tic_tac_toe", file, "--out", tmp_path / "set", *ALL) == 1
    errors = capsys.readouterr().err
    assert errors.count("move 2, '1', is illegal") == 20 - len(reasons)
    assert "13 more bad games" in errors
    found = read_rows(tmp_path / "set" / "bad-games.jsonl")
    assert [row["number"] for row in found] == list(range(2, 35))
    for row in found:
        assert row["file"].endswith("x\\udcff.jsonl")
        assert row["reason"].isprintable()
        assert len(row["reason"]) < 400


_SIMULATIONS, _NETWORK = ("--simulations", "4"), ("--network", "package.module:factory")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tic_tac_toe",), "no FILE and no player"),
        (("tic_tac_toe", "FILE", "--from", "perfect"), "both FILEs and a player"),
        (("chess_960", "FILE"), "no game 'chess_960'"),
        (("tic_tac_toe", "x.txt"), "it must end in one of .pgn, .sgf, .ggf, .jsonl"),
        (("tic_tac_toe", "FILE", "--test", "0.6", "--validation", "0.4"), "together less than 1"),
        (("tic_tac_toe", "FILE", "--block", "0"), "block is 0"),
        (("tic_tac_toe", "--from", "dual"), "has no checkpoint; write CHECKPOINT+dual\n"),
        (("tic_tac_toe", "FILE", *_SIMULATIONS), "--simulations is for openspiel and searches"),
        (("nim", "--from", "nim+own", *_SIMULATIONS), "other than own, without :simulations=;"),
        (("tic_tac_toe", "--from", "openspiel", *_NETWORK), "--network is for CHECKPOINT+SEARCH;"),
        (("tic_tac_toe", "--from", "perfect", "--opening-plies", "-1"), "opening_plies is -1"),
        (("tic_tac_toe", "--from", "perfect", "--random-share", "1"), "random_share is 1"),
        (("tic_tac_toe", "FILE", "--seed", "1"), "seed is 1; it is for a player, leave it out"),
        (("tic_tac_toe", "EMPTY"), "there is no game in "),
        (("tic_tac_toe", "UNFINISHED"), "no game was kept of 1 read: 0 bad, 1 without a result"),
        (("connect_four", "FILE", "--resume"), "has no config.json"),
        (("tic_tac_toe", "FOLDER.pgn"), "FOLDER.pgn; it is a folder; name its files"),
        (("gardner_chess", "CHESS.pgn"), "the game is chess, but this is gardner_chess; give its"),
        (("tic_tac_toe", "CUT.jsonl.gz"), "CUT.jsonl.gz cannot be decompressed"),
    ],
)
def test_bad_input_gives_one_clear_line(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    [moves] = play_randomly("tic_tac_toe", 1)
    files = {"FILE": [moves], "EMPTY": [], "UNFINISHED": [moves[:2]]}
    paths = {x: str(write_games(tmp_path / f"{x}.jsonl", rows)) for x, rows in files.items()}
    paths |= {x: str(tmp_path / x) for x in ("FOLDER.pgn", "CHESS.pgn", "CUT.jsonl.gz")}
    Path(paths["FOLDER.pgn"]).mkdir()
    Path(paths["CHESS.pgn"]).write_text('[Event "?"]\n\n1. c3 dxc3 1-0\n')
    Path(paths["CUT.jsonl.gz"]).write_bytes(gzip.compress(b'{"moves": [0]}\n' * 100)[:-9])
    given = [paths.get(x, x) for x in arguments]
    assert run(*given, "--out", tmp_path / "set") == 2
    *before, line = capsys.readouterr().err.splitlines(keepends=True)
    # A bad game has a line of its own.
    assert len(before) == ("CHESS.pgn" in arguments)
    assert line.startswith("dualmctx dataset: ")
    assert message in line
    # The next command can use the folder.
    assert not [x for x in tmp_path.glob("set/*") if not x.name.startswith(".")]


@pytest.mark.slow
def test_unfinished_games_of_an_engine_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = ("--from", "perfect", "--processes", 1, "--games", 3)
    engine += ("--opening-plies", 0, "--max-plies", 2)
    assert run("tic_tac_toe", *engine, "--out", tmp_path / "set", *ALL) == 2
    file = tmp_path / "set" / "games.jsonl"
    assert f"the games are in {file}" in capsys.readouterr().err
    flags = ("--unknown-results", "keep", "--out", tmp_path / "kept")
    assert run("tic_tac_toe", file, *flags, *ALL) == 0
