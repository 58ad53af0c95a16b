"""Limits of YAML texts, checked before parsing: depth, and values by aliases.

PyYAML's composer recurses in C for every level, so a text of some hundred thousand brackets would
crash the process. An alias repeats a whole value, so ten lines can expand to billions of values.
This module checks both limits with the parser's events, which need no recursion.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

__all__ = ["MOST_REPEATED", "TooManyValuesError", "YamlLimitError", "check_yaml"]

_DEEPEST: Final = 1_000
# The number of values that aliases may add.
MOST_REPEATED: Final = 100_000


class YamlLimitError(yaml.MarkedYAMLError):
    """The text exceeds a limit."""

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(problem=problem, problem_mark=mark)


class TooManyValuesError(YamlLimitError):
    """The text has more values than the caller allows."""


def check_yaml(text: str | bytes, *, most_values: int | None = None) -> None:
    """Check a text against the limits without building values.

    Raises:
        yaml.YAMLError: the text is not YAML, or (YamlLimitError) exceeds a limit.
        TooManyValuesError: the text has more values than the caller allows.
    """
    check = _Check(most_values)
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        check.take(event)


class _Check:
    def __init__(self, most_values: int | None) -> None:
        self._most = most_values
        self._count = 0  # number of values so far, including those that aliases repeat
        self._repeated = 0
        # The anchor of every open collection, and the count at its beginning.
        self._open: list[tuple[str | None, int]] = []
        self._sizes: dict[str, int] = {}  # the sizes of complete values by anchor

    def take(self, event: yaml.Event) -> None:
        if self._most is not None and self._count > self._most:
            raise TooManyValuesError(f"more than {self._most} values", event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self._count))
            self._count += 1
            if event.anchor is not None:
                self._sizes.pop(event.anchor, None)
            if len(self._open) > _DEEPEST:
                raise _refusal(f"exceeded max depth of {_DEEPEST}", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor is not None:
                self._sizes[anchor] = self._count - before
        elif isinstance(event, yaml.ScalarEvent):
            self._count += 1
            if event.anchor is not None:
                self._sizes[event.anchor] = 1
        elif isinstance(event, yaml.AliasEvent):
            self._repeat(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._sizes.clear()

    def _repeat(self, event: yaml.AliasEvent) -> None:
        if any(anchor == event.anchor for anchor, _ in self._open):
            raise _refusal(f"anchor {event.anchor!r} value contains itself", event)
        # The composer reports an undefined anchor.
        size = self._sizes.get(event.anchor or "", 1)
        self._count += size
        self._repeated += size
        if self._repeated > MOST_REPEATED:
            raise _refusal("document contains excessive aliasing", event)


def _refusal(problem: str, event: yaml.Event) -> YamlLimitError:
    return YamlLimitError(problem, event.start_mark)
