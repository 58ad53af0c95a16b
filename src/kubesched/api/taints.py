"""Taints of nodes and tolerations of pods (docs/reference/05 §4.2, §9.1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from kubesched.api.affinity import Toleration
from kubesched.api.node import Taint

__all__ = [
    "NO_EXECUTE",
    "NO_SCHEDULE",
    "PREFER_NO_SCHEDULE",
    "UNSCHEDULABLE_TAINT",
    "first_untolerated",
    "is_tolerated",
    "tolerates",
    "tolerates_unschedulable",
]

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"

_REJECTING: Final = frozenset((NO_SCHEDULE, NO_EXECUTE))

# The taint that a cordon counts as, whether or not the node has it.
UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether a toleration matches a taint.

    `comparison_operators` is the gate TaintTolerationComparisonOperators: without it, `Lt`
    and `Gt` match nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator in ("", "Equal"):
        return toleration.value == taint.value
    if operator == "Exists":
        return True
    if comparison_operators and operator in ("Lt", "Gt"):
        limit, value = _integer(toleration.value), _integer(taint.value)
        if limit is None or value is None:
            return False
        return value < limit if operator == "Lt" else value > limit
    return False


def is_tolerated(
    taint: Taint, tolerations: Iterable[Toleration], *, comparison_operators: bool = False
) -> bool:
    """Whether one of the tolerations matches the taint."""
    return any(
        tolerates(each, taint, comparison_operators=comparison_operators) for each in tolerations
    )


def first_untolerated(
    taints: Iterable[Taint],
    tolerations: Collection[Toleration],
    *,
    effects: Collection[str] = _REJECTING,
    comparison_operators: bool = False,
) -> Taint | None:
    """Return the first taint with one of the effects that no toleration matches."""
    for taint in taints:
        if taint.effect in effects and not is_tolerated(
            taint, tolerations, comparison_operators=comparison_operators
        ):
            return taint
    return None


def tolerates_unschedulable(
    tolerations: Iterable[Toleration], *, comparison_operators: bool = False
) -> bool:
    """Whether a pod with these tolerations fits a cordoned node."""
    return is_tolerated(UNSCHEDULABLE_TAINT, tolerations, comparison_operators=comparison_operators)


def _integer(text: str) -> int | None:
    """Parse a plain decimal that fits 64 bits: no plus, no leading zeros, no `-0`."""
    if not _INTEGER.fullmatch(text) or len(text) > 20:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
