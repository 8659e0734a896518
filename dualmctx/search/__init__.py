"""The search engine: trees, selection, expansion and backup, batched and jit-compiled.

It needs jax, chex and mctx only. The public modules are those that a new variant or a new selection
rule uses.
"""

# pyright: reportUnsupportedDunderAll=false
__all__ = (
    "arrays",  # pyright: ignore[reportUnsupportedDunderAll]
    "climb",  # pyright: ignore[reportUnsupportedDunderAll]
    "keys",  # pyright: ignore[reportUnsupportedDunderAll]
    "mctx_adapter",  # pyright: ignore[reportUnsupportedDunderAll]
    "mctx_export",  # pyright: ignore[reportUnsupportedDunderAll]
    "mctx_rules",  # pyright: ignore[reportUnsupportedDunderAll]
    "select",  # pyright: ignore[reportUnsupportedDunderAll]
    "simulate",  # pyright: ignore[reportUnsupportedDunderAll]
    "slots",  # pyright: ignore[reportUnsupportedDunderAll]
    "statistics",  # pyright: ignore[reportUnsupportedDunderAll]
    "stats",  # pyright: ignore[reportUnsupportedDunderAll]
    "subtree",  # pyright: ignore[reportUnsupportedDunderAll]
    "tree",  # pyright: ignore[reportUnsupportedDunderAll]
)
