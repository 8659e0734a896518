"""Compilations, recorded so that a test can show that there are none."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import jax


@contextlib.contextmanager
def recorded_compilations() -> Iterator[list[str]]:
    """Yields the events of compilations in this thread; checks at the end that some would come."""
    events: list[str] = []
    thread = threading.get_ident()

    def listen(event: str, duration: float, **details: Any) -> None:
        if "compile" in event and threading.get_ident() == thread:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield events
        known = len(events)
        jax.jit(lambda x: x + known)(1.0)
        assert len(events) > known, "the listener receives no events"
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
