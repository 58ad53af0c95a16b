"""Lazy import of OR-Tools, and the deadline of a search."""

from __future__ import annotations

import importlib
from typing import Any

from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import SECOND, Clock

__all__ = ["Deadline", "load_cp_model"]


def load_cp_model() -> Any:
    """Return the module `cp_model` of OR-Tools.

    Raises:
        KubeschedError: OR-Tools is not installed.
    """
    try:
        return importlib.import_module("ortools.sat.python.cp_model")
    except ImportError as error:
        missing = KubeschedError("this needs the package ortools")
        missing.add_note("pip install 'kubesched[plan]'")
        raise missing from error


class Deadline:
    """The moment at which a search must end."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end_ns = clock.monotonic_ns() + round(seconds * SECOND)

    @property
    def left_s(self) -> float:
        return max(0.0, (self._end_ns - self._clock.monotonic_ns()) / SECOND)

    @property
    def has_passed(self) -> bool:
        return self._clock.monotonic_ns() >= self._end_ns

    def part(self, share: float) -> Deadline:
        """Return an earlier deadline, after a share of the time that is left."""
        return Deadline(self._clock, self.left_s * share)
