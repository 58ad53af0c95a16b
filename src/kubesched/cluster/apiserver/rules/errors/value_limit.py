"""The limit for the number of values in an object, checked before the object is decoded.

A byte limit alone does not bound the cost of a request: three mebibytes can contain a million
empty lists, and a dozen rules process each of them. The largest objects in practice have about
ten thousand values.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.errors.api_errors import too_large, too_many_values

__all__ = ["LARGEST_OBJECT", "MOST_VALUES", "check_object", "check_values", "value_refusal"]

# Counts numbers, strings, lists and maps.
MOST_VALUES: Final = 100_000
LARGEST_OBJECT: Final = 3 * 1024 * 1024

# An unterminated string matches to the end of the text, so the search takes linear time.
_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def check_values(text: bytes) -> None:
    """Check the number of values in a JSON text.

    Raises:
        ApiError: 413.
    """
    if len(text) <= 2 * MOST_VALUES or _bound(text) <= MOST_VALUES:
        return  # nearly always
    if _bound(_STRINGS.sub(b"", text)) > MOST_VALUES:
        raise value_refusal()


def check_object(document: Any) -> None:
    """Check the size of an object that a patch may have made larger.

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
    """Return an upper bound for the number of values in a JSON text.

    There is one value per comma, and one more for each list or map that is not empty.
    """
    opened = text.count(b"[") + text.count(b"{") - text.count(b"[]") - text.count(b"{}")
    return text.count(b",") + opened + 1
