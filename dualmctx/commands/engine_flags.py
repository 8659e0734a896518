"""What `dualmctx gtp` and `dualmctx uci` share: their flags, the engine and its end."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from typing import Annotated

from dualmctx.checks import check, check_count, check_seed
from dualmctx.commands.flags import named
from dualmctx.commands.process_settings import rare_collections, write_standard
from dualmctx.commands.search_spec import ABOUT_CONTINUED, build_continued_search
from dualmctx.commands.source import open_standard_input
from dualmctx.distributed.backend import require_backend
from dualmctx.evaluation.engine import EngineOptions
from dualmctx.policies import REGISTRY
from dualmctx.protocols.thinker import Events, Thinker, read_lines
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.types import Policy

_SECONDS_TO_STOP = 1.0
_MAX_OVERHEAD = 60.0
_VARIANT = f"Search variant: {', '.join(REGISTRY)}; {ABOUT_CONTINUED}"


@dataclasses.dataclass(frozen=True)
class EngineFlags:
    """The flags of an engine: its search, and the limits of its trees."""

    variant: Annotated[str | None, named(help=_VARIANT)] = None
    simulations: tuple[int, ...] | None = None
    """Simulations per move: one number, which the trees share in proportion to their defaults, or a
    number for each tree. If they are given, they are a limit also where the time is. By default
    those of the search; under a clock, as many as fit into the time."""
    step: int = 8
    """Simulations per step. Between steps, the search looks at the clock and reports. With several
    trees, a step has whole rounds, at least one."""
    max_simulations: int = 10_000
    """Largest number of simulations of a position, if the memory suffices."""
    tree_memory: int = 128
    """Memory in MiB for the kept trees. It must hold two trees, which limits the simulations in
    games with many actions."""
    overhead: float = 0.05
    """Seconds of each move that pass outside of the search."""
    iteration: int | None = None
    """Iteration of the run's checkpoint; by default the newest."""
    game: str | None = None
    """The game of an exported file, package.module:factory, if it is not one of dualmctx."""
    network: tuple[str, ...] = ()
    """The networks that exported files may import, as package.module:factory (docs/networks.md)."""
    seed: int = 0
    """Random seed of the searches."""

    def __post_init__(self) -> None:
        """Checks the numbers."""
        for name in ("step", "max_simulations", "tree_memory"):
            check_count(name, getattr(self, name), 1)
        is_valid = 0 <= self.overhead <= _MAX_OVERHEAD
        check(is_valid, "overhead", self.overhead, f"from 0 to {_MAX_OVERHEAD:g} seconds")
        check_seed(self.seed)

    def load(self, program: str, checkpoint: str) -> Trained:
        """Loads the network; raises the errors of `load_trained`."""
        require_backend(program)
        return load_trained(checkpoint, self.iteration, game=self.game, network=self.network)

    def build(self, trained: Trained) -> Policy:
        """Builds the search, without noise; raises the errors of `build_search`."""
        return build_continued_search(trained.record, self.variant, self.simulations)

    @property
    def options(self) -> EngineOptions:
        """The options of the engine."""
        return EngineOptions(
            batch_size=1,
            max_simulations=self.max_simulations,
            tree_memory=self.tree_memory * 2**20,
            seed=self.seed,
            chunk_size=self.step,
        )


def standard_events() -> Events:
    """Returns the lines of standard input as events."""
    return Events(read_lines(open_standard_input()))


def write_text(text: str) -> None:
    """Writes text to standard output at once."""
    write_standard(text.encode())


@contextlib.contextmanager
def running(program: str) -> Iterator[list[Thinker]]:
    """Runs a session; yields a list for its thinkers, which are closed at the end.

    A compilation cannot be interrupted, and Python must not end before its thread. So the process
    ends at once if a thread does not end soon.
    """
    thinkers: list[Thinker] = []
    code = 1
    try:
        with rare_collections():
            yield thinkers
        code = 0
    except KeyboardInterrupt:
        code = 130
        raise
    finally:
        ended = [thinker.close(_SECONDS_TO_STOP) for thinker in thinkers]
        if not all(ended) and code != 1:
            sys.stdout.flush()
            if code:
                print(f"{program}: stopped", file=sys.stderr, flush=True)
            os._exit(code)
