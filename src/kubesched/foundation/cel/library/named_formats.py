"""Named formats of Kubernetes: `format.dns1123Label().validate(name)`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import ClassVar, Final

import msgspec

from kubesched.api.validation import dns_subdomain_errors, label_key_errors, label_value_errors
from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.cel_values import NONE, OptionalValue, Value
from kubesched.foundation.cel.language.conversions import parse_timestamp
from kubesched.foundation.cel.language.declarations import Library
from kubesched.foundation.cel.language.expression_types import STRING, list_of, named, optional_of
from kubesched.foundation.cel.library.urls import parse_url

__all__ = ["FORMATS"]

FORMATS: Final = Library()
FORMAT: Final = named("kubernetes.NamedFormat")

_LABEL_1123: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PORT_NAME: Final = re.compile(r"[-a-z0-9]+")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_MAX_LABEL: Final = 63
_TOO_LONG: Final = f"must be no more than {_MAX_LABEL} bytes"
_WRONG_1123: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_WRONG_1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


class NamedFormat(msgspec.Struct, frozen=True, eq=False):
    """A format as a value of the language."""

    cel_type: ClassVar[str] = "kubernetes.NamedFormat"
    equals_own_type_only: ClassVar[bool] = True

    name: str
    errors: Callable[[str], Sequence[str]]
    pattern_size: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedFormat) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _label_errors(pattern: re.Pattern[str], words: str) -> Callable[[str], Sequence[str]]:
    def errors(text: str) -> Sequence[str]:
        found = [_TOO_LONG] if len(text) > _MAX_LABEL else []
        return found if pattern.fullmatch(text) else [*found, words]

    return errors


def _prefix(errors: Callable[[str], Sequence[str]]) -> Callable[[str], Sequence[str]]:
    """The same for what a name may begin with: a dash at its end is fine."""
    return lambda text: errors(text[:-1] + "a" if len(text) > 1 and text[-1] == "-" else text)


def _port_name_errors(text: str) -> Sequence[str]:
    errors: list[str] = []
    if len(text) > 15:
        errors.append("must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(text):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        errors.append("must contain at least one letter (a-z)")
    if "--" in text:
        errors.append("must not contain consecutive hyphens")
    if text[:1] == "-" or text[-1:] == "-":
        errors.append("must not begin or end with a hyphen")
    return errors


def _uri_errors(text: str) -> Sequence[str]:
    try:
        parse_url(text)
    except EvaluationError as error:
        return [str(error).removeprefix("URL parse error during conversion from string: ")]
    return ()


def _byte_errors(text: str) -> Sequence[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return () if text else ["invalid base64"]


def _date_errors(text: str) -> Sequence[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return () if len(text) == 10 else ["invalid date"]


def _datetime_errors(text: str) -> Sequence[str]:
    try:
        parse_timestamp(text)
    except EvaluationError:
        return ["invalid datetime"]
    return ()


_label_1123_errors: Final = _label_errors(_LABEL_1123, _WRONG_1123)
_label_1035_errors: Final = _label_errors(_LABEL_1035, _WRONG_1035)
_NAMED: Final = {
    "dns1123Label": NamedFormat("DNS1123Label", _label_1123_errors, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", dns_subdomain_errors, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _label_1035_errors, 30),
    "qualifiedName": NamedFormat("QualifiedName", label_key_errors, 60),
    "portName": NamedFormat("PortName", _port_name_errors, 20),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_label_1123_errors), 30),
    "dns1123SubdomainPrefix": NamedFormat(
        "DNS1123SubdomainPrefix", _prefix(dns_subdomain_errors), 60
    ),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(_label_1035_errors), 30),
    "labelValue": NamedFormat("LabelValue", label_value_errors, 40),
    "uri": NamedFormat("URI", _uri_errors, 800),
    "uuid": NamedFormat(
        "uuid",
        lambda text: () if _UUID.fullmatch(text) else ("does not match the UUID format",),
        80,
    ),
    "byte": NamedFormat("byte", _byte_errors, 80),
    "date": NamedFormat("date", _date_errors, 80),
    "datetime": NamedFormat("datetime", _datetime_errors, 80),
}


def _declare(name: str, value: NamedFormat) -> None:
    @FORMATS.function(f"format.{name}", result=FORMAT)
    def _constant() -> NamedFormat:
        return value


for _name, _value in _NAMED.items():
    _declare(_name, _value)


@FORMATS.function("format.named", STRING, result=optional_of(FORMAT))
def _by_name(name: str) -> OptionalValue:
    return OptionalValue(_NAMED[name]) if name in _NAMED else NONE


def _cost(arguments: tuple[Value, ...], _result: Value) -> int:
    chosen: NamedFormat = arguments[0]
    text: str = arguments[1]
    return -(-(1 + len(text)) // 10) * -(-chosen.pattern_size // 4)


@FORMATS.method("validate", FORMAT, STRING, result=optional_of(list_of(STRING)), cost=_cost)
def _validate(chosen: NamedFormat, text: str) -> OptionalValue:
    errors = chosen.errors(text)
    return OptionalValue(list(errors)) if errors else NONE
