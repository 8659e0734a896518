"""What the paper says: Table 1 and the claim of convergence, to be read beside our numbers."""

from typing import NamedTuple


class Published(NamedTuple):
    """A row of Table 1 for one game; the paper does not say in which unit time is.

    Attributes:
      step: time a training step.
      steps: training steps to converge, which is when the score of α-rank crosses 0.9.
      total: time to converge.
    """

    step: float
    steps: int
    total: float


SOURCE = (
    "Kadam, Xu, Lieberherr 2021, Dual Monte Carlo Tree Search (arXiv 2103.11517), Table 1; one run "
    "each, the unit of time is not given"
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
    """Returns Dual's number by that of `other`; `field` is one of `Published`."""
    table = TABLE_1[game]
    return getattr(table["dual"], field) / getattr(table[other], field)
