"""The network and the search of a command: their flags, and what is built from them."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple

from dualmctx.commands.flags import REQUIRED, Positional, named
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import build_evaluator, default_batch_size
from dualmctx.matches.player_spec import OWN, PlayerSpec, parse_search
from dualmctx.policies import REGISTRY, named_options, paper_setting, with_options
from dualmctx.runs.saved_network import Trained, identity_of, load_record, load_trained
from dualmctx.runs.saved_policy import build_policy, search_record, with_simulations
from dualmctx.serving.tasks import can_deepen, total_simulations
from dualmctx.typed_values import decode_text
from dualmctx.types import Policy

_CONTINUED = "alphazero"
_GRAMMAR = (
    f"{', '.join(REGISTRY)}; also with options, as in dual:num_rounds=10, or in the setting of the "
    "paper, dual:paper. By default own, the search that the network was trained with"
)
_VARIANT = f"Search variant: {_GRAMMAR}, without noise."
ABOUT_CONTINUED = (
    f"Search variant: {_GRAMMAR}; if that one begins anew for each budget, as gumbel does, "
    "alphazero with as many simulations."
)
"""The flag `--variant` for `build_continued_search`, for `--help`."""


def _plain(game: str) -> str:
    """Returns the name of a game with the separators of its id."""
    return game.replace("-", "_")


@dataclasses.dataclass(frozen=True)
class NetworkFlags:
    """The flags of a network from a run folder or a file."""

    iteration: int | None = None
    """Iteration of the run's checkpoint; by default the newest."""
    game: str | None = None
    """Reject a network for another game. Required for an exported file whose game is
    package.module:factory."""
    network: tuple[str, ...] = ()
    """The networks that exported files may import, as package.module:factory (docs/networks.md)."""

    def load(self, checkpoint: str) -> Trained:
        """Loads a network; refuses one that plays another game than `game`."""
        trained = load_trained(checkpoint, self.iteration, game=self.game, network=self.network)
        if self.game is not None and _plain(self.game) != trained.env.id:
            raise UserError(f"game is {self.game}; {checkpoint} plays {trained.env.id}")
        return trained

    def load_record(self, checkpoint: str) -> dict[str, Any]:
        """Loads the record of a network alone; does not find that an iteration is missing."""
        record = load_record(checkpoint, game=self.game, network=self.network)
        if self.game is not None and _plain(self.game) != _plain(record["game"]):
            raise UserError(f"game is {self.game}; {checkpoint} plays {record['game']}")
        return record


@dataclasses.dataclass(frozen=True)
class SearchFlags(NetworkFlags):
    """The flags of a network with its search, the seed and the devices."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .safetensors file, or the name of a network shipped with
    dualmctx."""
    variant: Annotated[str | None, named(help=_VARIANT)] = None
    simulations: tuple[int, ...] | None = None
    """Simulations per position: one number, which the trees share in proportion to their defaults,
    or a number for each tree, such as 50 35 for dual."""
    network_only: bool = False
    """Use the network's output without a search."""
    seed: int = 0
    """Random seed. The result for a position depends on the seed and the id of the position."""
    devices: int | None = None
    """Number of devices that share a batch; by default all devices of this process."""

    def policy(self, record: dict[str, Any]) -> Policy:
        """Builds the search."""
        return build_search(record, self.variant, self.simulations)


class LoadedSearch(NamedTuple):
    """A network with a search, ready to evaluate positions.

    Attributes:
      evaluator: evaluates positions.
      record: everything that determines the results, as JSON values.
      trained: the network.
    """

    evaluator: Evaluator
    record: dict[str, Any]
    trained: Trained


def load_search(
    flags: SearchFlags, batch_size: int | None, max_positions: int | None = None
) -> LoadedSearch:
    """Loads a network and compiles its search.

    Args:
      flags: the flags, with the checkpoint as in `load_trained`.
      batch_size: positions per device call; by default as in `default_batch_size`.
      max_positions: an upper bound of the number of positions of this process; `None` if it is
        unknown.

    Raises:
      UserError: if the checkpoint cannot be loaded, or the flags do not fit it or each other.
    """
    trained, devices = flags.load(flags.checkpoint), flags.devices
    if flags.network_only and (flags.variant or flags.simulations):
        raise UserError("network_only excludes a search; leave out variant and simulations")
    policy = None if flags.network_only else flags.policy(trained.record)
    size = batch_size or default_batch_size(
        trained, policy, devices=devices, max_positions=max_positions
    )
    evaluator = build_evaluator(trained, policy, batch_size=size, seed=flags.seed, devices=devices)
    record = {
        **{"game": trained.env.id, "game_parameters": trained.record["game_parameters"]},
        **identity_of(trained),
        "search": None if evaluator.policy is None else search_record(evaluator.policy),
        "seed": flags.seed,
    }
    return LoadedSearch(evaluator, record, trained)


def make_builder(
    record: dict[str, Any], default: Callable[[], Policy]
) -> Callable[[str | None], Policy]:
    """Returns a function that builds the searches that messages name, or the default one."""

    @functools.lru_cache(maxsize=256)
    def build(variant: str | None) -> Policy:
        return (default() if variant is None else build_search(record, variant)).for_evaluation()

    return build


def build_search(
    record: dict[str, Any],
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
) -> Policy:
    """Builds the search of a run, or another one, with options.

    Args:
      record: the run's configuration, as in `build_policy`.
      variant: `SEARCH[:paper][:OPTION=VALUE ...]` with the name of a variant of the registry, or
        `own` for the search of the run's training; `None` is `own`.
      simulations: simulations per move, as in `build_policy`.
    """
    spec = parse_search(OWN if variant is None else variant)
    if spec.search != OWN and spec.search not in REGISTRY:
        known = ", ".join((*REGISTRY, OWN))
        raise UserError(f"variant is {spec.search}; it must be one of {known}")
    if spec.simulations is not None and simulations is not None:
        raise UserError(
            f"the simulations are given twice: {spec.simulations} in the variant, and {simulations}"
        )
    policy = search_of(record, spec, simulations)
    try:
        return with_texts(policy, spec)
    except UserError as error:
        raise UserError(f"variant {variant!r}: {error}") from None


def build_continued_search(
    record: dict[str, Any],
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
) -> Policy:
    """Builds a search, without noise, for games and analyses that go on in its trees.

    If no variant is named, and the search of the training cannot continue from its trees, it is
    AlphaZero's with as many simulations.
    """
    policy = build_search(record, variant, simulations)
    if variant is None and not can_deepen(policy):
        policy = with_simulations(build_search(record, _CONTINUED), total_simulations(policy))
    return policy.for_evaluation()


def check_budget(policy: Policy, max_simulations: int) -> None:
    """Checks that a search has at most `--max-simulations`."""
    number = total_simulations(policy)
    if number > max_simulations:
        raise UserError(
            f"the search has {number} simulations; it must have at most --max-simulations, which is"
            f" {max_simulations}"
        )


def search_of(
    record: dict[str, Any], spec: PlayerSpec, simulations: int | tuple[int, ...] | None = None
) -> Policy:
    """Returns the search of a specification, before its options.

    Args:
      record: the run's configuration, as in `build_policy`.
      spec: the specification.
      simulations: simulations per move, as in `build_policy`, if the specification has none.

    Raises:
      ValueError: if there is no such search, or the record's search cannot be read.
    """
    budget = simulations if spec.simulations is None else spec.simulations
    if not spec.paper:
        return build_policy(record, None if spec.search == OWN else spec.search, budget)
    policy = paper_setting(spec.search)
    return policy if budget is None else with_simulations(policy, budget)


def with_texts(policy: Policy, spec: PlayerSpec) -> Policy:
    """Returns a policy with the options of a specification, which are texts as in `decode_text`."""
    hints = {
        name: option.hint
        for name, option in named_options(policy).items()
        if name != "num_simulations" and not callable(option.value)
    }
    return with_options(policy, **read_options(spec.search, spec.options, hints, "simulations"))


def read_options(
    search: str, options: Iterable[tuple[str, str]], hints: dict[str, Any], *others: str
) -> dict[str, Any]:
    """Converts the options of a search or a player, given as text, to their types.

    Args:
      search: its name, for error messages.
      options: names and values.
      hints: the types of the options, by name.
      *others: options that are read elsewhere, for error messages.

    Raises:
      UserError: if there is no such option, or its value is of another type.
    """
    values: dict[str, Any] = {}
    for name, text in options:
        if name not in hints:
            known = ", ".join((*others, *hints))
            raise UserError(f"{search} has no option {name}; it has {known}")
        values[name] = decode_text(name, text, hints[name])
    return values
