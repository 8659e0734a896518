"""`dualmctx serve CHECKPOINT`: evaluates positions that another program sends line by line."""

import collections
import dataclasses
import sys

import jax

from dualmctx.checks import check_count
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.process_settings import rare_collections
from dualmctx.commands.search import SearchFlags, load_search, make_builder
from dualmctx.commands.source import open_standard_input, write_lines
from dualmctx.distributed.backend import require_backend
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.batches import MAX_BYTES, MAX_REQUESTS, Inbox, full_batches
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.game_files.questions import Row, questions_of_every_kind
from dualmctx.runs.saved_network import Trained
from dualmctx.serving.engine import RestartingSearch, compile_search
from dualmctx.serving.requests import Request, read_requests
from dualmctx.serving.scheduler import Scheduler, Setup
from dualmctx.serving.tasks import EngineOptions, Planner, Program, TaskSearch
from dualmctx.version import __version__

_PROGRAM = "dualmctx serve"
_DESCRIPTION = """Evaluates positions until the input ends. Reads JSON Lines from standard input and
writes JSON Lines to standard output, each with the id of its position and a result or an error.
Results may arrive in a different order than the positions. A batch starts when it is full or when
no further position is waiting. docs/serve.md describes the fields."""


@dataclasses.dataclass(frozen=True)
class Options(SearchFlags):
    """The network and the search."""

    batch: int = 16
    """Number of positions evaluated at once; a partial batch takes as long as a full one."""
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
    evaluator, _, trained = load_search(options, options.batch)
    warm_up(evaluator)
    devices = jax.local_devices()[: options.devices]
    print(f"{_PROGRAM}: ready, {evaluator.game} on {devices[0].device_kind}", file=sys.stderr)
    with rare_collections():
        inbox = Inbox[Request](MAX_REQUESTS, MAX_BYTES)
        inbox.read(read_requests(open_standard_input()), lambda request: request.size)
        Scheduler(inbox, make_setup(evaluator, trained, options), write_lines).run()
    return 0


def make_setup(evaluator: Evaluator, trained: Trained, options: Options) -> Setup:
    """Returns the setup of a scheduler.

    Args:
      evaluator: evaluates the requests without settings of their own.
      trained: the network of the other searches.
      options: the options of the command.
    """
    parameters = trained.record["game_parameters"]
    about: Row = {"version": __version__, "game": evaluator.game, "game_parameters": parameters}
    engine = EngineOptions(
        batch_size=options.batch,
        max_simulations=options.max_simulations,
        tree_memory=options.tree_memory * 2**20,
        seed=options.seed,
        chunk_size=options.chunk,
        max_programs=options.max_programs,
        devices=options.devices,
    )
    build = make_builder(trained.record, lambda: options.policy(trained.record))

    def load(program: Program) -> TaskSearch:
        return compile_search(trained, program, engine)

    return Setup(Planner(build, engine), load, about, RestartingSearch(evaluator))


def warm_up(evaluator: Evaluator) -> None:
    """Compiles the programs for positions of every kind before the first position arrives."""
    questions = questions_of_every_kind(evaluator.env)
    collections.deque(answer(evaluator, full_batches(questions, evaluator.batch_size)), maxlen=0)
