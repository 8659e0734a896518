"""Plays a tournament with a progress display and an optional sequential test."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dualmctx.console import Console
from dualmctx.matches.game_file import Game, games_between
from dualmctx.matches.tournament import Tournament, games_of, play_batches, reopen_tournament
from dualmctx.ratings.sprt import Sprt, Verdict, judge_sequentially
from dualmctx.runs.progress import Pace, showing


def play(tournament: Tournament, folder: Path, test: Sprt | None = None) -> Verdict | None:
    """Plays the remaining games of a tournament and shows the progress on standard error.

    Args:
      tournament: the tournament; with a test, of two players, the first of which is tested.
      folder: the folder of the games.
      test: a test that ends the games as soon as it is decided; the last batch is kept whole.

    Returns:
      The verdict of the test, or `None` without a test.

    Raises:
      ValueError: if the folder contains a different tournament.
    """
    names = [player.name for player in tournament.players]
    # Also checks that the folder is of this tournament, even if the test is already decided.
    known = reopen_tournament(tournament, folder)[1]
    played = games_between(names, known)
    verdict = test and judge_games(test, names[0], played)
    if verdict is not None and verdict.accepted:
        return verdict
    total = 2 * len(tournament.openings) * len(tournament.pairings)
    with progress(total, len(games_of(tournament, known))) as show:
        for games in play_batches(tournament, folder):
            played += games
            show(games)
            if test is not None:
                verdict = judge_games(test, names[0], played)
                if verdict.accepted:
                    break
    return verdict


def judge_games(test: Sprt, one: str, played: Sequence[Game]) -> Verdict:
    """Evaluates a test on pairs of games in the order of play; the first decision is final.

    Args:
      test: the test.
      one: name of the tested player.
      played: games in which the two games of a pair are adjacent; games of a player against itself
        are ignored.
    """
    rows = [game for game in played if len(set(game.players)) == 2]
    results = [game.result if game.players[0] == one else -game.result for game in rows]
    pairs = zip(results[::2], results[1::2], strict=True)
    return judge_sequentially(test, [first + second for first, second in pairs])


@contextlib.contextmanager
def progress(
    total: int, done: int, console: Console | None = None
) -> Iterator[Callable[[list[Game]], None]]:
    """Shows the progress of a tournament.

    Args:
      total: total number of games.
      done: number of games played by earlier sessions.
      console: the output; by default standard error.

    Yields:
      A function that takes the games that have just been played.
    """
    console = console or Console(stderr=True, highlight=False)
    if console.is_terminal:
        console.print("compiling …")
    pace = Pace()
    with showing(console, ends=False) as show:

        def show_games(games: list[Game]) -> None:
            nonlocal done
            done += len(games)
            pace.report(done)
            show("games", done, total, f"{pace.rate:,.1f} per second  {_describe(games)}")

        yield show_games


def _describe(games: Sequence[Game]) -> str:
    """Describes the result of games from the view of one of the two players."""
    one, other = games[0].players
    results = [game.result * (1 if game.players[0] == one else -1) for game in games]
    counts = (results.count(x) for x in (1, 0, -1))
    return "{} – {} +{} ={} −{}".format(one, other, *counts)
