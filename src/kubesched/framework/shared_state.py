"""State that plugins of all profiles of one scheduler share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["SharedState"]

T = TypeVar("T")


class SharedState:
    """Objects by name, each built by the first plugin that reads it.

    A device must not be allocated twice, whichever profile places the pods. State about devices
    therefore exists once for all profiles. To avoid conflicts, names begin with the name of the
    plugin or package.
    """

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        # Whether `get` is building an object.
        self.is_building = False

    def __contains__(self, name: str) -> bool:
        return name in self._objects

    def find(self, name: str) -> Any | None:
        """Return the object of this name, or None if it has not been built."""
        return self._objects.get(name)

    def get(self, name: str, build: Callable[[], T]) -> T:
        """Return the object of this name; `build` makes it on the first call."""
        if name not in self._objects:
            was_building, self.is_building = self.is_building, True
            try:
                self._objects[name] = build()
            finally:
                self.is_building = was_building
        found: T = self._objects[name]
        return found
