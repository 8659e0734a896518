"""The trained networks against players that others wrote: `python -m benchmarks.opponents`.

`dualmctx compare` plays two games from each opening of four random moves, one on either side. In
Hex the games begin at the start; OpenSpiel's moves and the random ones differ from game to game.
`points` are points divided by games, with Wilson's 95 % interval for half as many observations as
games, because the two games of a pair are not independent. `first` are the points of the games in
which the network moves first. The rest is in benchmarks/README.md.
"""

import json
import pathlib
import sys
from typing import Any, NamedTuple

from benchmarks.common import Row, at_least_one, ending, make_parser, show
from benchmarks.ledger import write_measurement
from dualmctx.commands import compare
from dualmctx.errors import UserError
from dualmctx.ratings.intervals import wilson_interval

GNUGO = (
    "gtp:gnugo --mode gtp --level 1 --chinese-rules --positional-superko --play-out-aftermath "
    "--capture-all-dead --seed {seed}"
)


class Opponents(NamedTuple):
    """The opponents of a network, as players of `dualmctx compare`; and the flags of its games."""

    players: dict[str, str]
    flags: tuple[str, ...] = ()


TABLE = {
    "othello": Opponents(
        {
            "random": "random",
            "GRhino, level 1": "gtp:gtp-rhino -l 1",
            "GRhino, level 3": "gtp:gtp-rhino -l 3",
        }
    ),
    "hex": Opponents(
        {"random": "random", "OpenSpiel, 10,000": "openspiel:simulations=10000"},
        ("--openings", "start"),
    ),
    "go-9x9": Opponents({"random": "random", "GNU Go, level 1": GNUGO}),
    "gardner-chess": Opponents(
        {"random": "random", "Fairy-Stockfish, 100": "uci:nodes=100:Hash=1:fairy-stockfish"}
    ),
}
"""The opponents of each network of the package."""
SEARCHES = ("own", "alphazero")


def play(
    network: str, search: str, name: str, options: Any, folder: pathlib.Path, path: str
) -> Row:
    """Plays or continues a match; returns its row.

    Args:
      network: the network, a key of `TABLE`.
      search: the search of the network.
      name: the name of the opponent.
      options: the options of the benchmark.
      folder: the folder of the match.
      path: the network's file or folder, or its name in the package.
    """
    opponents = TABLE[network]
    compare.main(
        [
            f"network={search}:simulations={options.simulations}",
            f"opponent={opponents.players[name]}",
            *("--checkpoint", path, "--games", str(options.games), "--out", str(folder)),
            *opponents.flags,
            *(["--resume"] if (folder / "config.json").exists() else []),
        ]
    )
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    # The row of the network, the first player, and the column of the opponent.
    found, first = report["crosstable"][0][1], report["by_side"][0][1]
    results = [found[x] for x in ("wins", "draws", "losses")]
    number = sum(results)
    points = found["points"] / number
    low, high = wilson_interval(points, number // 2)
    return {
        "network": network,
        "search": search,
        "simulations": options.simulations,
        "opponent": name,
        "games": number,
        "won, drawn, lost": ", ".join(map(str, results)),
        "points": f"{points:.3f} ({low:.3f}–{high:.3f})",
        "first": round(2 * first["points"] / number, 3),
    }


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    text = "of the package, by default all; NAME=RUN plays with a run or a file of that game"
    add("networks", metavar="NETWORK", nargs="*", help=text)
    add("--games", type=at_least_one, default=100, help="of each match (default: %(default)s)")
    add("--simulations", type=at_least_one, default=400, help="a move (default: %(default)s)")
    add("--out", type=pathlib.Path, default=pathlib.Path("runs/opponents"), help="the games")
    options = parser.parse_args(arguments)
    if options.quick:
        options.games, options.simulations = 2, 4
        options.networks = options.networks or ["hex"]
    rows: list[Row] = []
    with ending(parser):
        for network in options.networks or TABLE:
            name, _, path = network.partition("=")
            if name not in TABLE:
                raise UserError(f"network is {name}; it must be one of {', '.join(TABLE)}")
            for opponent in TABLE[name].players:
                for search in SEARCHES:
                    match = f"{search}-{options.simulations}-{opponent.replace(' ', '-')}"
                    folder = options.out / name / match
                    rows.append(play(name, search, opponent, options, folder, path or name))
                    print(rows[-1], file=sys.stderr)
    show("", rows)
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
