"""Syntax checks of names, label keys, label values and ports.

Every check takes a value and returns the reference's error texts; none if it is valid.
"""

from __future__ import annotations

import re

from kubesched.api.validation import (
    dns_subdomain_errors,
    label_key_errors,
    label_value_errors,
)

__all__ = [
    "config_map_key",
    "dns_1035_label",
    "dns_label",
    "dns_subdomain",
    "label_value",
    "path_segment",
    "port_name",
    "port_number",
    "qualified_name",
]

dns_subdomain = dns_subdomain_errors
# Label keys, taint keys, gates, finalizers: `[prefix/]name`.
qualified_name = label_key_errors
label_value = label_value_errors

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_RE = re.compile(_LABEL)
_LABEL_1035_RE = re.compile(_LABEL_1035)
_LABEL_LENGTH = 63

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    f"used for validation is '{_LABEL}')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
    f"'abc-123', regex used for validation is '{_LABEL_1035}')"
)

_KEY_LENGTH = 253
_KEY = "[-._a-zA-Z0-9]+"
_KEY_RE = re.compile(_KEY)
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    f"'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY}')"
)


def _at_most(length: int) -> str:
    return f"must be no more than {length} bytes"


def config_map_key(value: str) -> tuple[str, ...]:
    """Check a key of a ConfigMap, or a name with the same rule."""
    problems = []
    if len(value) > _KEY_LENGTH:
        problems.append(f"must be no more than {_KEY_LENGTH} characters")
    if not _KEY_RE.fullmatch(value):
        problems.append(_KEY_TEXT)
    elif value == ".":
        problems.append("must not be '.'")
    elif value.startswith(".."):
        problems.append("must not be '..'" if value == ".." else "must not start with '..'")
    return tuple(problems)


def dns_label(value: str) -> tuple[str, ...]:
    problems = []
    if len(value) > _LABEL_LENGTH:
        problems.append(_at_most(_LABEL_LENGTH))
    if not _LABEL_RE.fullmatch(value):
        dotted = "." in value and not dns_subdomain(value)
        problems.append("must not contain dots" if dotted else _LABEL_TEXT)
    return tuple(problems)


def dns_1035_label(value: str) -> tuple[str, ...]:
    problems = []
    if len(value) > _LABEL_LENGTH:
        problems.append(_at_most(_LABEL_LENGTH))
    if not _LABEL_1035_RE.fullmatch(value):
        problems.append(_LABEL_1035_TEXT)
    return tuple(problems)


def port_number(value: int | None) -> tuple[str, ...]:
    return () if 1 <= (value or 0) <= 65535 else ("must be between 1 and 65535, inclusive",)


def port_name(value: str) -> tuple[str, ...]:
    problems = []
    if len(value) > 15:
        problems.append(_at_most(15))
    if not re.fullmatch("[-a-z0-9]+", value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value and (value[0] == "-" or value[-1] == "-"):
        problems.append("must not begin or end with a hyphen")
    return tuple(problems)


def path_segment(name: str) -> tuple[str, ...]:
    """Check a name that only must be a valid URL segment, such as `system:node`."""
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{sign}'" for sign in "/%" if sign in name)
