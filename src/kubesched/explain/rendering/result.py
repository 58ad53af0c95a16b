"""The base class of all results."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Result"]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A value that can be printed, shown in a notebook, and turned into plain data."""

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
