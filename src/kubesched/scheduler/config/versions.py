"""The version of this program, and the earlier releases that it can emulate.

docs/reference/01 §11.2. `--emulated-version` and `--min-compatibility-version` name a minor
release, optionally with the component (`kube=1.35`). Parsing and validation are separate, so that
all errors can be reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import quote

__all__ = [
    "BINARY_VERSION",
    "COMPONENT",
    "DEFAULT_EFFECTIVE_VERSION",
    "KUBERNETES_VERSION",
    "EffectiveVersion",
    "MinorVersion",
    "Version",
    "check_reported_version",
    "effective_version",
    "parse_semantic_version",
]

KUBERNETES_VERSION: Final = "v1.36.4"
COMPONENT: Final = "kube"

_NUMBERS: Final = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.ASCII)
_EXTRA: Final = re.compile(
    r"(-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?\s*",
    re.ASCII,
)


class MinorVersion(NamedTuple):
    """A minor release, such as 1.36."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def before(self) -> MinorVersion:
        """The minor release before the given one."""
        return MinorVersion(self.major, max(self.minor - 1, 0))


BINARY_VERSION: Final = MinorVersion(1, 36)
_FLOOR: Final = MinorVersion(1, 33)


class Version(NamedTuple):
    """A parsed version: its numbers, and the rest of its text."""

    numbers: tuple[int, ...]
    extra: str = ""

    def __str__(self) -> str:
        return ".".join(map(str, self.numbers)) + self.extra

    @property
    def patch(self) -> int:
        return self.numbers[2] if len(self.numbers) > 2 else 0

    @property
    def minor_version(self) -> MinorVersion:
        return MinorVersion(*self.numbers[:2])


class EffectiveVersion(NamedTuple):
    """The emulated release, and the oldest compatible one."""

    emulation: MinorVersion = BINARY_VERSION
    min_compatibility: MinorVersion = BINARY_VERSION.before()

    def problems(self) -> Iterator[str]:
        """Return the versions that are out of range."""
        if not _FLOOR <= self.emulation <= BINARY_VERSION:
            yield (
                f"emulation version {self.emulation} is not between [{_FLOOR}, {BINARY_VERSION}.0]"
            )
        if not _FLOOR <= self.min_compatibility <= self.emulation:
            yield (
                f"minCompatibilityVersion version {self.min_compatibility} is not between "
                f"[{_FLOOR}, {self.emulation}]"
            )


DEFAULT_EFFECTIVE_VERSION: Final = EffectiveVersion()


def effective_version(
    emulated: Sequence[str], min_compatibility: Sequence[str]
) -> EffectiveVersion:
    """Combine the values of the two flags; both are optional."""
    emulation = _of_component(emulated)
    if emulation is None:
        version = DEFAULT_EFFECTIVE_VERSION
    else:
        version = EffectiveVersion(emulation, max(emulation.before(), _FLOOR))
    oldest = _of_component(min_compatibility)
    return version if oldest is None else version._replace(min_compatibility=oldest)


def check_reported_version(text: str) -> None:
    """Refuse a `--version=vX.Y.Z…` that differs from this program's in more than its suffix."""
    if text == KUBERNETES_VERSION:
        return
    own = parse_semantic_version(KUBERNETES_VERSION)
    if parse_semantic_version(text).numbers != own.numbers:
        raise ConfigError(
            f"version {quote(text)} must match major/minor/patch of default version "
            f"{quote(KUBERNETES_VERSION)}"
        )


def _of_component(values: Sequence[str]) -> MinorVersion | None:
    versions: dict[str, Version] = {}
    for value in values:
        left, equals, right = value.partition("=")
        component, text = (left.strip(), right.strip()) if equals else (COMPONENT, value)
        version = _parse_version(text)
        if version.patch:
            raise ConfigError(f"patch version not allowed, got: {component}={version}")
        if component in versions:
            raise ConfigError(
                f"duplicate version flag, {component}={versions[component]} and "
                f"{component}={version}"
            )
        versions[component] = version
    for component in versions:
        if component != COMPONENT:
            raise ConfigError(f"component not registered: {component}")
    return versions[COMPONENT].minor_version if versions else None


def _parse_version(text: str) -> Version:
    """Read a semantic version, or just numbers with anything after them."""
    try:
        return parse_semantic_version(text)
    except ConfigError:
        numbers, _ = _split(text)
        if len(numbers) < 2:
            raise ConfigError(f"illegal version string {quote(text)}") from None
        return Version(_integers(numbers[:1], text) + tuple(map(int, numbers[1:])))


def parse_semantic_version(text: str) -> Version:
    """Read three numbers, and perhaps a pre-release and build metadata."""
    numbers, extra = _split(text)
    if len(numbers) != 3:
        raise ConfigError(f"illegal version string {quote(text)}")
    parsed = _integers(numbers, text)
    if not _EXTRA.fullmatch(extra):
        raise ConfigError(
            f"could not parse pre-release/metadata ({extra}) in version {quote(text)}"
        )
    return Version(parsed, extra.strip())


def _split(text: str) -> tuple[list[str], str]:
    parts = _NUMBERS.fullmatch(text)
    if parts is None:
        raise ConfigError(f"could not parse {quote(text)} as version")
    numbers = parts[1].split(".")
    for number in numbers:
        if len(number) > 19:
            raise ConfigError(
                f"illegal non-numeric version component {quote(number)} in {quote(text)}: "
                f"strconv.ParseUint: parsing {quote(number)}: value out of range"
            )
    return numbers, parts[2]


def _integers(numbers: Sequence[str], text: str) -> tuple[int, ...]:
    for number in numbers:
        if number.startswith("0") and number != "0":
            raise ConfigError(
                f"illegal zero-prefixed version component {quote(number)} in {quote(text)}"
            )
    return tuple(map(int, numbers))
