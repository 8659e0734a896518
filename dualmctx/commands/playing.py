"""Games of a tournament while they are played: how far it is, and when a test ends it."""

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dualmctx.matches.game_file import Game, mend_games, results_of
from dualmctx.matches.tournament import Chunk, Tournament, play_tournament
from dualmctx.matches.tournament_folder import GAMES
from dualmctx.ratings.sprt import Sprt, Verdict, count_scores, judge

_SECONDS_BETWEEN_LINES = 10.0

ShowFn = Callable[[Chunk], None]
"""Takes games that have just been played."""


def play(
    tournament: Tournament, folder: Path, test: Sprt | None = None, console: Console | None = None
) -> Verdict | None:
    """Plays what has not been played yet, and shows on standard error how far it is.

    Args:
      tournament: what is played; with a test, by two players, the first of which is tested.
      folder: where games are saved.
      test: ends the games as soon as it is decided. It looks after every batch.
      console: where progress is shown.

    Returns:
      Where the test stands, `None` without one.
    """
    names = [entrant.name for entrant in tournament.entrants]
    played = select_games(names, mend_games(folder / GAMES))
    looks = tournament.batch_size, len(tournament.openings)
    verdict = test and first_verdict(test, names, played, *looks)
    if verdict is not None and verdict.accepted:
        return verdict
    total = 2 * len(tournament.openings) * len(tournament.pairings)
    with progress(total, len(played), console) as show:
        for chunk in play_tournament(tournament, folder):
            played += chunk.games
            show(chunk)
            if test is not None:
                verdict = first_verdict(test, names, played, *looks)
                if verdict.accepted:
                    break
    return verdict


def select_games(names: Sequence[str], played: Sequence[Game]) -> list[Game]:
    """Returns the games of some players among themselves."""
    return [game for game in played if set(game.players) <= set(names)]


def first_verdict(
    test: Sprt, names: Sequence[str], played: Sequence[Game], batch: int, number: int
) -> Verdict:
    """Judges games after each batch; the first decision stands.

    Args:
      test: what is tested.
      names: of the player and its opponent.
      played: games in the order in which they were played; those of one with itself are left out.
      batch: pairs from one look to the next.
      number: of pairs after which the last look is taken.
    """
    rows = [game for game in played if len(set(game.players)) == 2]
    looks = [x for x in (*range(batch, number, batch), number) if 2 * x <= len(rows)]
    verdict = judge(test, count_scores(results_of(names, []), *names))
    for look in looks:
        verdict = judge(test, count_scores(results_of(names, rows[: 2 * look]), *names))
        if verdict.accepted:
            break
    return verdict


@contextlib.contextmanager
def progress(total: int, done: int, console: Console | None = None) -> Iterator[ShowFn]:
    """Shows how far a tournament is: a live line on a terminal, elsewhere a line now and then.

    Args:
      total: games in all.
      done: those of them that an earlier session played.
      console: where it is shown, by default standard error.
    """
    console = console or Console(stderr=True, highlight=False)
    bar = Progress(
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} games"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[now]}", markup=False),
        console=console,
        disable=not console.is_terminal,
    )
    task = bar.add_task("", total=total, completed=done, rate="", now="compiling …")
    start = last = time.monotonic()
    fresh = 0

    def show(chunk: Chunk) -> None:
        nonlocal fresh, last
        fresh += len(chunk.games)
        now, completed = time.monotonic(), done + fresh
        rate = fresh / max(now - start, 1e-9)
        bar.update(task, completed=completed, rate=f"{rate:,.1f} a second", now=describe(chunk))
        if not console.is_terminal and now - last > _SECONDS_BETWEEN_LINES:
            last = now
            left = datetime.timedelta(seconds=round((total - completed) / max(rate, 1e-9)))
            line = f"{completed:,} of {total:,} games  {rate:,.1f} a second  {left} left"
            console.print(f"{line}  {describe(chunk)}", soft_wrap=True, markup=False)

    with bar:
        yield show


def describe(chunk: Chunk) -> str:
    """Describes games that have just been played, by what one of the two players made of them."""
    one, other = chunk.games[0].players
    results = [game.result * (1 if game.players[0] == one else -1) for game in chunk.games]
    counts = (results.count(x) for x in (1, 0, -1))
    return "{} – {} +{} ={} −{}".format(one, other, *counts)
