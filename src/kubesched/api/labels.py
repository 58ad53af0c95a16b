"""Label selectors, compiled: parsed once, matched often (docs/reference/05 §4.3, 06 §0.3).

A selector is a conjunction of requirements. Two are special: `NOTHING` (no selector given)
matches no labels and stays so whatever is added; `EVERYTHING` (an empty one) matches all.
Selectors are immutable, and equal when their requirements are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from kubesched.api.int64 import MAX_INT64, MIN_INT64
from kubesched.api.label_query import parse_label_query
from kubesched.api.merged_requirements import MergedRequirements, integer_of
from kubesched.api.meta import LabelSelector, LabelSelectorRequirement
from kubesched.api.validation import (
    EMPTY_VALUES,
    invalid,
    joined,
    label_key_errors,
    label_value_errors,
)
from kubesched.errors import SelectorError

__all__ = ["EVERYTHING", "NOTHING", "Requirement", "Selector"]

# So many requirements are tested one by one: merging takes longer than a few tests.
_FEW: Final = 16
_API_OPERATORS: Final = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}


class Requirement:
    """A condition on one label.

    The operators are those of query strings: `in`, `notin`, `=`, `==`, `!=`, `exists`, `!`,
    `gt` and `lt`. Values keep their order; `value_set` is for looking them up.
    """

    __slots__ = ("_hash", "key", "operator", "value_set", "values")

    def __init__(self, key: str, operator: str, values: Iterable[str] = ()) -> None:
        """Take the parts as they are; `checked` looks at them first."""
        self.key: Final = key
        self.operator: Final = operator
        self.values: Final = tuple(values)
        self.value_set: Final = frozenset(self.values)
        self._hash: Final = hash((key, operator, self.values))

    @classmethod
    def checked(
        cls, key: str, operator: str, values: Iterable[str] = (), *, path: str = ""
    ) -> Requirement:
        """Build a requirement that the API would accept.

        Raises:
            SelectorError: with all complaints, each under `path`.
        """
        requirement = cls(key, operator, values)
        if errors := requirement.errors(path):
            raise SelectorError(joined(errors))
        return requirement

    def errors(self, path: str = "") -> list[str]:
        """What the API would say against the requirement, in its words."""
        dot = f"{path}." if path else ""
        errors = []
        if complaints := label_key_errors(self.key):
            errors.append(invalid(f"{dot}key", self.key, "; ".join(complaints)))
        errors += self._value_count_errors(f"{dot}values")
        for index, value in enumerate(self.values):
            if complaints := label_value_errors(value):
                where = f"{dot}values[{index}][{self.key}]"
                errors.append(invalid(where, value, "; ".join(complaints)))
        return errors

    def _value_count_errors(self, path: str) -> list[str]:
        operator, values = self.operator, self.values
        if operator in ("in", "notin") and not values:
            return [invalid(path, values, EMPTY_VALUES)]
        if operator in ("=", "==", "!=") and len(values) != 1:
            return [invalid(path, values, "exact-match compatibility requires one single value")]
        if operator in ("exists", "!") and values:
            detail = "values set must be empty for exists and does not exist"
            return [invalid(path, values, detail)]
        if operator not in ("gt", "lt"):
            return []
        errors = []
        if len(values) != 1:
            detail = "for 'Gt', 'Lt' operators, exactly one value is required"
            errors.append(invalid(path, values, detail))
        for index, value in enumerate(values):
            if integer_of(value) is None:
                detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                errors.append(invalid(f"{path}[{index}]", value, detail))
        return errors

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """Whether the label may have this value; None means it is absent."""
        operator = self.operator
        if operator in ("in", "=", "=="):
            return value in self.value_set
        if operator in ("notin", "!="):
            return value not in self.value_set
        if operator == "exists":
            return value is not None
        if operator == "!":
            return value is None
        if value is None or len(self.values) != 1:
            return False
        have, limit = integer_of(value), integer_of(self.values[0])
        if have is None or limit is None:
            return False
        return have > limit if operator == "gt" else have < limit

    def limits(self) -> tuple[int, int]:
        """The least and the most that a number may be for `gt` and `lt`; none, if they say so."""
        limit = integer_of(self.values[0]) if len(self.values) == 1 else None
        if limit is None:
            return MAX_INT64, MIN_INT64
        return (limit + 1, MAX_INT64) if self.operator == "gt" else (MIN_INT64, limit - 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Requirement):
            return NotImplemented
        return (
            self.key == other.key
            and self.operator == other.operator
            and self.values == other.values
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
        sign = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
        return f"{self.key}{sign}{','.join(self.values)}"

    def __repr__(self) -> str:
        return f"Requirement({str(self)!r})"


class Selector:
    """A conjunction of requirements, ordered by key."""

    __slots__ = ("_hash", "_merged", "_pairs", "_rest", "is_nothing", "requirements")

    def __init__(
        self, requirements: Iterable[Requirement] = (), *, is_nothing: bool = False
    ) -> None:
        ordered = tuple(sorted(requirements, key=lambda each: each.key))
        self.requirements: Final = ordered
        self.is_nothing: Final = is_nothing
        self._merged: Final = MergedRequirements(ordered) if len(ordered) > _FEW else None
        tested = ordered if self._merged is None else ()
        # Most requirements ask for one value: those are compared without a call.
        self._pairs: Final = tuple(
            (each.key, each.values[0])
            for each in tested
            if each.operator in ("in", "=", "==") and len(each.values) == 1
        )
        self._rest: Final = tuple(
            each
            for each in tested
            if each.operator not in ("in", "=", "==") or len(each.values) != 1
        )
        self._hash: Final = hash((is_nothing, ordered))

    @property
    def is_empty(self) -> bool:
        """Whether there is no condition at all, so that everything matches."""
        return not self.requirements and not self.is_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.is_nothing:
            return False
        for key, value in self._pairs:
            if labels.get(key) != value:
                return False
        for each in self._rest:
            if not each.matches_value(labels.get(each.key)):
                return False
        return self._merged is None or self._merged.matches(labels)

    def add(self, *requirements: Requirement) -> Selector:
        """A selector with more conditions; `NOTHING` stays what it is."""
        if self.is_nothing or not requirements:
            return self
        return Selector((*self.requirements, *requirements))

    @classmethod
    def from_label_selector(cls, selector: LabelSelector | None) -> Selector:
        """Compile an API selector. None is `NOTHING`, an empty one is `EVERYTHING`.

        Raises:
            SelectorError: a key, a value or an operator is not valid.
        """
        if selector is None:
            return NOTHING
        if not selector.match_labels and not selector.match_expressions:
            return EVERYTHING
        return _compiled(tuple(selector.match_labels.items()), selector.match_expressions)

    @classmethod
    def from_map(cls, labels: Mapping[str, str]) -> Selector:
        """Ask for every label of a map, unchecked; an empty map asks for nothing at all."""
        if not labels:
            return EVERYTHING
        return cls(Requirement(key, "=", (value,)) for key, value in labels.items())

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read a query string such as `app=web,tier in (a,b),!canary`.

        Raises:
            SelectorError: with a real API server's message.
        """
        parsed = parse_label_query(text)
        if not parsed:
            return EVERYTHING
        requirements = []
        for key, operator, values in parsed:
            requirement = Requirement(key, operator, values)
            if errors := requirement.errors():
                raise SelectorError(f"unable to parse requirement: {joined(errors)}")
            requirements.append(requirement)
        return cls(requirements)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selector):
            return NotImplemented
        return self is other or (
            self._hash == other._hash
            and self.is_nothing == other.is_nothing
            and self.requirements == other.requirements
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "NOTHING" if self.is_nothing else f"Selector({str(self)!r})"


NOTHING: Final = Selector(is_nothing=True)
EVERYTHING: Final = Selector()


@lru_cache(maxsize=4096)
def _compiled(
    labels: tuple[tuple[str, str], ...], expressions: tuple[LabelSelectorRequirement, ...]
) -> Selector:
    requirements = [Requirement.checked(key, "=", (value,)) for key, value in labels]
    for each in expressions:
        operator = _API_OPERATORS.get(each.operator)
        if operator is None:
            raise SelectorError(f'"{each.operator}" is not a valid label selector operator')
        requirements.append(Requirement.checked(each.key, operator, each.values))
    return Selector(requirements)
