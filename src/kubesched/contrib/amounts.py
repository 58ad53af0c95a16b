"""Convert amounts of resources to quantities: exact ones for objects, rounded ones for display."""

from __future__ import annotations

from typing import Final

from kubesched.api import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepage_resource_name

__all__ = ["as_quantity", "shown"]

_UNITS: Final = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def as_quantity(name: str, amount: int) -> str:
    """Return the exact quantity of an integer amount; amounts of cpu are in thousandths."""
    if name == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if name in (MEMORY, EPHEMERAL_STORAGE) or is_hugepage_resource_name(name):
        for unit, suffix in _UNITS:
            if amount and not amount % unit:
                return f"{amount // unit}{suffix}"
    return str(amount)


def shown(name: str, amount: int) -> str:
    """Return a quantity for display: bytes are rounded to a tenth of a unit."""
    if name in (MEMORY, EPHEMERAL_STORAGE) or is_hugepage_resource_name(name):
        for unit, suffix in _UNITS:
            if abs(amount) >= unit:
                return f"{amount / unit:.1f}".removesuffix(".0") + suffix
    return as_quantity(name, amount)
