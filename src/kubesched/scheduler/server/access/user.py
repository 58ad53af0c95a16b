"""The identity of the caller of a request."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["ANONYMOUS", "AUTHENTICATED", "MASTERS", "UNAUTHENTICATED", "CallerIdentity"]

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


class CallerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = CallerIdentity(name="system:anonymous", groups=(UNAUTHENTICATED,))
