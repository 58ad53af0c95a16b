"""Checks of an out-of-tree plugin's arguments beyond their types, with paths of the file.

An `args_type` is a msgspec struct: it may have members that must be given, ranges, patterns and a
`__post_init__`. msgspec reports the first violation with a path of its own. This module
reports all of them with paths of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

__all__ = ["unmet_demands"]

_PLACE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_TOP: Final = re.compile(r"[^.\[]*")


def unmet_demands(
    build: Callable[[Mapping[str, Any]], object],
    given: Mapping[str, Any],
    unread: Iterable[str] = (),
) -> list[tuple[str, str]]:
    """Paths and texts of all that keeps `build` from taking these members, as far as it tells.

    A member that was complained about is left out, and the rest is tried again. What stands at
    the paths `unread` was complained about before, and is not among the members.
    """
    unmet: list[tuple[str, str]] = []
    left = dict(given)
    gone = {_member(path) for path in unread}
    while True:
        try:
            build(left)
            return unmet
        except msgspec.ValidationError as exc:
            path, text = _in_words_of_a_file(str(exc))
        member = _member(path)
        if member in gone:
            return unmet
        unmet.append((path, text))
        if member not in left:
            return unmet
        del left[member]
        gone.add(member)


def _member(path: str) -> str:
    """The first part of a path."""
    top = _TOP.match(path)
    return "" if top is None else top[0]


def _in_words_of_a_file(text: str) -> tuple[str, str]:
    """The path of a complaint, and the complaint with the path before it."""
    found = _PLACE.fullmatch(text)
    what, path = (text, "") if found is None else (found["what"], found["path"] or "")
    if missing := _MISSING.fullmatch(what):
        path = ".".join(part for part in (path, missing["field"]) if part)
        return path, f"{path}: must be given"
    return path, f"{path}: {what[:1].lower()}{what[1:]}" if path else what
