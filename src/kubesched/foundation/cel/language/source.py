"""An expression's text, and errors that point into it."""

from __future__ import annotations

from typing import Final

from kubesched.foundation.cel.language.cel_errors import CelCompileError

__all__ = ["Source"]

# Limits the output: many errors in one long line would otherwise take gigabytes.
_MOST_PROBLEMS: Final = 100
_LONGEST_LINE: Final = 16_384
# Below characters that are not ASCII, which are as wide as two in many fonts.
_WIDE_DOT: Final = "\uff0e"
_WIDE_CARET: Final = "\uff3e"
_TAB: Final = "\t"


class Source:
    """The text of an expression, and its errors."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._problems: list[tuple[int, str]] = []  # with the offset of each
        self._untold = 0

    def report(self, position: int, message: str) -> None:
        """Record an error at an offset of the text; -1 is an error of the text as a whole."""
        if len(self._problems) >= _MOST_PROBLEMS:
            self._untold += 1
            return
        if position < 0:
            self._problems.append((position, f"ERROR: <input>:-1:0: {message}"))
            return
        before = self.text[:position]
        line = before.count("\n")
        column = position - (before.rfind("\n") + 1)
        problem = f"ERROR: <input>:{line + 1}:{column + 1}: {message}"
        shown = self.text.split("\n")[line]
        if len(shown) <= _LONGEST_LINE:
            dots = "".join("." if each.isascii() else _WIDE_DOT for each in shown[:column])
            caret = "^" if shown[column : column + 1].isascii() else _WIDE_CARET
            problem += f"\n | {shown.replace(_TAB, ' ')}\n | {dots}{caret}"
        self._problems.append((position, problem))

    def raise_problems(self) -> None:
        """Raise one error for everything that was reported, if anything was.

        Raises:
            CelCompileError: an error was reported.
        """
        if self._problems:
            raise self.problems()

    def fail(self, position: int, message: str) -> CelCompileError:
        """Return an error about a text that cannot be parsed."""
        self.report(position, message)
        return self.problems()

    def syntax_error(self, position: int, message: str) -> CelCompileError:
        """The error for a text that cannot be read beyond this offset."""
        return self.fail(position, f"Syntax error: {message}")

    def problems(self) -> CelCompileError:
        """Return one error for everything that was reported, in the order of the text."""
        texts = [text for _, text in sorted(self._problems, key=lambda problem: problem[0])]
        more = [f"{self._untold} more errors were truncated"] if self._untold else []
        return CelCompileError("\n".join([*texts, *more]))
