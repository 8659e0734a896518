"""The measurements of `benchmarks.pipeline`: moves that keep the game's value, and matches."""

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from benchmarks.common import Estimate, estimate
from benchmarks.connect_four import Positions
from benchmarks.pipeline_runs import PLAYER, REINFORCED, SUPERVISED, run_command
from benchmarks.strength import BATCH_SIZE, Subject, make_tools
from dualmctx import AlphaZero
from dualmctx.matches.external_players import openspiel_mcts
from dualmctx.matches.players import HostMover
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.runs.saved_policy import build_policy
from dualmctx.types import Policy


class Measured(NamedTuple):
    """A network to measure.

    Attributes:
      name: the name in the tables.
      trained: the network.
      head: the head of the policy alone.
      search: the search; `None` to measure the policy alone only.
    """

    name: str
    trained: Trained
    head: int = -1
    search: Policy | None = None


class Share(NamedTuple):
    """Shares of moves that keep the game's value; `None` without a policy or without a search."""

    name: str
    positions: str
    number: int
    random: float
    policy: Estimate | None
    search: Estimate | None


class Match(NamedTuple):
    """The games of two players; `points` are those of the first, a draw is half a point."""

    budget: str
    first: str
    second: str
    games: int
    wins: int
    draws: int
    losses: int
    points: Estimate


def list_measured(
    folder: pathlib.Path, self_play: dict[str, Trained], simulations: int
) -> list[Measured]:
    """Returns the networks to measure: those of the stages, then those of self-play."""
    supervised, reinforced, player = (
        load_trained(folder / name) for name in (SUPERVISED, REINFORCED, PLAYER)
    )

    def search_of(trained: Trained) -> Policy:
        return build_policy(trained.record, simulations=simulations).for_evaluation()

    return [
        Measured("rollout policy", supervised, head=0),
        Measured(SUPERVISED, supervised),
        Measured(REINFORCED, reinforced),
        Measured("alphago", player, search=search_of(player)),
        *(Measured(name, x, search=search_of(x)) for name, x in self_play.items()),
    ]


def measure_shares(measured: Measured, labelled: dict[str, Positions]) -> Iterator[Share]:
    """Measures a network on each set of positions."""
    trained = measured.trained
    parts = (trained.env, trained.network, trained.params)
    # A search of one simulation takes little time; its moves are not used.
    search = measured.search or AlphaZero(1).for_evaluation()
    size = min(BATCH_SIZE, max(len(x.histories) for x in labelled.values()))
    tools = make_tools(Subject(*parts, search, trained.iteration, None), size)
    for name, positions in labelled.items():
        states = games.replay(trained.env, positions.histories)
        found = tools.evaluate(trained.params, jax.random.PRNGKey(0), states)
        moves = found.network_action[:, measured.head]
        yield Share(
            name=measured.name,
            positions=name,
            number=len(positions.histories),
            random=round(positions.random_share(), 3),
            policy=_share(positions, moves),
            search=_share(positions, found.action) if measured.search else None,
        )


def measure_teacher(simulations: int, labelled: dict[str, Positions]) -> Iterator[Share]:
    """Measures OpenSpiel's MCTS on each set of positions."""
    mover = openspiel_mcts(games.make("connect_four"), simulations).mover
    assert isinstance(mover, HostMover)
    for name, positions in labelled.items():
        histories = [row[row >= 0].tolist() for row in positions.histories]
        moves = np.array(mover.choose(histories, list(range(len(histories)))))
        yield Share(
            name="teacher",
            positions=name,
            number=len(histories),
            random=round(positions.random_share(), 3),
            policy=None,
            search=_share(positions, moves),
        )


def _share(positions: Positions, moves: np.ndarray) -> Estimate:
    keeping = positions.keeping[np.arange(len(moves)), moves]
    return estimate(float(np.mean(keeping)), len(moves))


def match_players(
    folder: pathlib.Path, names: Sequence[str], simulations: int, teacher: int, budget: str
) -> list[str]:
    """Returns the players of a match, as `dualmctx compare` names them.

    The teacher's simulations would not stay at equal time, so only the searches play then.

    Args:
      folder: the folder of the pipeline.
      names: the names of the networks of self-play.
      simulations: simulations per move of the searches with networks.
      teacher: simulations per move of OpenSpiel's MCTS.
      budget: `simulations` or `seconds`.
    """
    networks = {"alphago": folder / PLAYER} | {
        name: folder / f"{name}.safetensors" for name in names
    }
    searches = [f"{name}={x}+own:simulations={simulations}" for name, x in networks.items()]
    if budget == "seconds":
        return searches
    policies = [f"{name}-policy={x}+policy" for name, x in networks.items()]
    return [*searches, *policies, f"teacher=openspiel:simulations={teacher}", "random"]


def play_match(
    folder: pathlib.Path, players: Sequence[str], openings: pathlib.Path, number: int, budget: str
) -> list[Match]:
    """Plays `number` games of each pair of players from the openings of a file."""
    out = folder / f"match-{budget}"
    flags = ["--openings", str(openings), "--games", str(number), "--budget", budget]
    resume = ["--resume"] if (out / "config.json").exists() else []
    run_command(["compare", *players, *flags, "--out", str(out), *resume])
    return read_match(json.loads((out / "report.json").read_text()), budget)


def read_match(report: dict[str, Any], budget: str) -> list[Match]:
    """Returns the results of each pair of players from a report of `dualmctx compare`."""
    names = [player["name"] for player in report["players"]]
    rows = []
    for i, first in enumerate(names):
        for j, second in enumerate(names[i + 1 :], start=i + 1):
            cell = report["crosstable"][i][j]
            wins, draws, losses = (cell[x] for x in ("wins", "draws", "losses"))
            number = wins + draws + losses
            points = estimate(cell["points"] / number, number)
            rows.append(Match(budget, first, second, number, wins, draws, losses, points))
    return rows
