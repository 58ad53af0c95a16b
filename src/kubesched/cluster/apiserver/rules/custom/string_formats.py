"""The string formats of schemas. Unknown formats are not checked."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from typing import Final

from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.conversions import parse_duration, parse_timestamp
from kubesched.foundation.cel.library.urls import parse_url

__all__ = ["has_format"]

_EMAIL: Final = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_HOSTNAME: Final = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_MAC: Final = re.compile(r"(?i)([0-9a-f]{2}[:-]){5}[0-9a-f]{2}")


def has_format(text: str, name: str) -> bool:
    """Whether a string has a format. True for unknown formats."""
    check = _CHECKS.get(name)
    return check is None or check(text)


def _parses(parse: Callable[[str], object], *errors: type[Exception]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except errors:
            return False
        return True

    return check


def _decode(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _date(text: str) -> object:
    return parse_timestamp(f"{text}T00:00:00Z")


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "date": _parses(_date, EvaluationError),
    "date-time": _parses(parse_timestamp, EvaluationError),
    "datetime": _parses(parse_timestamp, EvaluationError),
    "duration": _parses(parse_duration, EvaluationError),
    "byte": _parses(_decode, binascii.Error, ValueError),
    "uri": _parses(parse_url, EvaluationError),
    "ipv4": _parses(ipaddress.IPv4Address, ValueError),
    "ipv6": _parses(ipaddress.IPv6Address, ValueError),
    "cidr": _parses(ipaddress.ip_interface, ValueError),
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": lambda text: _HOSTNAME.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
}
