"""Fixtures of the tests of the web application."""

from collections.abc import Iterator

import pytest
from running_server import Running, run_server


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    """Serves tic-tac-toe and Connect2, which compile fast; tic-tac-toe is the default."""
    yield from run_server("tic-tac-toe", "connect2")
