"""Specs that many pods have in common, and what has been worked out about each.

Pods come in numbers with one and the same spec. A spec is known by its JSON: pods whose JSON is
equal hold one and the same dictionary, and what requests ask about it is worked out once (`once`).
The dictionary cannot be changed, and whoever wants another spec makes one (`{**spec, …}`), which
then knows nothing of what was worked out about the first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from msgspec import Struct
from msgspec.json import Encoder, decode

__all__ = ["SharedSpec", "once", "shared"]

V = TypeVar("V")

_SPECS_KEPT = 1024
# Larger ones are few, and must not be kept by the thousand when their pods are gone.
_LARGEST_KEPT = 8 * 1024  # bytes of JSON
_encode = Encoder().encode
_SAME: Any = object()


class SharedSpec(dict[str, Any]):
    """A spec that is shared, and so never changed. Copies of it are ordinary dictionaries."""

    __slots__ = ("results",)

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__(spec)
        # What functions made of the spec; see `once`.
        self.results: dict[Callable[[Any], Any], Any] = {}

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the spec is shared by many pods: change a copy of it")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def shared(spec: dict[str, Any] | Struct) -> SharedSpec:
    """The shared form of a spec, or of the JSON of its struct.

    Raises:
        TypeError, ValueError, RecursionError: it cannot be written as JSON.
    """
    if type(spec) is SharedSpec:
        return spec
    written = _encode(spec)
    return _known(written) if len(written) <= _LARGEST_KEPT else SharedSpec(decode(written))


def once(work: Callable[[dict[str, Any]], V], spec: dict[str, Any]) -> V:
    """What a function makes of a spec. Of one that is shared it is worked out only once."""
    if type(spec) is not SharedSpec:
        return work(spec)
    found: Any = spec.results.get(work)
    if found is None:
        found = work(spec)
        # A spec that led back to itself would be left to the garbage collector.
        spec.results[work] = _SAME if found is spec else found
    if found is _SAME:
        found = spec
    result: V = found
    return result


@lru_cache(maxsize=_SPECS_KEPT)
def _known(spec: bytes) -> SharedSpec:
    return SharedSpec(decode(spec))
