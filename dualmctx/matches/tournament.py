"""Tournaments: who meets whom from which openings, in games that are saved as they are played."""

import dataclasses
import functools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dualmctx.matches.arena import MAX_PLIES, make_games
from dualmctx.matches.boards import Record
from dualmctx.matches.external_games import play_on_host
from dualmctx.matches.game_file import Game, append_games, mend_games
from dualmctx.matches.openings import (
    Opening,
    as_rows,
    check_openings,
    set_up_fens,
    split_opening,
)
from dualmctx.matches.players import Entrant, Host
from dualmctx.matches.tournament_folder import GAMES, count_done, settle
from dualmctx.types import Environment


@dataclasses.dataclass(frozen=True, eq=False)
class Tournament:
    """What is played: every pairing plays a pair of games from every opening.

    A pair of games follows from the seed, the names of its players and its number, which is that
    of its opening: neither other players, their order, nor later openings change it. Of two players
    the first by name has the first side in the first game of a pair.

    Raises:
      ValueError: when something is out of range, in one line.
    """

    env: Environment
    """A game as `games.make` gives it."""
    entrants: tuple[Entrant, ...]
    """The players; their names differ."""
    pairings: tuple[tuple[int, int], ...]
    """Who meets whom, by their places; see `round_robin`."""
    openings: tuple[Opening, ...]
    """Legal actions from the start of the game or from a FEN; see `openings`."""
    seed: int = 0
    """Of all that is drawn in the games."""
    batch_size: int = 256
    """Pairs of games of two players that are played at once; twice as many games."""
    max_plies: int = MAX_PLIES
    """A longer game is cut short and drawn."""
    about: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What else must not change when it goes on, as the game's parameters; what JSON can hold."""

    def __post_init__(self) -> None:
        """Checks what can be checked before anything is played."""
        names = [entrant.name for entrant in self.entrants]
        for name in names:
            if not name or names.count(name) > 1:
                raise ValueError(f"name {name!r} is empty or there twice; give each player its own")
        for i, j in self.pairings:
            if not (0 <= i < len(names) and 0 <= j < len(names)):
                raise ValueError(
                    f"pairing {(i, j)}: there are {len(names)} players, counted from 0"
                )
        if len({frozenset(pairing) for pairing in self.pairings}) < len(self.pairings):
            raise ValueError("two players meet in two pairings; give them more openings instead")
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}; it must be at least 1")
        if not self.openings:
            raise ValueError("there are no openings; give one at least, which may be ()")
        longest = max(len(split_opening(opening)[1]) for opening in self.openings)
        if longest >= self.max_plies:
            raise ValueError(
                f"max_plies is {self.max_plies}; openings take up to {longest} of them"
            )
        check_openings(self.env, self.openings)
        hosts = [x.name for x in self.entrants if isinstance(x.player, Host)]
        if hosts and any(split_opening(opening)[0] for opening in self.openings):
            raise ValueError(
                f"player {hosts[0]!r} runs on the host, where games begin at their start; "
                "leave out openings with a FEN"
            )


def round_robin(number: int, *, with_self: bool = False) -> tuple[tuple[int, int], ...]:
    """Returns the pairings in which everybody meets everybody else, and itself if asked for."""
    start = 0 if with_self else 1
    return tuple((i, j) for i in range(number) for j in range(i + start, number))


def count_played(tournament: Tournament, played: Iterable[Game]) -> int:
    """Counts the games on file that are a tournament's; others are of other players or openings."""
    names = [entrant.name for entrant in tournament.entrants]
    wanted = {frozenset((names[i], names[j])) for i, j in tournament.pairings}
    number = len(tournament.openings)
    return sum(game.pair < number and frozenset(game.players) in wanted for game in played)


def settle_tournament(tournament: Tournament, folder: Path) -> None:
    """Writes in a folder what a tournament is; its players and openings may have become more.

    Raises:
      ValueError: when the folder has games of another tournament, in one line.
    """
    settle(folder, _settings(tournament))


def play_tournament(tournament: Tournament, folder: Path) -> Iterator[list[Game]]:
    """Plays what has not been played yet; saves games before it tells of them.

    Games are in `games.jsonl`, settings in `tournament.json`. If it is stopped and called again, it
    goes on with the same games as if it had not been, in the same order. Players and openings may
    have been added meanwhile.

    Args:
      tournament: what is played.
      folder: where; it is made if there is none.

    Yields:
      The games of a pairing from the next openings, `batch_size` at most, each pairing in turn.

    Raises:
      ValueError: when the folder has games of another tournament, or a player's network returns
        what is not finite, in one line.
    """
    file = folder / GAMES
    settle_tournament(tournament, folder)
    done = count_done(mend_games(file))
    number, size = len(tournament.openings), tournament.batch_size
    begins = as_rows(tournament.openings), set_up_fens(tournament.env, tournament.openings)
    for start in range(0, number, size):
        for i, j in tournament.pairings:
            both = tournament.entrants[i], tournament.entrants[j]
            one, other = sorted(both, key=lambda entrant: entrant.name)
            played = done.get((one.name, other.name), 0)
            if played >= min(start + size, number):
                continue
            # The whole batch, as its arithmetic may depend on its size.
            pairs = np.arange(start, start + size) % number
            openings, starts = jax.tree.map(lambda x, rows=pairs: x[rows], begins)
            record = _play(tournament, one, other, pairs, openings, starts)
            _check_failures((one, other), record)
            fresh = range(max(played, start), min(start + size, number))
            games = [
                game for x in fresh for game in _games(tournament, one, other, record, x - start, x)
            ]
            append_games(file, games)
            yield games


def pair_keys(seed: int, one: str, other: str, pairs: np.ndarray) -> Any:
    """Returns the `[H]` keys of two players' pairs of games, from the numbers of these."""
    # A stable number of 32 bits for both names.
    names = np.uint32(zlib.crc32(f"{one}\0{other}".encode()))
    key = jax.random.fold_in(jax.random.PRNGKey(seed), names)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, np.asarray(pairs, np.uint32))


def _play(
    tournament: Tournament,
    one: Entrant,
    other: Entrant,
    pairs: np.ndarray,
    openings: np.ndarray,
    starts: Any,
) -> Record:
    """Plays `[H]` pairs of games.

    Args:
      tournament: what is played.
      one: the player with the first side in the first game of a pair.
      other: the other player.
      pairs: `[H]` numbers of the pairs.
      openings: `[H, D]` their openings, -1 after the last move.
      starts: `[H]` states in which the openings begin; `None` for the start of the game.

    Returns:
      The games.
    """
    keys = pair_keys(tournament.seed, one.name, other.name, pairs)
    env, players, params = tournament.env, (one.player, other.player), (one.params, other.params)
    if any(isinstance(player, Host) for player in players):
        return play_on_host(env, players, params, keys, openings, tournament.max_plies, starts)
    given = jax.tree.map(jax.numpy.asarray, (params, keys, openings, starts))
    leaves, structure = jax.tree.flatten(jax.tree.map(_shape, given))
    play = _compile(env, players, tournament.max_plies, structure, tuple(leaves))
    return jax.device_get(play(*given))


def _check_failures(players: tuple[Entrant, Entrant], record: Record) -> None:
    """Refuses games in which a player could not choose."""
    for player, has_failed in zip(players, record.has_failed.any(axis=(0, 1)), strict=True):
        if has_failed:
            raise ValueError(
                f"player {player.name!r} could not choose a move, as its network's output is NaN or"
                " infinite; give it another checkpoint, or train again (earlier games are kept)"
            )


def _shape(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@functools.lru_cache(maxsize=256)
def _compile(env: Environment, players: Any, max_plies: int, structure: Any, leaves: tuple) -> Any:
    """Compiles the games of two players, whatever their parameters, for these shapes."""
    play = jax.jit(make_games(env, players, max_plies=max_plies))
    return play.lower(*jax.tree.unflatten(structure, leaves)).compile()


def _games(
    tournament: Tournament, one: Entrant, other: Entrant, record: Record, column: int, pair: int
) -> list[Game]:
    """Returns both games of a pair; in the second one the sides are exchanged."""
    names, chosen = (one.name, other.name), record.num_chosen[:, column]
    fen, moves = split_opening(tournament.openings[pair])
    return [
        Game(
            players=(names[row], names[1 - row]),
            pair=pair,
            seed=tournament.seed,
            opening=len(moves),
            moves=tuple(record.actions[row, column][record.actions[row, column] >= 0].tolist()),
            result=int(record.result[row, column]) * (1 if row == 0 else -1),
            is_over=bool(record.is_over[row, column]),
            num_chosen=(int(chosen[row, row]), int(chosen[row, 1 - row])),
            fen=fen,
        )
        for row in range(2)
    ]


def _settings(tournament: Tournament) -> dict[str, Any]:
    """Returns what `tournament.json` holds."""
    return {
        "game": tournament.env.id,
        "about": tournament.about,
        "seed": tournament.seed,
        "batch_size": tournament.batch_size,
        "max_plies": tournament.max_plies,
        "openings": [list(opening) for opening in tournament.openings],
        "players": {
            entrant.name: {"about": entrant.about, "cost": entrant.cost and entrant.cost._asdict()}
            for entrant in tournament.entrants
        },
    }
