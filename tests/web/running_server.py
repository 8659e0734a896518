"""Servers in a thread of this process, for tests."""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from dualmctx.commands import play

LIMIT = 20_000
"""The largest number of simulations of the shared servers."""


class Running(NamedTuple):
    """A server in a thread of this process.

    Attributes:
      address: of the page, with a slash at the end.
      context: what its sessions share.
    """

    address: str
    context: Any


@contextlib.contextmanager
def serve_context(context: Any) -> Iterator[str]:
    """Serves a context on a free port; yields the address of the page."""
    for module in ("starlette", "uvicorn", "websockets"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    from dualmctx.web import server as web_server
    from dualmctx.web.server import listen, make_access, make_app, make_server

    web_server.MAX_SILENT_SECONDS = 60.0  # on a busy machine, clients are slow
    started = threading.Event()
    with listen("127.0.0.1", 0) as listening:
        server = make_server(make_app(context, make_access("127.0.0.1", None)), started.set)
        server.config.ws_ping_interval = None  # for the same reason
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        assert started.wait(60), "the server did not start"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        server.should_exit = True
        thread.join(60)
    assert not thread.is_alive(), "the server did not end"


@contextlib.contextmanager
def run_server(*checkpoints: str, is_fake: bool = False, **options: Any) -> Iterator[Running]:
    """Serves networks; the first one is the default.

    Args:
      *checkpoints: the networks.
      is_fake: whether their searches are made up, see `fake_network`.
      **options: fields of `play.Options`.
    """
    from dualmctx.web import descriptions
    from dualmctx.web.networks import Engines
    from fake_network import FakeNetwork

    descriptions.SECONDS = 60.0  # to solve a game on a busy machine
    chosen = play.Options(checkpoints, **{"seed": 0, "max_simulations": LIMIT, **options})
    context = play.make_context(chosen)

    def load(name: str) -> Any:
        network = play.load_network(chosen, name)
        return FakeNetwork(network.trained, network.build, 0)

    if is_fake:
        loaders = {row.name: functools.partial(load, row.name) for row in context.offered}
        context = context._replace(
            engines=Engines(loaders, play.engine_options(chosen), chosen.max_networks)
        )
    with serve_context(context) as address:
        yield Running(address, context)
    context.engines.close(60)
    for executor in (context.quick, context.loading, context.slow):
        executor.shutdown(wait=True, cancel_futures=True)
