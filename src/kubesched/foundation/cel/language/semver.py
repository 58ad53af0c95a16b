"""Semantic versions: read strictly, ordered by precedence."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, ClassVar, Final

import msgspec

from kubesched.foundation.cel.language.cel_errors import EvaluationError

__all__ = ["Semver", "normalized", "parse_semver"]

_DIGITS: Final = re.compile(r"[0-9]*")
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]*")
_MAX: Final = 2**64 - 1


class Semver(msgspec.Struct, frozen=True, eq=False):
    """A version. Build metadata is printed and does not affect comparisons."""

    cel_type: ClassVar[str] = "kubernetes.Semver"
    equals_own_type_only: ClassVar[bool] = True

    major: int
    minor: int
    patch: int
    pre_release: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    # A key that sorts versions: a release sorts after its pre-releases.
    precedence: tuple[Any, ...] = ()

    def compare(self, other: Semver) -> int:
        """-1, 0 or 1."""
        mine, theirs = self.precedence, other.precedence
        return (mine > theirs) - (mine < theirs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.precedence == other.precedence

    def __hash__(self) -> int:
        return hash(self.precedence)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.pre_release:
            text += "-" + ".".join(self.pre_release)
        if self.build:
            text += "+" + ".".join(self.build)
        return text


@lru_cache(maxsize=4096)
def parse_semver(text: str) -> Semver:
    """Read `MAJOR.MINOR.PATCH[-pre][+build]`.

    Raises:
        EvaluationError: the text is not exactly that.
    """
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build = parts[2].partition("+")
    patch_text, dash, pre_release = rest.partition("-")
    patch = _number(patch_text, "patch")
    identifiers = tuple(map(_pre_release, pre_release.split("."))) if dash else ()
    ranks = tuple((0, int(each), "") if each.isdecimal() else (1, 0, each) for each in identifiers)
    return Semver(
        major,
        minor,
        patch,
        identifiers,
        tuple(map(_build, build.split("."))) if plus else (),
        (major, minor, patch, not identifiers, ranks),
    )


def normalized(text: str) -> str:
    """Return a complete version for a short one: `v1.2` and `01.2` become three plain numbers.

    Raises:
        EvaluationError: a short version has a pre-release or build metadata.
    """
    parts = text.removeprefix("v").split(".", 2)
    for position, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            starts_with_digit = stripped[:1].isdecimal() and stripped[:1].isascii()
            parts[position] = stripped if starts_with_digit else "0" + stripped
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _number(text: str, what: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise EvaluationError(f'Invalid character(s) found in {what} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(
            f'{what.capitalize()} number must not contain leading zeroes "{text}"'
        )
    if not text:
        raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > _MAX:
        raise EvaluationError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _pre_release(text: str) -> str:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise EvaluationError(
                f'Numeric PreRelease version must not contain leading zeroes "{text}"'
            )
        if len(text) > 20 or int(text) > _MAX:
            raise EvaluationError(f'strconv.ParseUint: parsing "{text}": value out of range')
    elif not _IDENTIFIER.fullmatch(text):
        raise EvaluationError(f'Invalid character(s) found in prerelease "{text}"')
    return text


def _build(text: str) -> str:
    if not text:
        raise EvaluationError("Build meta data is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise EvaluationError(f'Invalid character(s) found in build meta data "{text}"')
    return text
