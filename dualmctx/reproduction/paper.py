"""Numbers of the paper: Table 1, which the report shows beside ours."""

from typing import NamedTuple


class Published(NamedTuple):
    """An algorithm in one game in Table 1; the paper does not state the unit of time.

    Attributes:
      step: time per training step.
      steps: training steps to converge, that is, until the α-rank score exceeds 0.9.
      total: time to converge.
    """

    step: float
    steps: int
    total: float


SOURCE = (
    "Kadam, Xu, Lieberherr 2021, Dual Monte Carlo Tree Search (arXiv 2103.11517), Table 1; one run "
    "per algorithm, unit of time not stated"
)
TABLE_1: dict[str, dict[str, Published]] = {
    "hsr": {
        "alphazero": Published(9.34, 8, 74.72),
        "mpv": Published(12.38, 7, 86.66),
        "dual": Published(8.37, 8, 66.96),
    },
    "nim": {
        "alphazero": Published(10.71, 7, 74.97),
        "mpv": Published(14.67, 6, 88.02),
        "dual": Published(9.84, 7, 68.88),
    },
    "connect-four": {
        "alphazero": Published(18.71, 13, 243.23),
        "mpv": Published(24.62, 10, 246.20),
        "dual": Published(15.32, 12, 183.84),
    },
}


def published_ratio(game: str, field: str, other: str) -> float:
    """Returns the ratio of a field of `Published` of Dual to that of `other`."""
    table = TABLE_1[game]
    return getattr(table["dual"], field) / getattr(table[other], field)
