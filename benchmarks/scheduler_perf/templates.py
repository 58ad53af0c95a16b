"""Objects from template files, whose text may depend on the number of the object.

The files use these parts of Go's template language: `.Index`, `.Count`, and the functions `Mod`,
`DivideInt` and similar ones with two arguments. Anything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Json", "Template", "TemplateError"]

Json = dict[str, Any]

_ACTION = re.compile(r"{{-?\s*(.*?)\s*-?}}")
_FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "Mod": lambda a, b: a % b,
    "DivideInt": lambda a, b: a // b,
    "AddInt": lambda a, b: a + b,
    "SubtractInt": lambda a, b: a - b,
    "MultiplyInt": lambda a, b: a * b,
}


class TemplateError(ValueError):
    """A template uses a function or a field that is not supported."""


class Template:
    """A file that describes objects. Documents are shared, so callers copy before a change."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._text = file.read_text()
        self._constant = None if _ACTION.search(self._text) else _load(self._text)

    def document(self, index: int, count: int) -> Json:
        """Return the object with this number; `count` is the total."""
        if self._constant is not None:
            return self._constant
        values = {".Index": index, ".Count": count}
        try:
            return _load(_ACTION.sub(lambda action: str(_value(action[1], values)), self._text))
        except TemplateError as error:
            raise TemplateError(f"{self._file.name}: {error}") from None

    @staticmethod
    @cache
    def read(file: Path) -> Template:
        return Template(file)


def _value(action: str, values: Mapping[str, int]) -> int:
    def operand(word: str) -> int:
        if word in values:
            return values[word]
        if word.isdigit():
            return int(word)
        raise TemplateError(f"cannot evaluate {word!r} in {{{{{action}}}}}")

    words = action.split()
    if len(words) == 1:
        return operand(words[0])
    if len(words) == 3 and words[0] in _FUNCTIONS:
        return _FUNCTIONS[words[0]](operand(words[1]), operand(words[2]))
    raise TemplateError(f"cannot evaluate {{{{{action}}}}}")


def _load(text: str) -> Json:
    document: Json = yaml.load(text, Loader=yaml.CSafeLoader)
    return document
