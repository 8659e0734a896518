"""A server in a thread of this process, for tests."""

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from dualmctx.commands import play

LIMIT = 20_000
"""The largest number of simulations of the session's server, which take several seconds."""


class Running(NamedTuple):
    """A server in a thread of this process.

    Attributes:
      address: of the page, with a slash at the end.
      context: what its sessions share.
    """

    address: str
    context: Any


def run_server(*checkpoints: str, **options: Any) -> Iterator[Running]:
    """Serves networks on a free port; the first one is the default. The generator ends it.

    Args:
      *checkpoints: the networks.
      **options: fields of `play.Options`.
    """
    for module in ("starlette", "uvicorn", "websockets"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    from dualmctx.web.app import make_app
    from dualmctx.web.security import make_access
    from dualmctx.web.server import listen, make_server

    context = play.make_context(play.Options(checkpoints, **{"seed": 0, **options}))
    started = threading.Event()
    with listen("127.0.0.1", 0) as listening:
        server = make_server(make_app(context, make_access("127.0.0.1", None)), started.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        assert started.wait(60), "the server did not start"
        yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}/", context)
        server.should_exit = True
        thread.join(60)
    context.engines.close(60)
    for executor in (context.quick, context.loading, context.slow):
        executor.shutdown(wait=True, cancel_futures=True)
    assert not thread.is_alive(), "the server did not end"
