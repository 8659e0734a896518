"""Fixtures of the tests of the web application."""

from collections.abc import Iterator

import pytest

from running_server import LIMIT, Running, run_server


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    """Serves tic-tac-toe and Connect2, which compile fast; tic-tac-toe is the default.

    An analysis without a maximum takes several seconds, so that tests can look at it as it runs.
    """
    yield from run_server("tic-tac-toe", "connect2", max_simulations=LIMIT)
