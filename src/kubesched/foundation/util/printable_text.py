"""Text without control characters, for a terminal."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Return the text with every control character but a tab as an escape, such as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\t" else _escaped(each) for each in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
