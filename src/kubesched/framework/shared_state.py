"""What plugins of all profiles of one scheduler keep together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["SharedState"]

T = TypeVar("T")


class SharedState:
    """Objects by name, each built by the first plugin that asks for it.

    A device must not be given twice, whichever profile places the pods: so what is known of
    devices exists once. Names are those of plugins or packages, to keep out of each other's way.
    """

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._objects

    def find(self, name: str) -> Any | None:
        """The object of this name, if somebody asked for it before."""
        return self._objects.get(name)

    def get(self, name: str, build: Callable[[], T]) -> T:
        """The object of this name; `build` makes it if nobody asked before."""
        if name not in self._objects:
            self._objects[name] = build()
        found: T = self._objects[name]
        return found
