"""Counts what a compiled program does, from XLA's text of it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

# Instructions that move no data.
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}
# The ends of operations whose start is counted.
_ENDS = {"copy-done", "async-done"}
# Beginnings of the names of instructions that exchange data between devices.
_EXCHANGES = ("all-reduce", "all-gather", "all-to-all", "collective-", "reduce-scatter")
# Instructions that run other computations.
_CONTROL = {"while", "conditional", "call"}


class Counts(NamedTuple):
    """The work of one run of a program.

    Attributes:
      kernels: instructions that do work, each as often as it runs. A loop of unknown length counts
        as one iteration, and a condition as its longest branch.
      in_loop: those of an iteration of the busiest loop, without inner loops; 0 without loops.
      unknown_loops: the loops of unknown length in the program.
      conditions: the conditional instructions in the program.
      exchanges: exchanges of data between devices, each as often as it runs; those of all branches
        of a condition count.
    """

    kernels: int
    in_loop: int
    unknown_loops: int
    conditions: int
    exchanges: int


class Instruction(NamedTuple):
    """An instruction of a computation."""

    shape: str
    opcode: str
    rest: str


def parse(text: str) -> dict[str, list[Instruction]]:
    """Returns the instructions of each computation; those of the program itself are `ENTRY`."""
    found: dict[str, list[Instruction]] = {}
    name = ""
    for line in re.sub(r"/\*.*?\*/", "", text).splitlines():
        if header := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            name = "ENTRY" if header[1] else header[2]
            found[name] = []
        elif step := re.match(r"\s+(?:ROOT )?\S+ = (\([^=]*\)|\S+) ([\w\-]+)\((.*)", line):
            found[name].append(Instruction(*step.groups()))
    return found


def count_work(instructions: list[Instruction]) -> int:
    """Counts the instructions that do work themselves."""
    skipped = FREE | _CONTROL | _ENDS
    return sum(x.opcode not in skipped and not _ends_exchange(x) for x in instructions)


def count(text: str) -> Counts:
    """Counts the work of a program, from its text after optimisation."""
    computations = parse(text)
    loops: list[tuple[int, int]] = []

    def run(name: str, times: int) -> tuple[int, int]:
        """Notes the loops in `times` runs of a computation.

        Returns:
          The kernels of these runs, without and with inner loops.
        """
        outer, inner = times * count_work(computations[name]), 0
        for instruction in computations[name]:
            if instruction.opcode == "while":
                number = times * (_trip_count(instruction) or 1)
                # If the length is known, XLA counts the iterations on the host.
                kinds = ("body",) if _trip_count(instruction) else ("body", "condition")
                found = [run(_called(instruction, kind)[0], number) for kind in kinds]
                loops.append((sum(x for x, _ in found), number))
                inner += sum(map(sum, found))
            elif instruction.opcode in _CONTROL:
                found = [run(x, times) for x in _called(instruction, "branch|to_apply")]
                longest = max(found, key=sum)
                outer, inner = outer + longest[0], inner + longest[1]
        return outer, inner

    kernels = sum(run("ENTRY", 1))
    busiest = max(loops, default=(0, 1))
    used = list(_reachable(computations, "ENTRY"))
    is_unknown = [x.opcode == "while" and _trip_count(x) is None for x, _ in used]
    conditions = sum(x.opcode == "conditional" for x, _ in used)
    exchanges = sum(number for x, number in used if _is_exchange(x) and not _ends_exchange(x))
    return Counts(kernels, busiest[0] // busiest[1], sum(is_unknown), conditions, exchanges)


def _is_exchange(instruction: Instruction) -> bool:
    return instruction.opcode.startswith(_EXCHANGES)


def _ends_exchange(instruction: Instruction) -> bool:
    return _is_exchange(instruction) and instruction.opcode.endswith("-done")


def _reachable(
    computations: dict[str, list[Instruction]], name: str, times: int = 1
) -> Iterator[tuple[Instruction, int]]:
    """Yields the instructions of a computation and those that it runs, and how often they run."""
    for instruction in computations[name]:
        yield instruction, times
        if instruction.opcode in _CONTROL:
            number = times * ((instruction.opcode == "while" and _trip_count(instruction)) or 1)
            for other in _called(instruction, r"body|branch|to_apply"):
                yield from _reachable(computations, other, number)


def _called(instruction: Instruction, kind: str) -> list[str]:
    """Returns the computations that an instruction runs: bodies, branches or functions."""
    kind = kind.replace("branch", r"branch_computations|true_computation|false_computation")
    found = re.findall(rf"\b(?:{kind})=(\{{[^}}]*\}}|[^,\s]+)", instruction.rest)
    return [name.strip(" %") for group in found for name in group.strip("{}").split(",")]


def _trip_count(instruction: Instruction) -> int | None:
    """Returns the number of iterations of a loop; `None` if XLA does not know it."""
    found = re.search(r'"known_trip_count":\{"n":"(\d+)"', instruction.rest)
    return int(found[1]) if found else None
