"""Field problems: the validation errors of single fields.

Texts follow the reference: `FIELD: TYPE: "VALUE": DETAIL`. Checks return problems in order and do
not raise, so a user gets all problems of an object at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from kubesched.foundation.util.go_format import quote

__all__ = [
    "FieldProblem",
    "absent",
    "duplicate",
    "forbidden",
    "immutable",
    "invalid",
    "not_supported",
    "required",
    "too_long",
    "too_many",
]

_TITLES = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotFound": "Not found",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
}


class FieldProblem(NamedTuple):
    """A problem of one field; `reason` is its machine-readable type."""

    field: str
    reason: str
    body: str

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def _show(value: Any) -> str:
    if value is None:
        return '"null"'
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return _json(value, is_sorted=True)


def _json(value: Any, *, is_sorted: bool) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=is_sorted)


def _problem(field: str, reason: str, value: str, detail: str) -> FieldProblem:
    parts = [_TITLES[reason]]
    if value:
        parts.append(value)
    if detail:
        parts.append(detail)
    return FieldProblem(field, reason, ": ".join(parts))


def required(field: str, detail: str = "") -> FieldProblem:
    return _problem(field, "FieldValueRequired", "", detail)


def invalid(field: str, value: Any, detail: str) -> FieldProblem:
    return _problem(field, "FieldValueInvalid", _show(value), detail)


def immutable(field: str, value: Any) -> FieldProblem:
    return invalid(field, value, "field is immutable")


def duplicate(field: str, value: Any, detail: str = "", *, is_sorted: bool = True) -> FieldProblem:
    """Return the problem of a duplicate value.

    `is_sorted` says whether the text shows the keys of an object in sorted order.
    """
    shown = _show(value) if is_sorted else _json(value, is_sorted=False)
    return _problem(field, "FieldValueDuplicate", shown, detail)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldProblem:
    listed = ", ".join(quote(choice) for choice in supported)
    return _problem(field, "FieldValueNotSupported", _show(value), f"supported values: {listed}")


def absent(field: str, value: Any) -> FieldProblem:
    """Return the problem of a value that refers to something that does not exist."""
    return _problem(field, "FieldValueNotFound", _show(value), "")


def forbidden(field: str, detail: str) -> FieldProblem:
    return _problem(field, "FieldValueForbidden", "", detail)


def too_many(field: str, count: int, limit: int) -> FieldProblem:
    items = "item" if limit == 1 else "items"
    detail = f"must have at most {limit} {items}"
    return _problem(field, "FieldValueTooMany", str(count), detail)


def too_long(field: str, limit: int) -> FieldProblem:
    return _problem(field, "FieldValueTooLong", "", f"may not be more than {limit} bytes")
