"""An expression's text, and errors that point into it."""

from __future__ import annotations

from kubesched.cel.errors import CelCompileError

__all__ = ["Source"]


class Source:
    """The text of an expression; collects what is wrong with it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._problems: list[str] = []

    def report(self, position: int, message: str) -> None:
        """Note a problem at an offset of the text."""
        before = self.text[:position]
        line = before.count("\n")
        column = position - (before.rfind("\n") + 1)
        shown = self.text.split("\n")[line]
        pointer = "." * column + "^"
        self._problems.append(
            f"ERROR: <input>:{line + 1}:{column + 1}: {message}\n | {shown}\n | {pointer}"
        )

    def raise_problems(self) -> None:
        """Raise one error for everything that was reported, if anything was.

        Raises:
            CelCompileError: something was reported.
        """
        if self._problems:
            raise CelCompileError("\n".join(self._problems))

    def fail(self, position: int, message: str) -> CelCompileError:
        """The error for a text that cannot be read beyond this offset."""
        self.report(position, f"Syntax error: {message}")
        return CelCompileError("\n".join(self._problems))
