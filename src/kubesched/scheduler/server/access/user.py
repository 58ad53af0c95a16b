"""Who asks: a name with groups, and what else the one who vouches for it said."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["ANONYMOUS", "AUTHENTICATED", "MASTERS", "UNAUTHENTICATED", "User"]

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


class User(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = User(name="system:anonymous", groups=(UNAUTHENTICATED,))
