"""Settings for all tests. JAX reads them when it is imported."""

import gc
import importlib.metadata
import os
import pathlib
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from browser import chromium  # noqa: F401, a fixture

# On a GPU, sums have another order and the exact comparisons with mctx fail.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# Compiling is most of a test's time, and half of it goes into machine code that hardly runs. The
# older way to fuse takes half as long too; newer XLA has no other, and no such flag.
_XLA_FLAGS = ["--xla_backend_optimization_level=0"]
if importlib.metadata.version("jaxlib").startswith("0.10."):
    _XLA_FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(_XLA_FLAGS))

# Programs of the other worker or of an earlier run. A damaged entry (from a run killed while
# writing) costs one compilation and no failure.
_CACHE = pathlib.Path(__file__).parents[1] / ".cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

# The processes that tests start compile no Python again. Some containers turn this off.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell ignores Ctrl-C in commands that it starts in the background, and tests raise it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, and no failure on a busy machine.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--no-skips`, for machines that have all that the tests need."""
    parser.addoption("--no-skips", action="store_true", help="fail if a test is skipped")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With `--no-skips`, fails if a test was skipped; the summary names it and the reason."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped") if reporter else None
    if skipped and session.config.getoption("--no-skips") and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_finish() -> None:
    """Makes garbage collection rare; otherwise it takes about a tenth of the time of the tests."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture
def unpredicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the prediction of memory compile nothing; tests/models/test_memory.py checks it."""
    # Imported here, because JAX reads the settings above.
    from untrained import predict_nothing

    predict_nothing(monkeypatch.setattr)


# Linux gives a process 65,530 memory maps.
_MANY_MAPS = 30_000


@pytest.fixture(scope="module", autouse=True)
def programs_are_dropped() -> Iterator[None]:
    """Drops what the tests have compiled, once that is much.

    Each program takes some memory maps; the whole suite needs more than there are, and then XLA
    crashes. Dropping them after each file would compile small operations over and over.
    """
    yield
    maps = pathlib.Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MANY_MAPS:
        # Imported here, because JAX reads the settings above.
        import jax

        jax.clear_caches()
        gc.collect()
