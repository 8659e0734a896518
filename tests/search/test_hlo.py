"""The compiled search: the simulation loop makes no pass over whole arrays of the tree."""

import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import hash_model
from benchmarks.hlo_counts import parse
from dualmctx import AlphaZero, Backup, Contempt, Dual, Gumbel, MuZero, Puct, Root
from oracle.cases import grouped
from pairwise import quick_first

BATCH, ACTIONS, SIMULATIONS = 3, 5, 16
WINDOW = grouped(dirichlet_fraction=0.0, window=2)
# Each statistic and each rule, with the window's loops and without.
POLICIES = {
    "minimax values and RAVE": AlphaZero(
        SIMULATIONS, **grouped(WINDOW, minimax_mix=0.4, rave_visits=10.0)
    ),
    "regularized": AlphaZero(
        SIMULATIONS,
        root=Root(dirichlet_fraction=0.0),
        puct=Puct(regularized=("act", "search", "learn")),
    ),
    "contempt": Contempt(SIMULATIONS, -2, **WINDOW),
    "muzero": MuZero(SIMULATIONS, backup=Backup(window=2)),
    "gumbel": Gumbel(SIMULATIONS),
    "dual": Dual((10, 6), num_rounds=2, **grouped(dirichlet_fraction=0.0)),
}
# Opcodes that pass an array on, or write some of its elements in place.
PASSES = {"parameter", "get-tuple-element", "tuple", "bitcast", "while", "call", "conditional"}
WRITES = {"scatter", "dynamic-update-slice", "fusion"}


def optimised_hlo(policy: Any) -> str:
    def search(rng_key: Any) -> Any:
        seeds = jnp.arange(BATCH)
        return hash_model.search(policy, hash_model.Rules(), rng_key, seeds, ACTIONS).action_weights

    return jax.jit(search).lower(jax.random.key(0)).compile().as_text()


def inside_loops(hlo: str, *, innermost: bool = False) -> list[tuple[str, str]]:
    """Returns shape and opcode of every instruction inside nested loops.

    The simulation loop is one, as it holds the loops down and up the tree. Dual's loop of rounds
    is one as well, which may pass over the tree once a round: with `innermost` it is left out.
    """
    all_steps = parse(hlo)

    def called(rest: str) -> list[str]:
        attribute = r"(?:body|condition|calls|to_apply|\w+_computations?)=(\{[^}]*\}|[^,]+)"
        names = [n for some in re.findall(attribute, rest) for n in some.strip("{}").split(",")]
        return [n for n in (n.strip().removeprefix("%") for n in names) if n in all_steps]

    def reachable(name: str) -> list[tuple[str, str]]:
        steps = []
        for shape, opcode, rest in all_steps[name]:
            steps.append((shape, opcode))
            for other in called(rest):
                steps += reachable(other)
        return steps

    bodies = re.findall(r"while\(.*body=%?([\w.\-]+)", hlo)
    loops = {body: reachable(body) for body in bodies}
    loops = {body: steps for body, steps in loops.items() if any(op == "while" for _, op in steps)}
    if innermost:
        loops = {
            body: steps
            for body, steps in loops.items()
            if not any(loops.keys() & set(called(rest)) for _, _, rest in all_steps[body])
        }
    return [step for steps in loops.values() for step in steps]


def num_elements(shape: str) -> int:
    match = re.match(r"\w+\[([\d,]*)\]", shape)
    return math.prod(int(n) for n in match[1].split(",") if n) if match else 0


@pytest.mark.slow
@pytest.mark.parametrize("name", quick_first(POLICIES, 1))
def test_simulation_loop_has_no_pass_over_tree(name: str) -> None:
    hlo = optimised_hlo(POLICIES[name])
    num_nodes = SIMULATIONS + 1
    edges = BATCH * num_nodes * ACTIONS
    loops = inside_loops(hlo, innermost=name == "dual")
    # RAVE has two numbers per edge.
    steps = [(shape, op) for shape, op in loops if num_elements(shape) in (edges, 2 * edges)]
    assert {op for _, op in steps} & WRITES, "the loop was not found"
    assert [step for step in steps if step[1] not in PASSES | WRITES] == []


def test_check_detects_pass_over_tree() -> None:
    """Guards the test above: a search that scales all priors in each simulation fails it."""
    shape = (BATCH, SIMULATIONS + 1, ACTIONS)

    def body(_: Any, carry: Any) -> Any:
        prior, key = carry
        depth = jax.lax.while_loop(lambda d: d < key[0] % 7, lambda d: d + 1, jnp.uint32(0))
        return prior * (1.0 + depth), key + depth

    def program(prior: Any, key: Any) -> Any:
        return jax.lax.fori_loop(0, 9, body, (prior, key))

    hlo = jax.jit(program).lower(jnp.ones(shape), jnp.arange(2, dtype=jnp.uint32)).compile()
    steps = [op for s, op in inside_loops(hlo.as_text()) if num_elements(s) == math.prod(shape)]
    assert set(steps) - PASSES - WRITES
