"""Label selectors, compiled: parsed once, matched often.

docs/reference/05 §4.3, 06 §0.3.

A selector is a conjunction of requirements. Two are special: `NOTHING` (no selector is set)
matches no labels, even with requirements added; `EVERYTHING` (an empty selector) matches all.
Selectors are immutable, and equal if their requirements are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

from kubesched.api.label_query import parse_label_query
from kubesched.api.label_requirements import Requirement
from kubesched.api.merged_requirements import MergedRequirements
from kubesched.api.meta import LabelSelector, LabelSelectorRequirement
from kubesched.api.sized_caches import (
    MOST_WEIGHT,
    CachePerObject,
    TooLargeError,
    weight_of_texts,
)
from kubesched.api.validation import are_label_values, is_label_key, joined
from kubesched.errors import SelectorError

__all__ = ["EVERYTHING", "NOTHING", "Requirement", "Selector"]

# Up to this many requirements are tested one by one: merging them takes longer.
_MAX_UNMERGED: Final = 16
_API_OPERATORS: Final = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}


class Selector:
    """A conjunction of requirements, sorted by key."""

    __slots__ = ("_hash", "_merged", "_pairs", "_rest", "is_nothing", "requirements")

    def __init__(
        self, requirements: Iterable[Requirement] = (), *, is_nothing: bool = False
    ) -> None:
        ordered = tuple(sorted(requirements, key=lambda each: each.key))
        self.requirements: Final = ordered
        self.is_nothing: Final = is_nothing
        self._merged: Final = MergedRequirements(ordered) if len(ordered) > _MAX_UNMERGED else None
        tested = ordered if self._merged is None else ()
        # Most requirements have one value: these are compared without a method call.
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
        """Whether there are no requirements, so that everything matches."""
        return not self.requirements and not self.is_nothing

    @property
    def exact_pairs(self) -> tuple[tuple[str, str], ...]:
        """Keys and values that all matching labels have. There may be more that are not listed."""
        return self._pairs

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

    @property
    def weight(self) -> int:
        """A measure of the memory of the requirements."""
        return sum(weight_of_texts((each.key, *each.values)) for each in self.requirements)

    def add(self, *requirements: Requirement) -> Selector:
        """Return a selector with more requirements; `NOTHING` stays `NOTHING`."""
        if self.is_nothing or not requirements:
            return self
        return Selector((*self.requirements, *requirements))

    @classmethod
    def from_label_selector(cls, selector: LabelSelector | None) -> Selector:
        """Compile an API selector; None is `NOTHING`, an empty one is `EVERYTHING`.

        Raises:
            SelectorError: a key, a value or an operator is invalid.
        """
        if selector is None:
            return NOTHING
        if not selector.match_labels and not selector.match_expressions:
            return EVERYTHING
        large = _large_selectors.get(selector)
        if large is not None:
            return large
        try:
            return _compiled(tuple(selector.match_labels.items()), selector.match_expressions)
        except TooLargeError:
            pass
        large = _compile(selector.match_labels.items(), selector.match_expressions)
        _large_selectors.store(selector, large)
        return large

    @classmethod
    def from_map(cls, labels: Mapping[str, str]) -> Selector:
        """Require every label of a map, without validation.

        An empty map matches everything.
        """
        if not labels:
            return EVERYTHING
        return cls(Requirement(key, "=", (value,)) for key, value in labels.items())

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Parse a query string such as `app=web,tier in (a,b),!canary`.

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


_large_selectors: Final[CachePerObject[LabelSelector, Selector]] = CachePerObject()


@lru_cache(maxsize=4096)
def _compiled(
    labels: tuple[tuple[str, str], ...], expressions: tuple[LabelSelectorRequirement, ...]
) -> Selector:
    weight = sum(map(weight_of_texts, labels))
    weight += sum(weight_of_texts((each.key, *each.values)) for each in expressions)
    if weight > MOST_WEIGHT:
        raise TooLargeError
    return _compile(labels, expressions)


def _compile(
    labels: Collection[tuple[str, str]], expressions: Iterable[LabelSelectorRequirement]
) -> Selector:
    # Tens of thousands of labels are checked together; only invalid ones need a text each.
    are_valid = all(is_label_key(key) for key, _ in labels) and are_label_values(
        tuple(value for _, value in labels)
    )
    make = Requirement if are_valid else Requirement.checked
    requirements = [make(key, "=", (value,)) for key, value in labels]
    for each in expressions:
        operator = _API_OPERATORS.get(each.operator)
        if operator is None:
            raise SelectorError(f'"{each.operator}" is not a valid label selector operator')
        requirements.append(Requirement.checked(each.key, operator, each.values))
    return Selector(requirements)
