"""Mates in one found by an untrained network: `python -m benchmarks.mates [--json FILE]`.

The chess positions have a mate in one. They come from games of uniformly random moves with a fixed
seed, or from a file with a column `fen`. python-chess decides which moves mate. The network is
untrained: its policy is uniform and its values are 0, so only the search and the rules find mates.
"""

import csv
import json
import pathlib
import random
import time

import chess
import jax

import dualmctx
import games
from benchmarks.common import make_parser, write_json
from dualmctx.runs.progress import showing

GAME = "chess"
# The size of an untrained network does not change its output.
WIDTH, NUM_BLOCKS = 4, 2
# No position here has more legal moves.
MAX_CHILDREN = 128


def mating_moves(fen: str) -> set[str]:
    """Returns the moves that mate, in UCI."""
    board = chess.Board(fen)
    found = set()
    for move in board.legal_moves:
        board.push(move)
        if board.is_checkmate():
            found.add(move.uci())
        board.pop()
    return found


def mating_positions(number: int, seed: int) -> list[str]:
    """Plays random games until `number` positions with a mate in one are found, one per game."""
    rng, found = random.Random(seed), []
    while len(found) < number:
        board = chess.Board()
        while not board.is_game_over() and board.ply() < 300:
            if mating_moves(board.fen()):
                found.append(board.fen())
                break
            board.push(rng.choice(list(board.legal_moves)))
    return found


def read_positions(file: pathlib.Path) -> list[str]:
    """Reads the column `fen` of a CSV file."""
    with file.open(newline="") as lines:
        return [row["fen"] for row in csv.DictReader(lines)]


def measure(fens: list[str], simulations: int, batch: int) -> dict:
    """Searches all positions and counts the mates."""
    env = games.make(GAME)
    network = dualmctx.make_network(
        env.num_actions, env.observation_shape, width=WIDTH, num_blocks=NUM_BLOCKS
    )
    params = network.init(
        jax.random.PRNGKey(0), games.set_up(env, [games.start_position(env)]).observation
    )
    policy = dualmctx.AlphaZero(
        simulations, execution=dualmctx.Execution(max_children=MAX_CHILDREN)
    )
    evaluator = dualmctx.make_evaluator(
        env, network, params, policy, batch_size=batch, compact_states=True
    )
    before, missed = time.perf_counter(), []
    with showing() as show:
        for start in range(0, len(fens), batch):
            show("searching", start, len(fens))
            part = fens[start : start + batch]
            positions = [games.read_fen(env, fen) for fen in part]
            answers = evaluator(games.set_up(env, positions), ids=part)
            for fen, position, action in zip(part, positions, answers.action, strict=True):
                if games.format_action(env, position, int(action)) not in mating_moves(fen):
                    missed.append(fen)
    return {
        "positions": len(fens),
        "simulations": simulations,
        "found": len(fens) - len(missed),
        "share": round(1 - len(missed) / len(fens), 3),
        "seconds": round(time.perf_counter() - before, 1),
        "missed": missed,
    }


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints the result."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--positions", type=pathlib.Path, metavar="FILE.csv", help="a file with a column fen")
    add("--number", type=int, default=200, help="number of positions to make")
    add("--simulations", type=int, default=800, help="per position")
    add("--batch", type=int, default=32, help="positions searched at once")
    add("--seed", type=int, default=0, help="seed of the random games")
    options = parser.parse_args(arguments)
    if options.quick:
        options.number, options.simulations, options.batch = 4, 64, 4
    if options.positions:
        fens = read_positions(options.positions)
    else:
        fens = mating_positions(options.number, options.seed)
    result = measure(fens, options.simulations, options.batch)
    print(json.dumps(result, indent=2))
    write_json(options.json, result)


if __name__ == "__main__":
    main()
