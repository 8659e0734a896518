"""`dualmctx serve CHECKPOINT`: evaluates positions that another program sends line by line."""

import collections
import dataclasses
import sys
from collections.abc import Callable
from typing import Annotated

import jax

import games
from dualmctx.checks import check_count
from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named, parse_flags
from dualmctx.commands.process_settings import rare_collections
from dualmctx.commands.search import SearchFlags, load_search, make_builder
from dualmctx.commands.source import open_standard_input, write_lines
from dualmctx.distributed.backend import require_backend
from dualmctx.evaluation.answers import answer, full_batches
from dualmctx.evaluation.compiled_searches import SearchLoader
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.questions import Question, Row
from dualmctx.evaluation.requests import Inbox, read_requests
from dualmctx.evaluation.scheduler import Scheduler, Setup
from dualmctx.evaluation.tasks import Planner
from dualmctx.runs.saved_network import Trained
from dualmctx.version import __version__
from games.opened_positions import MOVES_AT_ONCE

_PROGRAM = "dualmctx serve"
_DESCRIPTION = """Evaluates positions until the input ends. Reads JSON Lines from standard input and
writes JSON Lines to standard output, each with the id of its position and a result or an error.
Results may arrive in a different order than the positions. A batch starts when it is full or when
no further position is waiting. docs/serve.md describes the fields."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The network and the search."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .safetensors file, or the name of a network shipped with
    dualmctx."""
    batch: int = 16
    """Number of positions evaluated at once; a partial batch takes as long as a full one."""
    search: Unprefixed[SearchFlags] = dataclasses.field(default_factory=SearchFlags)
    """The search."""
    chunk: int = 32
    """Simulations per step of a request with settings of its own. Other requests run between
    steps."""
    max_simulations: int = 1024
    """Largest number of simulations of a request with settings of its own."""
    max_programs: int = 8
    """Number of compiled searches that are kept for requests with settings of their own."""
    tree_memory: int = 128
    """Memory in MiB for the kept trees of each compiled search. It must hold two batches of trees,
    which limits the simulations in games with many actions."""

    def __post_init__(self) -> None:
        """Checks the numbers."""
        for name in ("batch", "chunk", "max_simulations", "max_programs", "tree_memory"):
            check_count(name, getattr(self, name), 1)


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    require_backend(_PROGRAM)
    evaluator, _, trained = load_search(options.checkpoint, options.search, options.batch)
    warm_up(evaluator)
    devices = jax.local_devices()[: options.search.devices]
    print(f"{_PROGRAM}: ready, {evaluator.game} on {devices[0].device_kind}", file=sys.stderr)
    with rare_collections():
        serve(Inbox(read_requests(open_standard_input())), evaluator, trained, options, write_lines)
    return 0


def serve(
    inbox: Inbox,
    evaluator: Evaluator,
    trained: Trained,
    options: Options,
    write: Callable[[list[Row]], None],
) -> None:
    """Answers requests until the input ends.

    Args:
      inbox: the requests.
      evaluator: evaluates the requests without settings of their own.
      trained: the network of the other searches.
      options: the options of the command.
      write: writes rows.
    """
    scheduler = Scheduler(inbox, make_setup(evaluator, trained, options), write)
    for answered in answer(evaluator, scheduler.batches()):
        write(answered.rows)
        scheduler.release(len(answered.rows))


def make_setup(evaluator: Evaluator, trained: Trained, options: Options) -> Setup:
    """Returns the setup of a scheduler."""
    build = make_builder(trained.record, lambda: options.search.policy(trained.record))
    planner = Planner(build, options.chunk, options.max_simulations)
    parameters = trained.record["game_parameters"]
    about: Row = {"version": __version__, "game": evaluator.game, "game_parameters": parameters}
    loader = SearchLoader(
        trained=trained,
        batch_size=options.batch,
        max_simulations=options.max_simulations,
        tree_memory=options.tree_memory * 2**20,
        seed=options.search.seed,
        devices=options.search.devices,
    )
    return Setup(planner, loader.load, options.batch, options.max_programs, about)


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
