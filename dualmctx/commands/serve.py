"""`dualmctx serve CHECKPOINT`: evaluates positions that another program sends line by line."""

import collections
import dataclasses
import sys
from typing import Annotated

import jax

import games
from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named, parse_flags
from dualmctx.commands.garbage_collection import rare_collections
from dualmctx.commands.search_options import SearchFlags, load_search
from dualmctx.commands.source import open_standard_input
from dualmctx.distributed.backend import require_backend
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.positions_file import read_json_lines
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.replay import MOVES_AT_ONCE
from dualmctx.evaluation.results_file import to_line
from dualmctx.evaluation.streams import full_batches, waiting_batches

_PROGRAM = "dualmctx serve"
_DESCRIPTION = """Evaluates positions until the input ends. Reads JSON Lines from standard input and
writes JSON Lines to standard output, each with the id of its position and a result or an error.
Results may arrive in a different order than the positions. A batch starts when it is full or when
no further position is waiting. docs/evaluate.md describes the fields."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The network and the search."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .npz file, or the name of a network shipped with dualmctx."""
    batch: int = 16
    """Number of positions evaluated at once; a partial batch takes as long as a full one."""
    search: Unprefixed[SearchFlags] = dataclasses.field(default_factory=SearchFlags)
    """The search."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    require_backend(_PROGRAM)
    evaluator, _ = load_search(options.checkpoint, options.search, options.batch)
    warm_up(evaluator)
    devices = jax.local_devices()[: options.search.devices]
    print(f"{_PROGRAM}: ready, {evaluator.game} on {devices[0].device_kind}", file=sys.stderr)
    questions = read_json_lines(open_standard_input())
    with rare_collections():
        for answered in answer(evaluator, waiting_batches(questions, options.batch)):
            sys.stdout.buffer.write(b"".join(map(to_line, answered.rows)))
            sys.stdout.buffer.flush()
    return 0


def warm_up(evaluator: Evaluator) -> None:
    """Compiles the programs for positions of every kind before the first position arrives.

    Apart from the initial position, these are a game with more moves than one call of the replay
    takes, here of illegal moves; and a FEN, if the game has FENs.
    """
    env = evaluator.env
    long_game: list[int | str] = [0] * (MOVES_AT_ONCE + 1)
    questions = [Question(0, 0), Question(0, 0, long_game)]
    if games.is_chess(env):
        questions.append(Question(0, 0, fen=games.write_fen(games.start_position(env))))
    collections.deque(answer(evaluator, full_batches(questions, evaluator.batch_size)), maxlen=0)
