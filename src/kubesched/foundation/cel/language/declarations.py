"""Declarations of an environment: functions with their overloads, and the costs of calls.

A library is a table of overloads. Each has parameter types and a result type, the Python function
that computes it, and a cost: a number, or a function of the arguments and the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, TypeVar

import msgspec

from kubesched.foundation.cel.language.cel_values import Value
from kubesched.foundation.cel.language.expression_types import Type

__all__ = ["Cost", "Library", "Overload", "by_result", "by_size", "merge", "size_or_one"]

_Call = TypeVar("_Call", bound=Callable[..., Value])
Cost: TypeAlias = int | Callable[[tuple[Value, ...], Value], int]


class Overload(msgspec.Struct, frozen=True, eq=False):
    """One signature of a function."""

    function: str
    parameters: tuple[Type, ...]
    result: Type
    call: Callable[..., Value]
    member: bool
    cost: Cost
    # Whether the error for other arguments lists their types; for standard functions, no.
    names_types: bool


class Library:
    """A named set of functions."""

    def __init__(self, *, standard: bool = False) -> None:
        self.overloads: dict[str, list[Overload]] = {}
        self._standard = standard

    def function(
        self, name: str, *parameters: Type, result: Type, cost: Cost = 1
    ) -> Callable[[_Call], _Call]:
        """Declare `name(…)`: a decorator for what computes it."""
        return self._declare(name, parameters, result, cost, member=False)

    def method(
        self, name: str, *parameters: Type, result: Type, cost: Cost = 1
    ) -> Callable[[_Call], _Call]:
        """Declare `x.name(…)`; the first parameter is x."""
        return self._declare(name, parameters, result, cost, member=True)

    def _declare(
        self, name: str, parameters: tuple[Type, ...], result: Type, cost: Cost, *, member: bool
    ) -> Callable[[_Call], _Call]:
        def register(call: _Call) -> _Call:
            self.overloads.setdefault(name, []).append(
                Overload(name, parameters, result, call, member, cost, not self._standard)
            )
            return call

        return register


def merge(libraries: Iterable[Library]) -> dict[str, tuple[Overload, ...]]:
    """All functions of some libraries, by name."""
    merged: dict[str, list[Overload]] = {}
    for library in libraries:
        for name, overloads in library.overloads.items():
            merged.setdefault(name, []).extend(overloads)
    return {name: tuple(overloads) for name, overloads in merged.items()}


_SIZED: Final = (str, bytes, list, tuple, dict)


def size_or_one(value: Value) -> int:
    """The size of a value for its cost; 1 for a value without a size."""
    return len(value) if isinstance(value, _SIZED) else 1


def by_size(factor: float, argument: int = 0) -> Cost:
    """Return a cost function proportional to the size of one argument."""

    def cost(arguments: tuple[Value, ...], _result: Value) -> int:
        return math.ceil(size_or_one(arguments[argument]) * factor)

    return cost


def by_result(factor: float) -> Cost:
    """A cost in proportion to the size of the result."""

    def cost(_arguments: tuple[Value, ...], result: Value) -> int:
        return math.ceil(size_or_one(result) * factor)

    return cost
