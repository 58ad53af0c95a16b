"""Value types of the scheduler's flags: gates, log levels, certificates, versions."""

from __future__ import annotations

from typing import Final

import msgspec

from kubesched.api.quantity import parse_quantity
from kubesched.foundation.util.flag_values import FlagKind, Previous, parse_bool, parse_uint
from kubesched.foundation.util.go_format import quote
from kubesched.scheduler.config.versions import check_reported_version

__all__ = [
    "CERTIFICATES",
    "FEATURE_GATES",
    "LEVEL",
    "MODULE_LEVELS",
    "NOT_ASKED",
    "PLUGINS",
    "PRINT",
    "PRINT_RAW",
    "QUANTITY",
    "SIZE",
    "VERSION",
    "NamedCertKey",
]

# Special values of `--version`; any other value is a version to report.
NOT_ASKED: Final = "false"
PRINT: Final = "true"
PRINT_RAW: Final = "raw"


class NamedCertKey(msgspec.Struct, frozen=True):
    """The files of a certificate and its key, and their host names."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.cert_file},{self.key_file}{names}"


def _read_gates(text: str, previous: Previous) -> tuple[tuple[str, str], ...]:
    """Return settings with their component, which is empty if none was named."""
    added = []
    for setting in filter(None, text.split(",")):
        component, colon, rest = setting.partition(":")
        added.append((component.strip(), rest.strip()) if colon else ("", component.strip()))
    return (*(previous or ()), *added)


def _show_gates(settings: tuple[tuple[str, str], ...]) -> str:
    by_component = sorted(settings, key=lambda setting: setting[0])
    return ",".join(f"{component}:{setting}" for component, setting in by_component)


def _read_module_levels(text: str, previous: Previous) -> tuple[tuple[str, int], ...]:
    added = []
    for item in filter(None, text.split(",")):
        pattern, _, level = item.partition("=")
        if not pattern or not level or "=" in level:
            raise ValueError(f"{quote(item)} does not have the pattern=N format")
        try:
            added.append((pattern, parse_uint(level, 31)))
        except ValueError as exc:
            raise ValueError(f"parsing verbosity in {quote(item)}: {exc}") from exc
    return (*(previous or ()), *added)


def _show_module_levels(levels: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"{pattern}={level}" for pattern, level in levels)


def _read_certificate(text: str, previous: Previous) -> tuple[NamedCertKey, ...]:
    files, colon, listed = text.partition(":")
    names: tuple[str, ...] = ()
    if colon:
        if not listed.strip():
            raise ValueError("empty names list is not allowed")
        names = tuple(name.strip() for name in listed.strip().split(","))
    parts = files.strip().split(",")
    if len(parts) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    return (*(previous or ()), NamedCertKey(parts[0].strip(), parts[1].strip(), names))


def _read_size(text: str, _: Previous) -> int:
    """Read a number of bytes, such as 512Mi or 1GiB."""
    size = parse_quantity(text.removesuffix("B")).value
    if size <= 0:
        raise ValueError("expected a positive number of bytes, such as 1Gi")
    return size


def _read_version(text: str, _: Previous) -> str:
    if text == PRINT_RAW:
        return PRINT_RAW
    if text.startswith("v"):
        check_reported_version(text)
        return text
    return PRINT if parse_bool(text) else NOT_ASKED


LEVEL: Final = FlagKind("Level", lambda text, _: parse_uint(text, 31))
QUANTITY: Final = FlagKind("quantity", lambda text, _: parse_quantity(text))
SIZE: Final = FlagKind("size", _read_size)
VERSION: Final = FlagKind("version", _read_version, bare=PRINT)
FEATURE_GATES: Final = FlagKind("colonSeparatedMultimapStringString", _read_gates, _show_gates)
MODULE_LEVELS: Final = FlagKind("pattern=N,...", _read_module_levels, _show_module_levels)
CERTIFICATES: Final = FlagKind(
    "namedCertKey", _read_certificate, lambda pairs: f"[{';'.join(map(str, pairs))}]"
)
PLUGINS: Final = FlagKind(
    "plugin",
    lambda text, previous: (*(previous or ()), text),
    lambda plugins: f"[{','.join(plugins)}]",
)
