"""Words that explanations share: lists, plurals, similar names, amounts, taints, requirements."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from kubesched.api import NodeSelectorRequirement, Pod, Taint
from kubesched.api.quantity import Format, Quantity
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY

__all__ = [
    "as_quantity",
    "listed",
    "nearest",
    "plural",
    "pod_name",
    "shown_amount",
    "shown_requirement",
    "shown_taint",
]

_SHOWN: Final = 3
_SIMILARITY: Final = 0.6
_UNITS: Final = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))
_BYTES: Final = (MEMORY, EPHEMERAL_STORAGE)


def pod_name(pod: Pod) -> str:
    """Namespace and name."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def listed(names: Iterable[str], most: int = _SHOWN) -> str:
    """The first names, and how many more there are."""
    every = list(names)
    shown = ", ".join(every[:most])
    return f"{shown} and {len(every) - most} more" if len(every) > most else shown


def plural(count: int, noun: str) -> str:
    """The number and the noun; an s is added unless the number is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def nearest(wanted: str, known: Sequence[str]) -> str:
    """Return the known name that is most similar to a mistyped one; empty if none is similar."""
    folded = {each.lower(): each for each in known}
    if wanted.lower() in folded:
        return folded[wanted.lower()]
    found = difflib.get_close_matches(wanted, known, n=1, cutoff=_SIMILARITY)
    return found[0] if found else ""


def shown_amount(resource: str, amount: int) -> str:
    """A scheduler's amount for people: with a unit, and at most three digits after the point."""
    if resource == CPU:
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    if resource in _BYTES or resource.startswith("hugepages-"):
        for size, unit in _UNITS:
            if abs(amount) >= size:
                return f"{amount / size:.2f}".rstrip("0").rstrip(".") + unit
    return str(amount)


def as_quantity(resource: str, amount: int) -> str:
    """A scheduler's amount for manifests: exact."""
    if resource == CPU:
        return str(Quantity.from_milli(amount))
    if resource in _BYTES or resource.startswith("hugepages-"):
        return str(Quantity.from_value(amount, Format.BINARY_SI))
    return str(amount)


def shown_taint(taint: Taint) -> str:
    """A taint as kubectl writes it: `key=value:effect`."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def shown_requirement(requirement: NodeSelectorRequirement) -> str:
    """Return a requirement on one line, such as `disk In [ssd, nvme]`."""
    values = ", ".join(requirement.values)
    if requirement.operator in ("Exists", "DoesNotExist"):
        return f"{requirement.key} {requirement.operator}"
    return f"{requirement.key} {requirement.operator} [{values}]"
