"""The comparison of a recorded step with the result of kubesched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["ABSENT", "Difference", "FamilyCount", "Step", "compare", "count"]

ABSENT = "(absent)"


class Difference(NamedTuple):
    """One field: the recorded value, and the value of kubesched."""

    field: str
    expected: Any
    got: Any


class Step(NamedTuple):
    """One recorded answer, compared.

    `needs` names missing features without which the whole answer cannot be computed. The rest of
    the answer is still compared.
    """

    family: str
    scenario: str
    label: str
    differences: tuple[Difference, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def is_identical(self) -> bool:
        return not self.differences and not self.needs


class FamilyCount(NamedTuple):
    """How many steps of a family are identical, differ (and where), or need more."""

    family: str
    steps: int
    identical: int
    differing: int
    fields: Mapping[str, int]
    waiting: int  # nothing differs, but something is not built yet
    needs: Mapping[str, int]


def compare(expected: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return the fields in which two answers differ, in the order of the expected one."""
    fields = [*expected, *(field for field in got if field not in expected)]
    return tuple(
        Difference(field, expected.get(field, ABSENT), got.get(field, ABSENT))
        for field in fields
        if expected.get(field, ABSENT) != got.get(field, ABSENT)
    )


def count(steps: Iterable[Step]) -> list[FamilyCount]:
    """Counts per family, in the order in which the families appear."""
    by_family: dict[str, list[Step]] = {}
    for step in steps:
        by_family.setdefault(step.family, []).append(step)
    return [_count_family(family, found) for family, found in by_family.items()]


def _count_family(family: str, steps: list[Step]) -> FamilyCount:
    fields: Counter[str] = Counter()
    needs: Counter[str] = Counter()
    for step in steps:
        fields.update({difference.field for difference in step.differences})
        needs.update(set(step.needs))
    return FamilyCount(
        family=family,
        steps=len(steps),
        identical=sum(step.is_identical for step in steps),
        differing=sum(bool(step.differences) for step in steps),
        fields=dict(fields.most_common()),
        waiting=sum(bool(step.needs) and not step.differences for step in steps),
        needs=dict(needs.most_common()),
    )
