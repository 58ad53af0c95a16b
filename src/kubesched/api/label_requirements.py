"""One requirement on a label, the unit of selectors.

docs/reference/05 §4.3, 06 §0.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from kubesched.api.int64 import MAX_INT64, MIN_INT64
from kubesched.api.validation import (
    EMPTY_VALUES,
    are_label_values,
    invalid,
    joined,
    label_key_errors,
    label_value_errors,
)
from kubesched.errors import SelectorError

__all__ = ["Requirement", "integer_of"]

# More errors than this would not fit any message.
_MOST_ERRORS: Final = 100
# More values are first checked all at once.
_FEW: Final = 16
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Requirement:
    """A requirement on one label.

    The operators are those of query strings: `in`, `notin`, `=`, `==`, `!=`, `exists`, `!`, `gt`
    and `lt`. `values` are in the given order; `value_set` is for lookups.
    """

    __slots__ = ("_hash", "key", "operator", "value_set", "values")

    def __init__(self, key: str, operator: str, values: Iterable[str] = ()) -> None:
        """Store the parts without validation; use `checked` to validate them."""
        self.key: Final = key
        self.operator: Final = operator
        self.values: Final = tuple(values)
        self.value_set: Final = frozenset(self.values)
        self._hash: Final = hash((key, operator, self.values))

    @classmethod
    def checked(
        cls, key: str, operator: str, values: Iterable[str] = (), *, path: str = ""
    ) -> Requirement:
        """Create a requirement that the API would accept.

        Raises:
            SelectorError: the text has all errors, each with its path below `path`.
        """
        requirement = cls(key, operator, values)
        if errors := requirement.errors(path):
            raise SelectorError(joined(errors))
        return requirement

    def errors(self, path: str = "") -> list[str]:
        """Return the errors that the API would report for the requirement."""
        dot = f"{path}." if path else ""
        errors = []
        if complaints := label_key_errors(self.key):
            errors.append(invalid(f"{dot}key", self.key, "; ".join(complaints)))
        errors += self._value_count_errors(f"{dot}values")
        if len(self.values) > _FEW and are_label_values(self.values):
            return errors
        for index, value in enumerate(self.values):
            if complaints := label_value_errors(value):
                where = f"{dot}values[{index}][{self.key}]"
                errors.append(invalid(where, value, "; ".join(complaints)))
                if len(errors) >= _MOST_ERRORS:
                    break
        return errors

    def _value_count_errors(self, path: str) -> list[str]:
        operator, values = self.operator, self.values
        if operator in ("in", "notin") and not values:
            return [invalid(path, values, EMPTY_VALUES)]
        if operator in ("=", "==", "!=") and len(values) != 1:
            return [invalid(path, values, "exact-match compatibility requires one single value")]
        if operator in ("exists", "!") and values:
            detail = "values set must be empty for exists and does not exist"
            return [invalid(path, values, detail)]
        if operator not in ("gt", "lt"):
            return []
        errors = []
        if len(values) != 1:
            detail = "for 'Gt', 'Lt' operators, exactly one value is required"
            errors.append(invalid(path, values, detail))
        for index, value in enumerate(values):
            if integer_of(value) is None:
                detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                errors.append(invalid(f"{path}[{index}]", value, detail))
        return errors

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """Whether a label with this value matches; None means that the label is absent."""
        operator = self.operator
        if operator in ("in", "=", "=="):
            return value in self.value_set
        if operator in ("notin", "!="):
            return value not in self.value_set
        if operator == "exists":
            return value is not None
        if operator == "!":
            return value is None
        if value is None or len(self.values) != 1:
            return False
        have, limit = integer_of(value), integer_of(self.values[0])
        if have is None or limit is None:
            return False
        return have > limit if operator == "gt" else have < limit

    def limits(self) -> tuple[int, int]:
        """Return the inclusive bounds of `gt` or `lt`.

        An empty range if the limit is invalid.
        """
        limit = integer_of(self.values[0]) if len(self.values) == 1 else None
        if limit is None:
            return MAX_INT64, MIN_INT64
        return (limit + 1, MAX_INT64) if self.operator == "gt" else (MIN_INT64, limit - 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Requirement):
            return NotImplemented
        return (
            self.key == other.key
            and self.operator == other.operator
            and self.values == other.values
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
        sign = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
        return f"{self.key}{sign}{','.join(self.values)}"

    def __repr__(self) -> str:
        return f"Requirement({str(self)!r})"


def integer_of(text: str) -> int | None:
    """Parse a base-10 number that fits 64 bits, or return None."""
    if not _INTEGER.fullmatch(text) or len(text) > 4000:
        return None
    number = int(text)
    return number if MIN_INT64 <= number <= MAX_INT64 else None
