"""The folder of a tournament: its settings and the pairs of games played so far."""

import json
from pathlib import Path
from typing import Any

from dualmctx.errors import UserError
from dualmctx.matches.game_file import Game
from dualmctx.runs.atomic_io import atomic_write_text, make_folder
from dualmctx.runs.folder import flatten, list_changes, with_versions, without_versions

GAMES, SETTINGS = "games.jsonl", "tournament.json"
_GROWING = ("openings", "players")


def save_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Writes the settings of a tournament; merges them with existing settings.

    Args:
      folder: the folder of the tournament; created if it does not exist.
      settings: the settings. `openings` and `players` may grow; the rest must not change.

    Raises:
      ValueError: if they are not compatible with the existing settings.
    """
    file = folder / SETTINGS
    if file.exists():
        settings = _merge(_read(file), json.loads(json.dumps(settings)), folder)
    make_folder(folder)
    atomic_write_text(file, json.dumps(with_versions(settings)) + "\n")


def count_finished_pairs(games: list[Game]) -> dict[tuple[str, str], int]:
    """Counts the pairs of games of each pairing, which must be in order.

    Raises:
      ValueError: if a pair is missing.
    """
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


def _read(file: Path) -> dict[str, Any]:
    try:
        content = dict(json.loads(file.read_text()))
        players = {name: dict(player) for name, player in dict(content["players"]).items()}
        content |= {"openings": list(content["openings"]), "players": players}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{file} cannot be read ({error!r}); choose another folder") from error
    return without_versions(content, file)


def _merge(old: dict[str, Any], new: dict[str, Any], folder: Path) -> dict[str, Any]:
    where = f"the tournament in {folder}"
    fixed = [{k: v for k, v in x.items() if k not in _GROWING} for x in (old, new)]
    if changes := list_changes(*map(flatten, fixed)):
        raise UserError(f"{where} has different settings: {changes}; choose another folder")
    shorter, longer = sorted((old["openings"], new["openings"]), key=len)
    if longer[: len(shorter)] != shorter:
        pair = next(i for i, x in enumerate(shorter) if x != longer[i])
        change = f"{old['openings'][pair]} → {new['openings'][pair]}"
        raise UserError(
            f"{where} has different openings (pair {pair}: {change}); choose another folder"
        )
    for name in sorted(old["players"].keys() & new["players"].keys()):
        if changes := list_changes(*(flatten(x["players"][name]) for x in (old, new))):
            remedy = "choose another name or folder"
            raise UserError(f"{where} has a different player {name!r}: {changes}; {remedy}")
    return new | {"openings": longer, "players": old["players"] | new["players"]}
