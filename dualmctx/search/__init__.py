"""The search engine: trees, selection, expansion and backup, batched and jit-compiled.

It depends on jax, chex and mctx only. The public modules are those that a new variant or a new
selection rule uses.
"""

# pyright: reportUnsupportedDunderAll=false
__all__ = (
    "arrays",
    "climb",
    "keys",
    "mctx_adapter",
    "mctx_rules",
    "node",
    "phases",
    "principal_variation",
    "select",
    "simulate",
    "slots",
    "statistics",
    "stats",
    "subtree",
    "tree",
)
