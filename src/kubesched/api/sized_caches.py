"""Caches of values that are computed from parts of objects, bounded by size.

A user who may create pods can put a megabyte into one selector, label set or text. A cache that
only counts entries would keep thousands of such parts long after their pods were deleted. So large
parts are cached for the lifetime of the object that has them, or not at all.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection
from typing import Any, Final, Generic, TypeVar

__all__ = [
    "LONGEST_TEXT",
    "MOST_WEIGHT",
    "CachePerObject",
    "TooLargeError",
    "cached_unless",
    "is_long",
    "weight_of_texts",
]

A = TypeVar("A")
K = TypeVar("K")
V = TypeVar("V")

# Longer texts are not cached by themselves. The longest valid name has 317 characters.
LONGEST_TEXT: Final = 400
# Selectors and label sets of a larger weight are not cached by themselves.
MOST_WEIGHT: Final = 1024
_WEIGHT_OF_TEXT: Final = 16


def weight_of_texts(texts: Collection[str]) -> int:
    """Return a measure of the memory of some texts."""
    return _WEIGHT_OF_TEXT * len(texts) + sum(map(len, texts))


def is_long(text: object) -> bool:
    """Whether a value of a field is a text too long to be cached."""
    return isinstance(text, str) and len(text) > LONGEST_TEXT


class TooLargeError(Exception):
    """Raised within a cached function, so that the cache stores nothing."""


def cached_unless(
    is_large: Callable[[Any], bool], most_entries: int
) -> Callable[[Callable[[A], V]], Callable[[A], V]]:
    """Cache the results of a function, except those of large arguments.

    The size is only computed on a miss, so a hit costs hardly more than with `lru_cache`.
    """

    def decorate(function: Callable[[A], V]) -> Callable[[A], V]:
        @functools.lru_cache(maxsize=most_entries)
        def cached(argument: Any) -> V:
            if is_large(argument):
                raise TooLargeError
            return function(argument)

        @functools.wraps(function)
        def call(argument: A) -> V:
            try:
                return cached(argument)
            except TooLargeError:
                pass
            return function(argument)

        return call

    return decorate


class CachePerObject(Generic[K, V]):
    """Values by the identity of an object. A value is dropped with its object.

    The type of the objects must support weak references. A value must not refer to its object.
    """

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[int, tuple[weakref.ref[K], V]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, owner: K) -> V | None:
        found = self._values.get(id(owner))
        return None if found is None else found[1]

    def store(self, owner: K, value: V) -> None:
        values, key = self._values, id(owner)
        # The entry is removed before another object can get the same id.
        values[key] = (weakref.ref(owner, lambda _: values.pop(key, None)), value)
