"""Semantic versions: `semver("1.2.3")` and their functions."""

from __future__ import annotations

from typing import Final

from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.declarations import Library, by_size
from kubesched.foundation.cel.language.expression_types import BOOL, INT, STRING, named
from kubesched.foundation.cel.language.semver import Semver, normalized, parse_semver

__all__ = ["SEMVER", "VERSIONS"]

VERSIONS: Final = Library()
SEMVER: Final = named("kubernetes.Semver")


@VERSIONS.function("semver", STRING, result=SEMVER, cost=by_size(0.1))
@VERSIONS.function("semver", STRING, BOOL, result=SEMVER, cost=by_size(0.1))
def _semver(text: str, normalize: bool = False) -> Semver:
    return parse_semver(normalized(text) if normalize else text)


@VERSIONS.function("isSemver", STRING, result=BOOL, cost=by_size(0.1))
@VERSIONS.function("isSemver", STRING, BOOL, result=BOOL, cost=by_size(0.1))
def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except EvaluationError:
        return False
    return True


@VERSIONS.method("major", SEMVER, result=INT)
def _major(version: Semver) -> int:
    return version.major


@VERSIONS.method("minor", SEMVER, result=INT)
def _minor(version: Semver) -> int:
    return version.minor


@VERSIONS.method("patch", SEMVER, result=INT)
def _patch(version: Semver) -> int:
    return version.patch


@VERSIONS.method("isGreaterThan", SEMVER, SEMVER, result=BOOL)
def _is_greater(version: Semver, other: Semver) -> bool:
    return version.compare(other) > 0


@VERSIONS.method("isLessThan", SEMVER, SEMVER, result=BOOL)
def _is_less(version: Semver, other: Semver) -> bool:
    return version.compare(other) < 0


@VERSIONS.method("compareTo", SEMVER, SEMVER, result=INT)
def _compare(version: Semver, other: Semver) -> int:
    return version.compare(other)
