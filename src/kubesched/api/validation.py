"""The syntax of label keys and values, with the error texts of a real API server.

Each check returns the errors; an empty tuple means that the value is valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from kubesched.api.sized_caches import cached_unless, is_long

__all__ = [
    "EMPTY_VALUES",
    "are_label_values",
    "dns_subdomain_errors",
    "invalid",
    "is_label_key",
    "joined",
    "label_key_errors",
    "label_value_errors",
    "not_supported",
]

EMPTY_VALUES: Final = "for 'in', 'notin' operators, values set can't be empty"

_MAX_NAME: Final = 63
_MAX_SUBDOMAIN: Final = 253

_NAME_PATTERN: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME: Final = re.compile(_NAME_PATTERN, re.ASCII)
# Values joined with NUL, which no valid value contains.
_VALUE_IN_LIST: Final = "(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_VALUES: Final = re.compile(f"{_VALUE_IN_LIST}(?:\0{_VALUE_IN_LIST})*+", re.ASCII)
_SUBDOMAIN_PATTERN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_PATTERN, re.ASCII)

_EMPTY: Final = "must be non-empty"
_NAME_SYNTAX: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_NAME_PATTERN}')"
)
_KEY_SYNTAX: Final = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
    f"used for validation is '{_NAME_PATTERN}') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_VALUE_SYNTAX: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
    "'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?"
    "[A-Za-z0-9])?')"
)
_SUBDOMAIN_SYNTAX: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN_PATTERN}')"
)


def is_label_key(key: str) -> bool:
    """Whether a key is valid: a name with an optional `domain/` before it."""
    prefix, slash, name = key.rpartition("/")
    return (
        len(name) <= _MAX_NAME
        and _NAME.fullmatch(name) is not None
        and (not slash or (len(prefix) <= _MAX_SUBDOMAIN and bool(_SUBDOMAIN.fullmatch(prefix))))
    )


@cached_unless(is_long, 4096)
def label_key_errors(key: str) -> tuple[str, ...]:
    """Return the errors of a label key: a name with an optional `domain/` before it."""
    parts = key.split("/")
    if len(parts) > 2:
        return (_KEY_SYNTAX,)
    errors: list[str] = []
    if len(parts) == 2:
        prefix = parts[0]
        complaints = dns_subdomain_errors(prefix) if prefix else (_EMPTY,)
        errors += (f"prefix part {each}" for each in complaints)
    name = parts[-1]
    if not name:
        errors.append(f"name part {_EMPTY}")
    elif _length(name) > _MAX_NAME:
        errors.append(f"name part {_too_long(_MAX_NAME)}")
    if not _NAME.fullmatch(name):
        errors.append(f"name part {_NAME_SYNTAX}")
    return tuple(errors)


@cached_unless(is_long, 4096)
def label_value_errors(value: str) -> tuple[str, ...]:
    """Return the errors of a label value, which may be empty."""
    errors = []
    if _length(value) > _MAX_NAME:
        errors.append(_too_long(_MAX_NAME))
    if value and not _NAME.fullmatch(value):
        errors.append(_VALUE_SYNTAX)
    return tuple(errors)


def are_label_values(values: Sequence[str]) -> bool:
    """Whether all are valid label values. A selector can have 100,000 of them."""
    text = "\0".join(values)
    return text.count("\0") == len(values) - 1 and _VALUES.fullmatch(text) is not None


def dns_subdomain_errors(name: str) -> tuple[str, ...]:
    """Return the errors of a lower-case DNS name such as `example.com`."""
    errors = []
    if _length(name) > _MAX_SUBDOMAIN:
        errors.append(_too_long(_MAX_SUBDOMAIN))
    if not _SUBDOMAIN.fullmatch(name):
        errors.append(_SUBDOMAIN_SYNTAX)
    return tuple(errors)


def invalid(path: str, value: str | Sequence[str], detail: str) -> str:
    """Return the text for a field with an invalid value."""
    return f"{path}: Invalid value: {_format_value(value)}: {detail}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    """Return the text for a field whose value is not among the supported ones."""
    names = ", ".join(f'"{each}"' for each in supported)
    return f"{path}: Unsupported value: {_format_value(value)}: supported values: {names}"


def joined(errors: Iterable[str]) -> str:
    """Join errors: each distinct text once, in brackets if there are several."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _format_value(value: str | Sequence[str]) -> str:
    if not isinstance(value, str) and not value:
        return "null"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _too_long(most: int) -> str:
    return f"must be no more than {most} bytes"
