"""Pod specs that many pods share, with cached results of functions on them.

Many pods have equal specs. Pods whose specs have the same JSON share one dictionary, and
`compute_once` evaluates a function only once per shared spec. A shared spec is immutable. A
changed spec is a new dictionary (`{**spec, …}`) without cached results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from msgspec import Struct
from msgspec.json import Encoder, decode

__all__ = ["SharedSpec", "compute_once", "share_spec"]

V = TypeVar("V")

_MOST_CACHED = 1024
# Larger specs are rare. They are not cached, because the cache outlives their pods.
_LARGEST_CACHED = 8 * 1024  # bytes of JSON
_encode = Encoder().encode
_SAME: Any = object()


class SharedSpec(dict[str, Any]):
    """An immutable spec that pods share. Copies of it are ordinary dictionaries."""

    __slots__ = ("results",)

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        # The results of functions on this spec; see `compute_once`.
        self.results: dict[Callable[[Any], Any], Any] = {}

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the spec is shared by many pods: change a copy of it")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def share_spec(spec: dict[str, Any] | Struct) -> SharedSpec:
    """Return the shared form of a spec, given as JSON or as a struct.

    Raises:
        TypeError, ValueError, RecursionError: the spec cannot be encoded as JSON.
    """
    if type(spec) is SharedSpec:
        return spec
    encoded = _encode(spec)
    return _cached(encoded) if len(encoded) <= _LARGEST_CACHED else SharedSpec(decode(encoded))


def compute_once(work: Callable[[dict[str, Any]], V], spec: dict[str, Any]) -> V:
    """Return `work(spec)`. The result is cached if the spec is shared."""
    if type(spec) is not SharedSpec:
        return work(spec)
    found: Any = spec.results.get(work)
    if found is None:
        found = work(spec)
        # A spec that referred to itself would be a reference cycle.
        spec.results[work] = _SAME if found is spec else found
    if found is _SAME:
        found = spec
    result: V = found
    return result


@lru_cache(maxsize=_MOST_CACHED)
def _cached(spec: bytes) -> SharedSpec:
    return SharedSpec(decode(spec))
