"""Types of mctx's records, as far as the package uses them; mctx has no type information."""

from dataclasses import dataclass
from typing import Any, Self

from jax import Array

@dataclass(frozen=True)
class RootFnOutput:
    prior_logits: Array
    value: Array
    embedding: Any
    def replace(self, **changes: Any) -> Self: ...

@dataclass(frozen=True)
class RecurrentFnOutput:
    reward: Array
    discount: Array
    prior_logits: Array
    value: Array
    def replace(self, **changes: Any) -> Self: ...

@dataclass(frozen=True)
class PolicyOutput:
    action: Array
    action_weights: Array
    search_tree: Any
    def replace(self, **changes: Any) -> Self: ...

def __getattr__(name: str) -> Any: ...
