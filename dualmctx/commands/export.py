"""`dualmctx export RUN FILE`: writes the network of a run, or its search, to one file."""

import dataclasses
from pathlib import Path
from typing import Annotated

from jax.export import Exported

from dualmctx.checks import check, show
from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.commands.search import NetworkFlags, build_search
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.evaluation.stablehlo import PLATFORMS, export_network, export_search
from dualmctx.matches.player_spec import OWN
from dualmctx.policies import REGISTRY
from dualmctx.runs.atomic_io import atomic_path, require_new
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.runs.saved_network import Trained, export_trained, model_kwargs_of

_PROGRAM = "dualmctx export"
_DESCRIPTION = """Writes a trained network to one file. A file that ends in .safetensors holds the
parameters and the configuration; the other commands accept it instead of the run folder. A file
that ends in .stablehlo holds a program, which runs in JAX without dualmctx: the network, or with
--search the search of positions."""
_PARAMETERS, _PROGRAMS = ".safetensors", ".stablehlo"
# The value of --search for the network without a search.
_NETWORK = "network"
_SEARCH = (
    f"For a .stablehlo file: the program takes moves from the start of the game. Its search is a "
    f"variant ({', '.join(REGISTRY)}), without noise, also with options, as in "
    f"dual:num_rounds=10 or dual:paper; {OWN}, the search of the training; or "
    f"{_NETWORK}, the network's choice without a search. By default, the program is the network "
    "alone, and takes observations."
)


@dataclasses.dataclass(frozen=True)
class Options(NetworkFlags):
    """The run and the exported file."""

    run: Positional[Annotated[str, named(metavar="RUN")]] = REQUIRED
    """The run folder, or an exported .safetensors file, or the name of a network that comes with
    dualmctx."""
    file: Positional[Annotated[str, named(metavar="FILE")]] = REQUIRED
    """The file to write; it must end in .safetensors or .stablehlo and must not exist."""
    search: Annotated[str | None, named(help=_SEARCH)] = None
    simulations: tuple[int, ...] | None = None
    """With a search: simulations per position, one number, which the trees share in proportion to
    their defaults, or a number for each tree, such as 50 35 for dual."""
    batch: int | None = None
    """For a .stablehlo file: number of positions per call; by default the program accepts any."""
    platforms: tuple[str, ...] | None = None
    """For a .stablehlo file: the platforms on which the program can run, from cpu, cuda, rocm and
    tpu; by default cpu and cuda. No GPU is needed to export."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    path = Path(options.file)
    _check(options, path)
    require_new(path)
    require_backend(_PROGRAM)
    trained = options.load(options.run)
    content = f"{trained.env.id} after {trained.iteration} iterations"
    program = None
    if path.suffix == _PROGRAMS:
        exported = _export(trained, options)
        program, content = exported.serialize(), f"{content}; {_describe(exported)}"
    with locked(lock_beside(path), path):
        require_new(path)
        if program is None:
            export_trained(trained, path)
        else:
            with atomic_path(path) as draft:
                draft.write_bytes(program)
    print(f"{path}: {content}")
    return 0


def _check(options: Options, path: Path) -> None:
    """Checks the suffix of the file, and that the other flags apply to it."""
    if path.suffix not in (_PARAMETERS, _PROGRAMS):
        raise UserError(
            f"FILE is {path}; its name must end in {_PARAMETERS} (parameters, for dualmctx) or "
            f"{_PROGRAMS} (a program, for JAX without dualmctx)"
        )
    if path.suffix == _PARAMETERS:
        for name in ("search", "simulations", "batch", "platforms"):
            value = getattr(options, name)
            if value is not None:
                raise UserError(
                    f"{name} is {show(value)}; leave it out, or write to a file that ends in "
                    f"{_PROGRAMS}"
                )
    searches = (OWN, _NETWORK, *REGISTRY)
    # Options may follow the name of a variant.
    is_known = options.search is None or options.search.split(":")[0] in searches
    check(is_known, "search", options.search, f"one of {', '.join(searches)}")
    if options.simulations is not None and options.search in (None, _NETWORK):
        raise UserError(
            f"simulations is {show(options.simulations)}; choose a --search for it, or leave it out"
        )


def _export(trained: Trained, options: Options) -> Exported:
    """Exports the network, or the search that `--search` names."""
    env, network, params = trained.env, trained.network, trained.params
    platforms = options.platforms if options.platforms is not None else PLATFORMS
    if options.search is None:
        return export_network(env, network, params, batch_size=options.batch, platforms=platforms)
    policy = None
    if options.search != _NETWORK:
        policy = build_search(trained.record, options.search, options.simulations)
    return export_search(
        env,
        network,
        params,
        policy,
        batch_size=options.batch,
        platforms=platforms,
        **model_kwargs_of(trained.record),
    )


def _describe(exported: Exported) -> str:
    """Describes the inputs and the platforms of a program."""
    inputs = ", ".join(x.str_short() for x in exported.in_avals)
    return f"a program of {inputs} for {', '.join(exported.platforms)}"
