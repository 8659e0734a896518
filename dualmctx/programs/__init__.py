"""Programs of others that play games: clients of the Go Text Protocol and of UCI."""

from dualmctx.programs.engine import Engine
from dualmctx.programs.gtp import GtpEngine
from dualmctx.programs.pool import EnginePool
from dualmctx.programs.uci import UciEngine

__all__ = ("Engine", "EnginePool", "GtpEngine", "UciEngine", "engine", "gtp", "pool", "uci")
