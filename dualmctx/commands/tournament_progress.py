"""Games of a tournament while they are played: how far it is, and when a test ends it."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from dualmctx.matches.game_file import Game, mend_games
from dualmctx.matches.tournament import (
    Tournament,
    count_played,
    play_tournament,
    settle_tournament,
)
from dualmctx.matches.tournament_folder import GAMES
from dualmctx.ratings.sprt import Sprt, Verdict, judge_sequentially
from dualmctx.runs.progress import Pace, showing

ShowFn = Callable[[list[Game]], None]
"""Takes games that have just been played."""


def play(
    tournament: Tournament, folder: Path, test: Sprt | None = None, console: Console | None = None
) -> Verdict | None:
    """Plays what has not been played yet, and shows on standard error how far it is.

    Args:
      tournament: what is played; with a test, by two players, the first of which is tested.
      folder: where games are saved.
      test: ends the games as soon as it is decided; those of the batch that decides are all kept.
      console: where progress is shown.

    Returns:
      Where the test stands, `None` without one.

    Raises:
      ValueError: when the folder has games of another tournament, in one line.
    """
    # Also where the test has been decided: these may be another player's games.
    settle_tournament(tournament, folder)
    names = [entrant.name for entrant in tournament.entrants]
    played = select_games(names, mend_games(folder / GAMES))
    verdict = test and judge_games(test, names[0], played)
    if verdict is not None and verdict.accepted:
        return verdict
    total = 2 * len(tournament.openings) * len(tournament.pairings)
    with progress(total, count_played(tournament, played), console) as show:
        for games in play_tournament(tournament, folder):
            played += games
            show(games)
            if test is not None:
                verdict = judge_games(test, names[0], played)
                if verdict.accepted:
                    break
    return verdict


def select_games(names: Sequence[str], played: Sequence[Game]) -> list[Game]:
    """Returns the games of some players among themselves."""
    return [game for game in played if set(game.players) <= set(names)]


def judge_games(test: Sprt, one: str, played: Sequence[Game]) -> Verdict:
    """Judges pairs of games in the order in which they were played; the first decision stands.

    Args:
      test: what is tested.
      one: the player.
      played: both games of each pair, one after the other; those of one with itself are left out.
    """
    rows = [game for game in played if len(set(game.players)) == 2]
    results = [game.result if game.players[0] == one else -game.result for game in rows]
    pairs = zip(results[::2], results[1::2], strict=True)
    return judge_sequentially(test, [first + second for first, second in pairs])


@contextlib.contextmanager
def progress(total: int, done: int, console: Console | None = None) -> Iterator[ShowFn]:
    """Shows how far a tournament is.

    Args:
      total: games in all.
      done: those of them that an earlier session played.
      console: where it is shown, by default standard error.
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
            show("games", done, total, f"{pace.rate:,.1f} a second  {describe(games)}")

        yield show_games


def describe(games: Sequence[Game]) -> str:
    """Describes games that have just been played, by what one of the two players made of them."""
    one, other = games[0].players
    results = [game.result * (1 if game.players[0] == one else -1) for game in games]
    counts = (results.count(x) for x in (1, 0, -1))
    return "{} – {} +{} ={} −{}".format(one, other, *counts)
