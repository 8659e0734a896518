"""Games of programs: a failure loses a game, and the match goes on; real programs play.

The programs of other projects are optional: docs/engines.md says how to install them.
"""

import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx.commands.main import main
from dualmctx.errors import UserError
from dualmctx.matches.game_file import Game, read_games
from dualmctx.matches.other_players import gtp_player, uci_player
from dualmctx.matches.players import HostMover, Player, host_mover, random_player
from dualmctx.matches.tournament import Tournament, play_tournament
from dualmctx.programs.gtp import GtpProgram
from games.histories import pad_histories
from installed import gtp_results, needs, uci_boards
from refusals import refused

FAKE = Path(__file__).parents[1] / "programs" / "fake_gtp.py"
ENV = games.make("tic_tac_toe")


def fake(fault: str, log: Path) -> str:
    return shlex.join([sys.executable, str(FAKE), str(log / fault), fault])


def close(*players: Player) -> None:
    for player in players:
        if isinstance(player.mover, HostMover):
            player.mover.close()


FAULTS = {
    "crash": ("crashed", "the program ended with exit code 3 at 'genmove W'"),
    "hang": ("timed out", "the program gave no answer to 'genmove W' in 2 s"),
    "illegal": ("illegal move", "the engine's move 4, 9, is not legal"),
    "nonsense": ("illegal move", "the program's move is 'z9', which is not a move of tic_tac_toe"),
    "refuse": ("refused", "the program refused 'genmove W': not now"),
    "resign": ("resigned", "the program resigned"),
}


def test_a_failure_loses_a_game_and_the_match_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The faults occur at the second move, by then of the opponent 9 and 8 are on the board."""
    send, asked = GtpProgram.send, Counter[GtpProgram]()

    def send_impatiently(program: GtpProgram, command: str) -> str:
        asked[program] += command.startswith("genmove")
        if asked[program] == 2 and program._process.args[-1] == "hang":
            assert program._timeout == 99
            program._timeout = 2
        return send(program, command)

    monkeypatch.setattr(GtpProgram, "send", send_impatiently)
    opponent = Player("z", host_mover(lambda history, seed: max({*range(9)} - {*history})))
    faulty = [gtp_player(ENV, fake(x, tmp_path), timeout=99, name=x) for x in FAULTS]
    pairings = [(number, len(faulty)) for number in range(len(faulty))]
    players = (*faulty, opponent)
    played = play_tournament(Tournament(ENV, players, [()], pairings, batch_size=1))
    close(*players)
    assert len(played) == 2 * len(FAULTS)
    for game in played:
        [name] = {*game.players} - {"z"}
        side = game.players.index(name)
        kind, reason = FAULTS[name]
        assert game.result == (-1, 1)[side]
        assert (game.is_over, game.ending, len(game.moves)) == (True, kind, (2, 3)[side])
        assert game.num_chosen[side] == 1
        if side == 1:
            assert game.reason == reason
    # The program that crashed was started again for each game, after the one for its name.
    assert (tmp_path / "crash").read_text().splitlines().count("clear_board") == 3


@pytest.mark.slow
def test_a_comparison_reports_failures_and_can_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, command = tmp_path / "out", fake("crash", tmp_path)
    flags = ["compare", f"bad=gtp:{command}", "random", "--game", "tic_tac_toe", "--seed", "1"]
    flags += ["--out", str(out), "--openings", "start", "--batch", "2", "--processes", "1"]
    assert main([*flags, "--games", "4"]) == 0
    assert main([*flags, "--games", "8", "--resume"]) == 0
    shown = capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    played = read_games(out / "games.jsonl")
    assert len(played) == 8
    assert all((x.ending, x.players[x.result > 0]) == ("crashed", "bad") for x in played)
    reason = played[0].reason
    assert report["endings"] == [
        {"player": "bad", "ending": "crashed", "games": 8, "reason": reason}
    ]
    assert "crashed" in shown
    assert report["games"]["cut_short"] == 0
    flags[1] = flags[1].replace("crash", "none")
    assert "players.bad.command" in refused([*flags, "--games", "8", "--resume"], capsys)


def test_programs_that_refuse_every_move_are_reported(tmp_path: Path) -> None:
    programs = [f"{name}=gtp:{fake('mute', tmp_path)}" for name in "ab"]
    flags = ["--games", "2", "--openings", "start", "--processes", "1"]
    flags += ["--out", str(out := tmp_path / "out")]
    assert main(["compare", *programs, "--game", "tic_tac_toe", *flags]) == 0
    report = json.loads((out / "report.json").read_text())
    assert [row["ending"] for row in report["endings"]] == ["refused", "refused"]


@pytest.mark.parametrize(
    ("player", "message"),
    [
        ("gtp:no-such-program -x", "player 'gtp:no-such-program -x': the command is 'no-such-prog"),
        ("gtp:'", "it cannot be parsed"),
        ("gtp:level=3:gnugo", "gtp has no option level; it has timeout"),
        ("gtp:timeout=0:gnugo", "timeout is 0.0; it must be positive and finite"),
        ("uci:nodes=1:stockfish", "UCI has no moves of tic_tac_toe"),
    ],
)
def test_programs_that_do_not_fit_are_refused(
    player: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--game", "tic_tac_toe", "--out", str(tmp_path / "out")]
    assert message in refused(["compare", player, "random", *flags], capsys)
    assert not (tmp_path / "out").exists()


def test_limits_of_uci_are_checked() -> None:
    for limits in ({"seconds": 1}, {"nodes": 0}):
        with pytest.raises(UserError, match=r"the limits of a move are |nodes is 0"):
            uci_player(games.make("gardner_chess"), "stockfish", limits=limits)


def play(env: Any, player: Player, **options: Any) -> list[Game]:
    """Plays a pair of games against random moves."""
    options = {"openings": [()], "batch_size": 1, "max_plies": 200} | options
    played = play_tournament(Tournament(env, (player, random_player()), **options))
    close(player)
    assert len(played) == 2
    assert all(game.is_over and game.ending is None for game in played)
    return played


GNU_GO = (
    "gnugo --mode gtp --level 1 --chinese-rules --positional-superko --play-out-aftermath "
    "--capture-all-dead --seed {seed}"
)


@pytest.mark.slow
@pytest.mark.parametrize(("game", "command"), [("go_9x9", GNU_GO), ("othello", "gtp-rhino")])
def test_programs_of_go_and_othello_play_and_agree_on_the_result(game: str, command: str) -> None:
    needs(command.split()[0])
    env = games.make(game)
    played = play(env, gtp_player(env, command, name="program"))
    # The random player may leave dead stones, which the program captures before it passes.
    assert [x.result * (1, -1)[x.players.index("program")] for x in played] == [1, 1]
    assert gtp_results(env, command, [x.moves for x in played]) == [x.result for x in played]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "command", "fen"),
    [
        ("chess", "stockfish", "rnbqkbnr/pppp1ppp/8/8/4pP2/8/PPPPP1PP/RNBQKBNR b KQkq f3 0 1"),
        ("gardner_chess", "fairy-stockfish", "rnbqk/ppppp/P4/1PPPP/RNBQK b - - 0 1"),
    ],
)
def test_programs_of_chess_play_and_agree_on_the_board(game: str, command: str, fen: str) -> None:
    needs(command)
    env = games.make(game)
    player = uci_player(env, command, limits={"nodes": 500}, options={"Hash": "1"}, name="program")
    played = play(env, player, openings=[(fen,)])
    assert [x.result * (1, -1)[x.players.index("program")] for x in played] == [1, 1]
    # tests/games compares chess with python-chess.
    if game == "gardner_chess":
        found = [row for x in played for row in uci_boards(env, command, fen, x.moves)]
        assert found == boards(env, fen, played)


def boards(env: Any, fen: str, played: list[Game]) -> list[list[str]]:
    """Returns the board, the side and the rights of castling after each prefix of each game."""
    prefixes = [x.moves[:number] for x in played for number in range(len(x.moves) + 1)]
    starts = games.set_up(env, [games.read_fen(env, fen)] * len(prefixes))
    states, bad = games.replay_checked(env, pad_histories(prefixes), starts)
    assert (np.asarray(bad) < 0).all()
    rows = (jax.tree.map(lambda x, i=i: x[i], states) for i in range(len(prefixes)))
    return [games.to_fen(env, row).split()[:3] for row in rows]
