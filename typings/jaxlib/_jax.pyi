"""The part of jaxlib's extension module that appears in the signatures of jax."""

from typing import Any

class Device:
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
