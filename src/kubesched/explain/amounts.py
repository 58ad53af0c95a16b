"""Amounts as people write them: `3500m` is `3.5` CPUs, bytes are `Gi`."""

from __future__ import annotations

from kubesched.api.quantity import Format, Quantity
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY

__all__ = ["as_quantity", "shown_amount"]

_UNITS = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))
_BYTES = (MEMORY, EPHEMERAL_STORAGE)


def shown_amount(resource: str, amount: int) -> str:
    """An amount as a scheduler counts it, for a person: at most three digits after the point."""
    if resource == CPU:
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    if resource in _BYTES or resource.startswith("hugepages-"):
        for size, unit in _UNITS:
            if abs(amount) >= size:
                return f"{amount / size:.2f}".rstrip("0").rstrip(".") + unit
    return str(amount)


def as_quantity(resource: str, amount: int) -> str:
    """The same amount exactly, for a manifest."""
    if resource == CPU:
        return str(Quantity.from_milli(amount))
    if resource in _BYTES or resource.startswith("hugepages-"):
        return str(Quantity.from_value(amount, Format.BINARY_SI))
    return str(amount)
