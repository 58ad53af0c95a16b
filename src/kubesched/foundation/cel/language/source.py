"""An expression's text, and errors that point into it."""

from __future__ import annotations

from typing import Final

from kubesched.foundation.cel.language.cel_errors import CelCompileError

__all__ = ["Source"]

# A text of many problems in one long line must not become an error of gigabytes.
_MOST_PROBLEMS: Final = 100
_LONGEST_LINE: Final = 16_384


class Source:
    """The text of an expression, and its errors."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._problems: list[str] = []
        self._untold = 0

    def report(self, position: int, message: str) -> None:
        """Record an error at an offset of the text."""
        if len(self._problems) >= _MOST_PROBLEMS:
            self._untold += 1
            return
        before = self.text[:position]
        line = before.count("\n")
        column = position - (before.rfind("\n") + 1)
        problem = f"ERROR: <input>:{line + 1}:{column + 1}: {message}"
        shown = self.text.split("\n")[line]
        if len(shown) <= _LONGEST_LINE:
            problem += f"\n | {shown}\n | {'.' * column}^"
        self._problems.append(problem)

    def raise_problems(self) -> None:
        """Raise one error for everything that was reported, if anything was.

        Raises:
            CelCompileError: something was reported.
        """
        if self._problems:
            raise self._error()

    def fail(self, position: int, message: str) -> CelCompileError:
        """The error for a text that cannot be read beyond this offset."""
        self.report(position, f"Syntax error: {message}")
        return self._error()

    def _error(self) -> CelCompileError:
        more = [f"{self._untold} more errors were truncated"] if self._untold else []
        return CelCompileError("\n".join([*self._problems, *more]))
