"""Many label requirements, merged so that a match takes time proportional to the labels only.

A query string can have thousands of requirements, and is tested against every object of a kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubesched.api.int64 import MAX_INT64, MIN_INT64
from kubesched.api.label_requirements import Requirement, integer_of

__all__ = ["MergedRequirements"]


class MergedRequirements:
    """A conjunction of valid requirements, merged by key."""

    __slots__ = ("_absent", "_allowed", "_between", "_forbidden", "_present")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        allowed: dict[str, frozenset[str]] = {}
        forbidden: dict[str, set[str]] = {}
        between: dict[str, tuple[int, int]] = {}
        present: set[str] = set()
        absent: set[str] = set()
        for each in requirements:
            key = each.key
            match each.operator:
                case "in" | "=" | "==":
                    before = allowed.get(key)
                    allowed[key] = each.value_set if before is None else before & each.value_set
                    present.add(key)
                case "notin" | "!=":
                    forbidden.setdefault(key, set()).update(each.value_set)
                case "exists":
                    present.add(key)
                case "!":
                    absent.add(key)
                case _:
                    least, most = between.get(key, (MIN_INT64, MAX_INT64))
                    low, high = each.limits()
                    between[key] = max(least, low), min(most, high)
                    present.add(key)
        self._allowed: Final = allowed
        self._forbidden: Final = forbidden
        self._between: Final = between
        self._present: Final = present
        self._absent: Final = absent

    def matches(self, labels: Mapping[str, str]) -> bool:
        if len(labels) < len(self._present) or not self._absent.isdisjoint(labels):
            return False
        # At most one more test than there are labels: a missing key ends the loop.
        if not all(key in labels for key in self._present):
            return False
        return (
            all(value not in self._forbidden.get(key, ()) for key, value in labels.items())
            and all(labels[key] in values for key, values in self._allowed.items())
            and all(self._is_between(key, labels[key]) for key in self._between)
        )

    def _is_between(self, key: str, value: str) -> bool:
        number = integer_of(value)
        least, most = self._between[key]
        return number is not None and least <= number <= most
