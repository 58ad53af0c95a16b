"""Conversion of quantities to canonical text, the form that the server stores."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kubesched.api.quantity import quantity_from_json

__all__ = ["canonical_amounts"]


@lru_cache(maxsize=65536)
def _text(raw: str | int | float) -> str:
    return str(quantity_from_json(raw))


def canonical_amounts(amounts: dict[str, Any]) -> dict[str, Any]:
    """Convert amounts to canonical text.

    Raises:
        QuantityError: a text is not a quantity.
    """
    if all(_text(raw) == raw for raw in amounts.values()):
        return amounts
    return {name: _text(raw) for name, raw in amounts.items()}
