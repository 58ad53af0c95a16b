"""Flags in named groups, parsed and listed as Go programs with GNU-style flags do.

docs/reference/01 §11.1. `--name=value` or `--name value`; a flag with a bare meaning takes a value
only with `=`; `-v4`, `-v 4` and `-v=4` are the same; `_` in a name is `-`; flags and other
arguments may mix, and `--` ends the flags.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.flag_values import FlagKind
from kubesched.foundation.util.go_format import quote

__all__ = ["Flag", "FlagError", "FlagGroup", "ParsedFlags", "UnknownFlagError", "parse", "usage"]

# Narrower than this, help texts are not wrapped: the first column alone takes more.
_NARROWEST = 24


class FlagError(ConfigError):
    """A command line that cannot be read."""


class UnknownFlagError(FlagError):
    """A flag that does not exist; `name` is without dashes."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown flag: --{name}")
        self.name = name


class Flag(msgspec.Struct, frozen=True):
    """One flag: its name, its values, its default and its help text."""

    name: str
    kind: FlagKind
    default: Any
    help: str
    shorthand: str = ""

    @property
    def spelling(self) -> str:
        """The flag as errors name it."""
        return f"-{self.shorthand}, --{self.name}" if self.shorthand else f"--{self.name}"


class FlagGroup(msgspec.Struct, frozen=True):
    """Flags that belong together in the help."""

    title: str
    flags: tuple[Flag, ...]


class ParsedFlags:
    """A parsed command line: values by name, the names that were given, and the other arguments."""

    def __init__(self, groups: Iterable[FlagGroup]) -> None:
        self._flags = {flag.name: flag for group in groups for flag in group.flags}
        self._values: dict[str, Any] = {}
        self.given: dict[str, str] = {}  # the last text that each flag was given
        self.arguments: list[str] = []

    def __getitem__(self, name: str) -> Any:
        """The value of a flag, which is its default unless it was given."""
        return self._values[name] if name in self._values else self._flags[name].default

    def texts(self) -> Mapping[str, str]:
        """Every flag with its value as text, by name."""
        return {name: self._flags[name].kind.show(self[name]) for name in sorted(self._flags)}

    def set(self, flag: Flag, text: str) -> None:
        """Apply one use of a flag.

        Raises:
            FlagError: the text is not a value of the flag's kind.
        """
        try:
            self._values[flag.name] = flag.kind.read(text, self._values.get(flag.name))
        except (ConfigError, ValueError) as exc:
            raise FlagError(
                f"invalid argument {quote(text)} for {quote(flag.spelling)} flag: {exc}"
            ) from exc
        self.given[flag.name] = text


def parse(groups: Iterable[FlagGroup], argv: Sequence[str]) -> ParsedFlags:
    """Read a command line.

    Raises:
        FlagError: the first thing that is wrong with it.
    """
    groups = tuple(groups)
    return _Parser(groups, argv).parse()


class _Parser:
    def __init__(self, groups: tuple[FlagGroup, ...], argv: Sequence[str]) -> None:
        flags = [flag for group in groups for flag in group.flags]
        self._by_name = {flag.name: flag for flag in flags}
        self._by_letter = {flag.shorthand: flag for flag in flags if flag.shorthand}
        self._parsed = ParsedFlags(groups)
        self._rest = list(reversed(argv))

    def parse(self) -> ParsedFlags:
        while self._rest:
            argument = self._rest.pop()
            if argument == "--":
                self._parsed.arguments.extend(reversed(self._rest))
                break
            if argument.startswith("--"):
                self._long(argument)
            elif argument.startswith("-") and len(argument) > 1:
                self._letters(argument[1:])
            else:
                self._parsed.arguments.append(argument)
        return self._parsed

    def _long(self, argument: str) -> None:
        name, equals, text = argument[2:].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {argument}")
        flag = self._by_name.get(name.replace("_", "-"))
        if flag is None:
            raise UnknownFlagError(name)
        if not equals:
            text = flag.kind.bare or self._next(f"flag needs an argument: {argument}")
        self._parsed.set(flag, text)

    def _letters(self, letters: str) -> None:
        """Read `-hv4`: letters of flags, the last of which may have a value."""
        while letters:
            letter, rest = letters[0], letters[1:]
            flag = self._by_letter.get(letter)
            if flag is None:
                raise FlagError(f"unknown shorthand flag: {_char(letter)} in -{letters}")
            if len(rest) > 1 and rest[0] == "=":
                text, letters = rest[1:], ""
            elif flag.kind.bare:
                text, letters = flag.kind.bare, rest
            elif rest:
                text, letters = rest, ""
            else:
                text = self._next(f"flag needs an argument: {_char(letter)} in -{letters}")
                letters = ""
            self._parsed.set(flag, text)

    def _next(self, complaint: str) -> str:
        if not self._rest:
            raise FlagError(complaint)
        return self._rest.pop()


def _char(letter: str) -> str:
    """The letter as Go quotes a character."""
    inside = quote(letter)[1:-1].replace(r"\"", '"').replace("'", r"\'")
    return f"'{inside}'"


def usage(groups: Iterable[FlagGroup], columns: int = 0) -> str:
    """List the flags in sections; texts wrap at `columns`, or not at all if that is 0."""
    return "".join(
        f"\n{group.title[:1].upper()}{group.title[1:]} flags:\n\n"
        + "".join(f"{line}\n" for line in _section(group, columns))
        for group in groups
    )


def _section(group: FlagGroup, columns: int) -> Iterator[str]:
    flags = sorted(group.flags, key=lambda flag: flag.name)
    heads = [_head(flag) for flag in flags]
    indent = max(map(len, heads)) + 3
    for flag, head in zip(flags, heads, strict=True):
        lines = (flag.help + _shown_default(flag)).split("\n")
        if columns > _NARROWEST:
            # A long first column must not squeeze the text into a ribbon.
            indent = min(indent, columns // 2)
            wrap = textwrap.TextWrapper(
                columns - indent, break_on_hyphens=False, break_long_words=False
            ).wrap
            lines = [part for line in lines for part in wrap(line)]
        if len(head) + 3 > indent:
            yield head
        else:
            yield f"{head:<{indent}}{lines.pop(0)}"
        yield from (" " * indent + line for line in lines)


def _head(flag: Flag) -> str:
    letter = f"-{flag.shorthand}, " if flag.shorthand else "    "
    label = f" {flag.kind.label}" if flag.kind.label else ""
    optional = f"[={flag.kind.bare}]" if flag.kind.bare and flag.kind.label else ""
    return f"  {letter}--{flag.name}{label}{optional}"


def _shown_default(flag: Flag) -> str:
    text = flag.kind.show(flag.default)
    if not flag.default or text in ("false", "0"):
        return ""
    return f" (default {quote(text) if flag.kind.label == 'string' else text})"
