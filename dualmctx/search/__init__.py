"""The search engine: trees, selection, expansion and backup, batched and jit-compiled.

It depends on JAX, NumPy, chex and mctx only. The public modules are those that a new variant or a
new selection rule uses.
"""

__all__ = (
    "arrays",
    "backend",
    "climb",
    "expand",
    "keys",
    "mctx_adapter",
    "node",
    "phases",
    "select",
    "slots",
    "spec",
    "subtree",
    "tree",
)
