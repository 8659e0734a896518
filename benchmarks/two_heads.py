"""Where two heads are worth more than one: `python -m benchmarks.two_heads`.

A map of searches at equal cost, in synthetic games whose exact values and whose heads' errors are
known (`benchmarks.two_heads_game`). The engine of dualmctx runs every search. The unit of cost is
an evaluation by the final head. An evaluation by the early head costs r, and one by the final head
that resumes from the early head costs 1 - r. Evaluations of the root count.

The searches of a cell:
- `final` and `early`: AlphaZero by one head. `average`: AlphaZero by the mean of both heads.
- `root`: AlphaZero by the early head with the final head as `root_head`. This is the control: it
  has the second opinion of Dual at one position only. `dual 1` differs from it by nothing but one
  visit, so it shows no more.
- `dual N%`: Dual with N % of the cost in the final head; `dual 1`: with one simulation of the large
  tree; `dual paper`: with the paper's proportion of simulations, 50 : 35. A search that equals one
  before it is left out. Moves come from the visits of both trees.

A row has the share of roots whose move keeps the win (`kept`), the share of the policy on such
moves (`mass`), and the differences to `early`, `final` and `root` in points, with standard errors,
paired by root. All searches of a cell start from the same roots; each cell has other roots. Cells
with a larger budget have fewer roots, so that all take about as long. The same command continues
after a stop.
"""

import argparse
import functools
import itertools
import json
import pathlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
import numpy as np
from jax import Array

from benchmarks.common import (
    at_least_one,
    ending,
    file_to_write,
    keeping_rows,
    make_parser,
    mean_and_error,
)
from benchmarks.ledger import write_measurement
from benchmarks.two_heads_game import (
    EARLY,
    FINAL,
    Heads,
    Mix,
    evaluate,
    recurrent_fn,
    refine_fn,
    roots,
)
from benchmarks.two_heads_report import draw_map
from dualmctx import AlphaZero, Dual, UserError
from dualmctx.policies.options import with_options
from dualmctx.runs.progress import showing
from dualmctx.types import RecurrentFn, RefineFn

# The weight of the early head at the root, and in all nodes of Dual: the default of Dual.
MIX = 0.25
SHARES = (0.05, 0.15, 0.4)
PAPER = (50, 35)
KINDS = ("kept", "mass")
REFERENCES = ("early", "final", "root")


class Cell(NamedTuple):
    """A place on the map.

    Attributes:
      part: the part of the study that the cell belongs to.
      budget: the cost of a search, in evaluations by the final head.
      r: the cost of the early head.
      noise: σ and τ of the final head.
      ratio: those of the early head, divided by those of the final head.
      correlation: c, of the two heads' errors.
      persistence: ρ, of an error from a position to the next one.
      actions: moves of a position.
      keeping: the probability that a move keeps a win.
      options: options of Dual by name.
    """

    part: str = "map"
    budget: int = 16
    r: float = 0.5
    noise: float = 2.0
    ratio: float = 1.0
    correlation: float = 0.5
    persistence: float = 0.0
    actions: int = 6
    keeping: float = 0.5
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def heads(self) -> Heads:
        """The game and its heads."""
        noise = (self.ratio * self.noise, self.noise)
        return Heads(noise, noise, self.correlation, self.persistence, self.keeping)


class Search(NamedTuple):
    """A search of a cell.

    Attributes:
      kind: final, early, average, root or dual.
      simulations: by the early head and by the final head.
      root_mix: the early head's weight at the root of the control.
      options: options of Dual by name.
    """

    kind: str
    simulations: tuple[int, int]
    root_mix: float = MIX
    options: tuple[tuple[str, Any], ...] = ()


def searches(cell: Cell) -> dict[str, Search]:
    """Returns the searches of a cell by name; all have the same cost, as closely as possible.

    The cost is that of AlphaZero by the final head with `budget` simulations and the root.
    """
    cost, r = cell.budget, cell.r
    mix = dict(cell.options).get("prior_mix", MIX)
    found = {
        "final": Search("final", (0, cost)),
        "early": Search("early", (round((cost + 1 - r) / r), 0)),
        "average": Search("average", (0, cost)),
        # Nodes keep no activations for the root, which both heads evaluate from the beginning.
        "root": Search("root", (round(cost / r) - 1, 0), mix),
    }
    counts = {f"dual {share:.0%}": round(share * cost / (1 - r)) for share in SHARES}
    paper = PAPER[1] * cost / (PAPER[0] * r + PAPER[1] * (1 - r))
    for name, large in ({"dual 1": 1, "dual paper": round(paper)} | counts).items():
        search = Search("dual", (round((cost - large * (1 - r)) / r), large), options=cell.options)
        if min(search.simulations) >= 1 and search not in found.values():
            found[name] = search
    return found


class Evaluations(NamedTuple):
    """The functions of a search, by the early head's weights in priors and values.

    Attributes:
      root: returns the evaluated roots.
      step: returns a `recurrent_fn`.
      refine_fn: evaluates by the final head.
    """

    root: Callable[[Mix], mctx.RootFnOutput]
    step: Callable[[Mix], RecurrentFn]
    refine_fn: RefineFn


MIXES: dict[str, Mix] = {"final": FINAL, "average": (0.5, 0.5)}
"""The weights of the early head in all nodes; `EARLY` for the other kinds of searches."""


def run_search(
    search: Search,
    params: Any,
    rng_key: Array,
    functions: Evaluations,
    invalid_actions: Array | None = None,
) -> mctx.PolicyOutput:
    """Runs a search without noise at the root."""
    small, large = search.simulations
    mix = MIXES.get(search.kind, EARLY)
    inputs, refine_fn = (functions.root(mix), functions.step(mix)), functions.refine_fn
    if search.kind == "dual":
        policy = Dual(search.simulations, num_rounds=min(5, large), action_weights="all_visits")
        policy = with_options(policy, **dict(search.options))
    else:
        policy, refine_fn = AlphaZero(small or large), None
        if search.kind == "root":
            policy = AlphaZero(small, head=0, root_head=-1, root_mix=search.root_mix)
            refine_fn = functions.refine_fn
    call: Any = policy.for_evaluation()
    return call(params, rng_key, *inputs, refine_fn, invalid_actions=invalid_actions)


def read_moves(output: mctx.PolicyOutput, keeps: Array) -> Array:
    """Returns `[2, B]`: whether the move is one of `keeps`, and the policy's weight on them."""
    kept = jnp.take_along_axis(keeps, output.action[:, None], axis=1)[:, 0]
    mass = jnp.sum(output.action_weights * keeps, axis=1)
    return jnp.stack([kept.astype(mass.dtype), mass])


# The searches of the cells of one budget are kept; all of them would take too much memory.
@functools.lru_cache(maxsize=64)
def compile_search(search: Search, num_actions: int, number: int) -> Callable[[Heads, Any], Array]:
    """Compiles a search from `number` roots as a function of the heads and the roots' seed.

    It returns the result of `read_moves`.
    """

    def run(heads: Heads, seed: Array) -> Array:
        state = roots(seed, number, heads, num_actions)

        def root(mix: Mix) -> mctx.RootFnOutput:
            logits, value = evaluate(heads, state, mix)
            return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)

        functions = Evaluations(root, recurrent_fn, refine_fn)
        rng_key = jax.random.fold_in(jax.random.PRNGKey(0), seed)
        return read_moves(run_search(search, heads, rng_key, functions), state.keeps)

    return jax.jit(run)


def summarise(found: Mapping[str, Array], searches: Mapping[str, Search]) -> dict[str, Any]:
    """Returns the shares of each search, and its paired differences to the `REFERENCES`.

    Args:
      found: `[2, B]` results of `read_moves` by the name of the search.
      searches: the searches.
    """
    values = {name: np.asarray(x, np.float64) for name, x in found.items()}
    rows: dict[str, Any] = {}
    for name, value in values.items():
        rows[name] = {"simulations": [*searches[name].simulations]}
        for i, kind in enumerate(KINDS):
            rows[name][kind] = round(float(value[i].mean()), 4)
            for other in REFERENCES:
                pair = mean_and_error(100 * (value[i] - values[other][i]))
                rows[name][f"{kind} - {other}"] = [round(x, 2) for x in pair]
    return rows


def count_roots(budget: int, number: int) -> int:
    """Returns the roots of a cell: above the budget of `Cell`, as many as cost the same."""
    return max(1, number * Cell().budget // max(budget, Cell().budget))


def measure(cell: Cell, number: int, seed: int) -> dict[str, Any]:
    """Runs the searches of a cell from the same roots; returns its row."""
    players, number = searches(cell), count_roots(cell.budget, number)
    # Another cell has other roots.
    place = zlib.crc32(json.dumps(_plain(cell)).encode()) + seed
    found = {
        name: compile_search(search, cell.actions, number)(cell.heads, jnp.uint32(place % 2**31))
        for name, search in players.items()
    }
    rows = summarise(found, players)
    return {"cell": _plain(cell), "number": number, "seed": seed, "searches": rows}


def _plain(cell: Cell) -> dict[str, Any]:
    """Returns a cell in the form that it has in a file."""
    return json.loads(json.dumps(cell._asdict()))


def map_cells() -> Iterable[Cell]:
    """Yields the cells of the map: cost and quality of the early head, correlation, persistence."""
    kinds = itertools.product((16, 64), (1.0, 2.0), (0.5, 0.95), (0.0, 0.8))
    for budget, noise, correlation, persistence in kinds:
        # The large budget is the dearest, so it has one size of noise.
        if budget == 64 and noise == 2.0:
            continue
        for r, ratio in itertools.product((1 / 2, 1 / 4, 1 / 8, 1 / 16), (1, 1.1, 1.25, 1.5, 2)):
            yield Cell("map", budget, r, noise, ratio, correlation, persistence)


def option_cells() -> Iterable[Cell]:
    """Yields cells that change one property or option of two cells of the map."""
    good = Cell("independent", 16, 1 / 4, 2.0, 1.25, 0.5, 0.0)
    real = Cell("alike", 16, 1 / 4, 1.0, 1.25, 0.95, 0.8)
    changes: list[dict[str, Any]] = [{"budget": x} for x in (8, 32, 64, 128, 256)]
    changes += [{"actions": x} for x in (3, 12, 30)] + [{"keeping": x} for x in (0.2, 0.8)]
    options: list[dict[str, Any]] = [{"num_rounds": 1}]
    options += [{"value_mix": x, "prior_mix": x} for x in (0.0, 0.5, 0.75)]
    options += [{"action_weights": x} for x in ("small_visits", "large_visits", "regularized")]
    changes += [{"options": tuple(x.items())} for x in options]
    for cell in (good, real):
        yield cell
        yield from (cell._replace(**change) for change in changes)


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures the cells that the file does not have yet; returns the rows of all cells.

    Raises:
      UserError: if the file is damaged, or has rows of another number of roots or another seed.
    """
    cells = [*map_cells(), *option_cells()]
    number, seed = options.number, options.seed
    if options.quick:
        cells, number = [Cell(budget=4, actions=3), Cell(budget=4, actions=3, ratio=2.0)], 32
    with keeping_rows(options.out) as (rows, append), showing() as show:
        if any(
            (row["number"], row["seed"]) != (count_roots(row["cell"]["budget"], number), seed)
            for row in rows
        ):
            raise UserError(
                f"{options.out} has rows of another --number or --seed; choose another file"
            )
        known = [row["cell"] for row in rows]
        missing = [cell for cell in cells if _plain(cell) not in known]
        for done, cell in enumerate(missing, start=1):
            append(measure(cell, number, seed))
            show("cells", done, len(missing))
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and draws its picture; `benchmarks.two_heads_report` has tables."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    file = pathlib.Path("runs/two_heads.jsonl")
    add("--out", type=pathlib.Path, default=file, metavar="FILE", help=f"rows; default: {file}")
    text = "roots of a cell with up to 16 evaluations, fewer with more; default: 4096"
    add("--number", type=at_least_one, default=4096, help=text)
    add("--seed", type=int, default=0, help="seed of the roots; default: 0")
    add("--picture", type=file_to_write, metavar="FILE.png", help="draw the map")
    options = parser.parse_args(arguments)
    with ending(parser):
        rows = run(options)
        print(f"{len(rows)} cells in {options.out}")
        if options.picture:
            draw_map(rows, options.picture)
    write_measurement(options.json, rows)


if __name__ == "__main__":
    main()
