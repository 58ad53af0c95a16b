"""Typed access to a mapping of a user's file, with the path of each member for errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, TypeVar

from kubesched.api.quantity import parse_milli_value, parse_value
from kubesched.errors import QuantityError
from kubesched.sim.values import (
    Distribution,
    ScenarioError,
    parse_distribution,
    parse_duration_ns,
)

__all__ = ["Members", "parse_cpu_milli", "parse_memory_bytes"]

T = TypeVar("T")

_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "a mapping", bool: "a boolean"}

_UNQUOTED = " (quote y, n, yes, no, on and off: they are booleans in YAML)"


class Members:
    """A mapping whose members are read by type; `done` reports the members that were not read."""

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise ScenarioError(path, f"must be a mapping, not {value!r}")
        self.path = path
        self._value = value
        self._taken: set[str] = set()

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def raw(self, name: str, default: Any = None) -> Any:
        """Return a member without checking its type."""
        self._taken.add(name)
        value = self._value.get(name)
        return default if value is None else value

    def has(self, name: str) -> bool:
        return self._value.get(name) is not None

    def take(self, name: str, kind: type[T], default: T | None = None) -> T:
        """Return a member of this type; without a default it is required."""
        value = self.raw(name, default)
        if value is None:
            raise ScenarioError(self.at(name), "is missing")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            hint = _UNQUOTED if kind is str and isinstance(value, bool) else ""
            raise ScenarioError(self.at(name), f"must be {_NAMES[kind]}, not {value!r}{hint}")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.raw(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
            raise ScenarioError(self.at(name), f"must be a number from 0 on, not {value!r}")
        return float(value)

    def duration_ns(self, name: str, default: str | None = None) -> int:
        value = self.raw(name, default)
        if value is None:
            raise ScenarioError(self.at(name), "is missing")
        return parse_duration_ns(value, self.at(name))

    def distribution(self, name: str, parse: Any = parse_duration_ns) -> Distribution | None:
        value = self.raw(name)
        return None if value is None else parse_distribution(value, self.at(name), parse)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings; a single string stands for a list of one."""
        value = self.raw(name, [])
        listed = value if isinstance(value, list) else [value]
        for number, each in enumerate(listed):
            if not isinstance(each, str):
                raise ScenarioError(
                    f"{self.at(name)}[{number}]",
                    f"must be text, not {each!r}{_UNQUOTED * isinstance(each, bool)}",
                )
        return tuple(listed)

    def each(self, name: str) -> Iterator[Members]:
        """Yield the mappings of a list."""
        for number, value in enumerate(self.take(name, list, [])):
            yield Members(value, f"{self.at(name)}[{number}]")

    def members(self, name: str) -> Members:
        """Return a nested mapping, empty if it is absent."""
        return Members(self.raw(name, {}), self.at(name))

    def done(self) -> None:
        """Check that every member has been read.

        Raises:
            ScenarioError: the file has an unknown field.
        """
        for name in self._value:
            if name not in self._taken:
                near = difflib.get_close_matches(str(name), self._taken, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ScenarioError(self.at(str(name)), f"unknown field{hint}")


def parse_cpu_milli(value: Any) -> int:
    """Parse an amount of CPU, in milli.

    Raises:
        ScenarioError: the value is not a quantity.
    """
    return _quantity(value, parse_milli_value)


def parse_memory_bytes(value: Any) -> int:
    return _quantity(value, parse_value)


def _quantity(value: Any, parse: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ScenarioError("", f"{value!r} is not a quantity such as 500m or 2Gi")
    try:
        amount: int = parse(str(value) if isinstance(value, float) else value)
    except QuantityError as error:
        raise ScenarioError("", f"{value!r} is no quantity: {error}") from error
    if amount < 0:
        raise ScenarioError("", f"{value!r} is below zero")
    return amount
