"""Types of the parts of chex that the package uses; chex's own cannot be checked strictly."""

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from jax import Array as Array

_T = TypeVar("_T")

@dataclass_transform(kw_only_default=True)
def dataclass(*, frozen: bool = False) -> Callable[[type[_T]], type[_T]]: ...
def assert_shape(inputs: Any, expected_shapes: Any) -> None: ...
def __getattr__(name: str) -> Any: ...
