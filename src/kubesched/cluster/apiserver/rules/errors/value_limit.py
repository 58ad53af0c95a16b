"""How many values an object may have, counted without building any of them.

A byte limit alone does not bound what a request costs: three mebibytes hold a million empty lists,
and each is looked at by a dozen rules. The largest objects in use have some ten thousand values.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.errors.api_errors import too_large, too_many_values

__all__ = ["LARGEST_OBJECT", "MOST_VALUES", "check_object", "check_values", "value_refusal"]

# Numbers, texts, lists and maps, all together.
MOST_VALUES: Final = 100_000
LARGEST_OBJECT: Final = 3 * 1024 * 1024

# A string without its end reaches to the end of the text: nothing is looked at twice.
_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def check_values(text: bytes) -> None:
    """Look at a JSON text before anybody reads it, or at an object before it is stored.

    Raises:
        ApiError: 413.
    """
    if len(text) <= 2 * MOST_VALUES or _bound(text) <= MOST_VALUES:
        return  # nearly always
    if _bound(_STRINGS.sub(b"", text)) > MOST_VALUES:
        raise value_refusal()


def check_object(document: Any) -> None:
    """Look at an object that grew on the server, by a patch.

    Raises:
        ApiError: 413.
    """
    encoded = msgspec.json.encode(document)
    if len(encoded) > LARGEST_OBJECT:
        raise too_large(LARGEST_OBJECT)
    check_values(encoded)


def value_refusal() -> ApiError:
    return too_many_values(MOST_VALUES)


def _bound(text: bytes) -> int:
    """No text has more: one per separator, and one for the first in each list or map."""
    begun = text.count(b"[") + text.count(b"{") - text.count(b"[]") - text.count(b"{}")
    return text.count(b",") + begun + 1
