"""The configuration of a training run: every field is a flag of `dualmctx train`."""

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Literal, Union

from dualmctx.checks import (
    check,
    check_count,
    check_even,
    check_finite,
    check_positive,
    check_seed,
    normalize_options,
    show,
)
from dualmctx.errors import UserError
from dualmctx.models.trunks import AUTO, TRUNKS
from dualmctx.policies import REGISTRY, Dual
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.types import Policy, tree_budgets

if TYPE_CHECKING:
    SearchOptions = Policy
    TrunkName = str
else:
    SearchOptions = Union[tuple(row.policy for row in REGISTRY.values())]  # noqa: UP007
    TrunkName = Literal[(AUTO, *TRUNKS)]


@dataclasses.dataclass(frozen=True)
class NetworkOptions:
    """The size and the dtype of the network, and the activations that search nodes store."""

    trunk: TrunkName = AUTO
    """Trunk of the network; auto is conv for observations of boards, else mlp."""
    width: int = 64
    """Features of the trunk."""
    num_blocks: int = 4
    """Residual blocks."""
    head_depths: tuple[int, ...] | None = None
    """Number of blocks below each head; with separate trunks, the blocks of each network, of which
    the first may have 0. By default heads are in the middle and at the end, or at even distances if
    the search has more than two trees."""
    separate_trunks: bool | None = None
    """Give each head a network of its own: num_blocks in the first one, half as many again in the
    next. By default only for the searches that require it (mpv)."""
    value_blocks: int | None = None
    """Residual blocks of one more network, which gives only the value of the final head; needs
    separate trunks. By default the final head gives its own value."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the trunk's activations and products; parameters, losses, heads and search statistics
    are float32 in both cases. bfloat16 has three significant digits, and is faster on GPUs only."""
    kept_activations: Literal["float32", "bfloat16", "none"] = "float32"
    """Type of the trunk activations that a search stores for the final head. float32 is exact.
    bfloat16 rounds and takes half the memory. With none, the final head evaluates the whole network
    again, as in the paper. A trunk of dtype bfloat16 stores bfloat16 in both cases, which is then
    exact."""
    compact_states: bool = False
    """Store game states in bit-packed form: the same search in less memory if states are large
    (chess, go, shogi)."""
    factory: str | None = dataclasses.field(default=None, metadata={"aliases": ("--network",)})
    """A network of your own, as package.module:factory; `--network` is short for this flag
    (docs/networks.md). The options of its size replace trunk, width, num_blocks, separate_trunks,
    value_blocks and dtype; head_depths are the costs of its heads."""
    options: dict[str, int | float | bool | str] = dataclasses.field(default_factory=dict)
    """Options of that factory, such as `width 128 num_heads 4`."""

    def __post_init__(self) -> None:
        """Checks the options of a factory."""
        normalize_options(self)
        is_valid = not self.options or self.factory is not None
        remedy = "left out without --network package.module:factory"
        check(is_valid, "options", show(self.options), remedy)

    def model_kwargs(self) -> dict[str, Any]:
        """Returns the options of `make_model`."""
        if self.kept_activations == "none":
            return {"keep_activations": False, "compact_states": self.compact_states}
        if self.factory is not None and self.kept_activations == "float32":
            # The network's own type, which need not be float32.
            return {"activations_dtype": None, "compact_states": self.compact_states}
        stored = self.kept_activations if self.dtype == "float32" else self.dtype
        return {"activations_dtype": stored, "compact_states": self.compact_states}


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """Options of the evals during training."""

    every: int = 10
    """Iterations between evals; 0 runs evals only at the end."""
    num_games: int = 100
    """Games against each opponent; an even number."""
    batch_size: int = 256
    """Positions that one call evaluates."""
    max_positions: int = 1000
    """Approximate number of positions of a solved game in evals during training, in addition to all
    positions that optimal play can reach; with a data set, also the number of positions for
    validation. The last evals use all positions."""
    stop_when_solved: int = 0
    """Stop after this many evals in a row in which network and search play optimally in all
    positions that optimal play can reach; 0 never stops."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        check_even("num_games", self.num_games)
        for name in ("every", "stop_when_solved"):
            check_count(name, getattr(self, name), 0)
        for name in ("batch_size", "max_positions"):
            check_count(name, getattr(self, name), 1)
        is_valid = self.every > 0 or self.stop_when_solved == 0
        remedy = "0 with every 0, which runs no evals during training"
        check(is_valid, "stop_when_solved", self.stop_when_solved, remedy)


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The options of all runs, of self-play and of the stages of AlphaGo's pipeline.

    A configuration inherits these fields, so that its flags and the entries of `config.json` have
    no prefix.
    """

    game: str = ""
    """The name of the game, see `games.make`."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """Parameters of the game, such as `k 4 q 4 n 16`."""
    seed: int = 0
    """Seed of all random numbers; the same seed gives the same run."""
    checkpoint_every: int = 10
    """Iterations between checkpoints; the end of the run is always saved."""
    keep: int = 2
    """Number of checkpoints to keep, the newest ones."""
    out: str | None = None
    """The folder of the run; by default runs/PRESET, or runs/PRESET-STAGE."""
    resume: bool = False
    """Continue the run in the folder `out` with its own settings. `--resume FOLDER` names the
    folder; `--resume auto` continues a run if there is one, and starts it if there is none."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        for name in ("checkpoint_every", "keep"):
            check_count(name, getattr(self, name), 1)
        check_seed(self.seed)


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    """A training run."""

    game: str = "hsr"
    """The name of the game, see `games.make`."""
    search: SearchOptions = dataclasses.field(default_factory=Dual)
    """The search; `--search.variant NAME` selects another variant."""
    network: NetworkOptions = dataclasses.field(default_factory=NetworkOptions)
    """Options of the network."""
    selfplay: SelfPlay = dataclasses.field(default_factory=SelfPlay)
    """Options of self-play."""
    learner: Learner = dataclasses.field(default_factory=Learner)
    """Options of the learner."""
    evals: EvalConfig = dataclasses.field(default_factory=EvalConfig)
    """Options of the evals."""
    num_iterations: int = 100
    """Iterations, each of self-play, or positions of the data set, and learning. A resumed run may
    have more."""
    schedule_iterations: int | None = None
    """Iterations of the learning rate's schedule, which ends at a tenth of the peak; later
    iterations keep that rate. By default num_iterations of the new run, also if it gets more when
    it is resumed."""
    checkpoint_every: int = 20
    """Iterations between checkpoints; the end of the run is always saved."""
    checkpoint_minutes: float | None = None
    """Also save a checkpoint after the first iteration that ends this many minutes after the last
    one. By default only checkpoint_every counts."""
    init_from: str | None = None
    """Start from the parameters of a network: the folder of a run, an exported .safetensors file,
    or the name of a network shipped with dualmctx. FOLDER@ITERATION names an earlier checkpoint."""
    dataset: str | None = None
    """Learn the positions of this folder of `dualmctx dataset` in place of self-play: their moves
    and the results of their games. An iteration reads num_games * num_steps of them."""
    wandb: str | None = None
    """Also log to this project of Weights & Biases (needs dualmctx[wandb])."""
    memory_limit: float | None = None
    """Memory that the run may take, in GiB; by default the free memory of the device. A run that
    needs more is refused before it starts."""
    devices: int | None = None
    """Number of devices to use in each process; by default all."""
    coordinator: str | None = None
    """For runs on several processes, the address of the first process: HOST:PORT, or auto under
    SLURM or Open MPI (docs/clusters.md)."""
    num_processes: int | None = None
    """Number of processes, with --coordinator HOST:PORT."""
    process_id: int | None = None
    """Index of this process, from 0, with --coordinator HOST:PORT."""

    def __post_init__(self) -> None:
        """Checks the fields that are checked nowhere else."""
        super().__post_init__()
        check_count("num_iterations", self.num_iterations, 1)
        check_count("schedule_iterations", self.schedule_iterations, 1, "for num_iterations")
        check_positive(self, "checkpoint_minutes", none_means="for checkpoint_every alone")
        budgets = tree_budgets(self.search)
        if min(budgets) < 1:
            raise UserError(
                f"search.num_simulations is {' '.join(map(str, budgets))}; each tree needs at "
                "least 1 (for a single tree use --search.variant alphazero)"
            )
        check_positive(self, "memory_limit", none_means="for the free memory")
        check_count("devices", self.devices, 1, "for all")
        remedy = "left out with --coordinator, as only runs of one process read a data set"
        check(self.dataset is None or self.coordinator is None, "dataset", self.dataset, remedy)
        check_processes(self.coordinator, self.num_processes, self.process_id)
        # The files of a run, which are JSON, hold no other numbers.
        check_finite(self.game_parameters, "game_parameters")
        check_finite(self.network.options, "network.options")


def check_processes(
    coordinator: str | None, num_processes: int | None, process_id: int | None
) -> None:
    """Checks that the options of a run on several processes do not contradict each other."""
    if coordinator is None or coordinator == "auto":
        for name, value in (("num_processes", num_processes), ("process_id", process_id)):
            check(value is None, name, value, "left out without --coordinator HOST:PORT")
        return
    is_address = re.fullmatch(r".+:[0-9]+", coordinator) is not None
    check(is_address, "coordinator", coordinator, "HOST:PORT or auto")
    number = num_processes or 0
    remedy = "at least 1 with --coordinator HOST:PORT"
    check(number >= 1, "num_processes", num_processes, remedy)
    is_valid = process_id is not None and 0 <= process_id < number
    remedy = f"from 0 to {number - 1} with --num-processes {number}"
    check(is_valid, "process_id", process_id, remedy)
