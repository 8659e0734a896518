"""Tournaments: pairings of players play pairs of games from openings; every batch is saved."""

import contextlib
import dataclasses
import json
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.checks import check
from dualmctx.errors import UserError
from dualmctx.matches.arena import MAX_PLIES, Record
from dualmctx.matches.game_file import GAMES, Game, append_games, read_games, reopen_games
from dualmctx.matches.host_games import Failures, play_on_host
from dualmctx.matches.openings import (
    Opening,
    check_openings,
    set_up_fens,
    split_opening,
    to_action_rows,
)
from dualmctx.matches.players import HostMover, Player
from dualmctx.runs.folder import keep_settings
from dualmctx.runs.journal import Journal
from dualmctx.types import Environment, GameState

# The settings that may get more entries between two calls.
_GROWING = {"openings": list[list[int | str]], "players": dict[str, dict]}


@dataclasses.dataclass(frozen=True, eq=False)
class Tournament:
    """A tournament: every pairing plays a pair of games from every opening.

    The host plays the games one move at a time, all pairs of a batch side by side, so that each
    player is compiled once, and not once for each of its pairings.

    A pair of games depends only on the seed, the names of its players and its number, which is the
    index of its opening. Other players, their order and additional openings do not change it.
    The player whose name sorts first has the first side in the first game of a pair.

    Raises:
      ValueError: if a field is out of range.
    """

    env: Environment
    """A game of `games.make`."""
    players: Sequence[Player]
    """The players; their names differ."""
    openings: Sequence[Opening]
    """Legal actions from the initial position or from a FEN, see `random_openings`. Players that
    sample nothing play the same two games from equal openings."""
    pairings: Sequence[tuple[int, int]] = ()
    """Pairs of indices of players; by default all pairs of different players, see `round_robin`."""
    seed: int = 0
    """Seed of the random numbers of all games."""
    batch_size: int = 256
    """Number of pairs of games that two players play at the same time; each pair is two games."""
    max_plies: int = MAX_PLIES
    """A longer game is cut short and counts as a draw."""
    about: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Other settings that must not change on resumption, such as game parameters; JSON values."""

    def __post_init__(self) -> None:
        """Completes and validates the fields."""
        if not self.pairings:
            object.__setattr__(self, "pairings", round_robin(len(self.players)))
        if not self.pairings:
            raise UserError(
                f"number of players is {len(self.players)}; pass at least two, or one with "
                "pairings=round_robin(1, with_self=True)"
            )
        names = [player.name for player in self.players]
        for name in names:
            if not name or names.count(name) > 1:
                raise UserError(f"name {name!r} is empty or duplicate; player names must differ")
        for pairing in self.pairings:
            if len(pairing) != 2 or not all(0 <= i < len(names) for i in pairing):
                raise UserError(
                    f"pairing is {pairing}; it must be two indices from 0 to {len(names) - 1}"
                )
        if len({frozenset(pairing) for pairing in self.pairings}) < len(self.pairings):
            raise UserError("two players have two pairings; add openings instead")
        check(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")
        if not self.openings:
            raise UserError("there are no openings; pass at least one, which may be ()")
        longest = max(len(split_opening(opening)[1]) for opening in self.openings)
        if longest >= self.max_plies:
            raise UserError(
                f"max_plies is {self.max_plies}; it must exceed the longest opening, {longest}"
            )
        check_openings(self.env, self.openings)
        on_host = [
            x.name for x in self.players if isinstance(x.mover, HostMover) and not x.mover.takes_fen
        ]
        if on_host and any(split_opening(opening)[0] for opening in self.openings):
            raise UserError(
                f"player {on_host[0]!r} runs on the host and plays from the initial position only; "
                "remove openings with a FEN"
            )


def round_robin(number: int, *, with_self: bool = False) -> tuple[tuple[int, int], ...]:
    """Returns all pairings of different players, and of each player with itself if `with_self`."""
    start = 0 if with_self else 1
    return tuple((i, j) for i in range(number) for j in range(i + start, number))


def games_of(tournament: Tournament, played: Iterable[Game]) -> list[Game]:
    """Returns the games that belong to a tournament, by players and openings."""
    names = [player.name for player in tournament.players]
    wanted = {frozenset((names[i], names[j])) for i, j in tournament.pairings}
    number = len(tournament.openings)
    return [x for x in played if x.pair < number and frozenset(x.players) in wanted]


def reopen_tournament(tournament: Tournament, folder: Path) -> tuple[Journal, list[Game]]:
    """Opens the folder of a tournament, or makes it; players and openings may be added.

    Returns the journal of its games, and the games.

    Raises:
      ValueError: if the folder contains a different tournament, or a file is damaged.
    """
    settings = {
        "game": tournament.env.id,
        "about": tournament.about,
        "seed": tournament.seed,
        "batch_size": tournament.batch_size,
        "max_plies": tournament.max_plies,
        "openings": tournament.openings,
        "players": {
            player.name: {"about": player.about, "cost": player.cost and player.cost._asdict()}
            for player in tournament.players
        },
    }
    keep_settings(folder, json.loads(json.dumps(settings)), _GROWING)
    return reopen_games(folder / GAMES)


def play_tournament(tournament: Tournament, folder: Path | str | None = None) -> list[Game]:
    """Plays a tournament to its end.

    Args:
      tournament: the tournament.
      folder: its folder, see `play_batches`; with `None`, the games are not saved.

    Returns:
      All its games, those of earlier calls included: for each pairing and opening two games, which
      follow one another.

    Raises:
      ValueError: see `play_batches`.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        for _ in play_batches(tournament, folder):
            pass
        return games_of(tournament, read_games(Path(folder) / GAMES))


def play_batches(tournament: Tournament, folder: Path | str) -> Iterator[list[Game]]:
    """Plays the remaining games of a tournament batch by batch; saves games before yielding them.

    Games are saved in `games.jsonl`, settings in `config.json`. An interrupted tournament can be
    continued by another call, which plays the same games in the same order as without the
    interruption. Players and openings may be added in between.

    Args:
      tournament: the tournament.
      folder: its folder; created if it does not exist.

    Yields:
      The games of one pairing from its next openings, at most `batch_size` pairs of games. The
      pairings take turns.

    Raises:
      ValueError: if the folder contains a different tournament, or the output of a player's
        network is not finite.
    """
    journal, known = reopen_tournament(tournament, Path(folder))
    done = _count_finished_pairs(known)
    number, size = len(tournament.openings), tournament.batch_size
    openings = to_action_rows(tournament.openings)
    starts = set_up_fens(tournament.env, tournament.openings)
    for start in range(0, number, size):
        # The batch is always full, because rounding may depend on its size.
        pairs = np.arange(start, start + size) % number
        batch = jax.tree.map(lambda x, rows=pairs: jnp.asarray(x[rows]), (openings, starts))
        for i, j in tournament.pairings:
            pairing = tournament.players[i], tournament.players[j]
            one, other = sorted(pairing, key=lambda player: player.name)
            played = max(start, done.get((one.name, other.name), 0))
            new_pairs = range(played, min(start + size, number))
            if not new_pairs:
                continue
            wanted = np.isin(np.arange(start, start + size), new_pairs)
            played_batch = _play(tournament, (one, other), pairs, wanted, *batch)
            games = [
                game
                for pair in new_pairs
                for game in _to_games(tournament, (one, other), *played_batch, pair - start, pair)
            ]
            append_games(journal, games)
            yield games


def _count_finished_pairs(games: list[Game]) -> dict[tuple[str, str], int]:
    """Counts the pairs of games of each pairing, which must be in order."""
    done: dict[tuple[str, str], int] = {}
    for game in games[::2]:
        expected = done.get(game.players, 0)
        if game.pair != expected:
            players = " and ".join(game.players)
            raise UserError(
                f"{GAMES} has pair {game.pair} of {players} instead of pair {expected}; choose "
                "another folder"
            )
        done[game.players] = expected + 1
    return done


def pair_keys(seed: int, one: str, other: str, pairs: np.ndarray) -> Any:
    """Returns `[H]` keys for pairs of games of two players, from the numbers of the pairs."""
    # CRC-32 is stable between processes, unlike hash().
    names = np.uint32(zlib.crc32(f"{one}\0{other}".encode()))
    key = jax.random.fold_in(jax.random.PRNGKey(seed), names)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, np.asarray(pairs, np.uint32))


def _play(
    tournament: Tournament,
    players: tuple[Player, Player],
    pairs: np.ndarray,
    wanted: np.ndarray,
    openings: chex.Array,
    starts: GameState | None,
) -> tuple[Record, Failures]:
    """Plays the wanted ones of `[H]` pairs of games.

    The first player has the first side in the first game of each pair.
    """
    one, other = players
    record, failures = play_on_host(
        tournament.env,
        (one.mover, other.mover),
        (one.params, other.params),
        pair_keys(tournament.seed, one.name, other.name, pairs),
        openings,
        tournament.max_plies,
        starts,
        [split_opening(tournament.openings[pair])[0] for pair in pairs],
        wanted,
    )
    unexplained = np.asarray(record.has_failed) & wanted[:, None]
    for game in failures:
        unexplained[game] = False
    for number, player in enumerate(players):
        if unexplained[..., number].any():
            raise UserError(
                f"player {player.name!r} could not choose a move, because the output of its network"
                " is NaN or infinite; use another checkpoint or train again (earlier games are "
                "saved)"
            )
    return record, failures


def _to_games(
    tournament: Tournament,
    players: tuple[Player, Player],
    record: Record,
    failures: Failures,
    column: int,
    pair: int,
) -> list[Game]:
    """Converts a column of a record to the two games of a pair."""
    names, chosen = [player.name for player in players], record.num_chosen[:, column]
    fen, moves = split_opening(tournament.openings[pair])
    ends = [failures.get((row, column)) for row in range(2)]
    return [
        Game(
            players=(names[row], names[1 - row]),
            pair=pair,
            seed=tournament.seed,
            opening=len(moves),
            moves=tuple(record.actions[row, column][record.actions[row, column] >= 0].tolist()),
            result=int(record.result[row, column]) * (1 if row == 0 else -1),
            is_over=bool(record.is_over[row, column]) or end is not None,
            num_chosen=(int(chosen[row, row]), int(chosen[row, 1 - row])),
            fen=fen,
            ending=end and end.kind,
            reason=end and end.message,
        )
        for row, end in enumerate(ends)
    ]
