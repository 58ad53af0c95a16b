"""Formats values in Go's form, where users see that form.

Durations (`1m0s`), slices (`[a b]`), quoted strings, and the output of `fmt.Sprintf` for a format
string without arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = [
    "format_duration",
    "format_slice",
    "parse_duration",
    "quote",
    "sprintf_without_arguments",
]

_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_MAX_INT64 = (1 << 63) - 1
_DIGITS = frozenset("0123456789")
_WIDTH_LIMIT = 1_000_000
_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def format_duration(duration_ns: int) -> str:
    """Write a duration as Go's `time.Duration` prints itself: `0s`, `1.5ms`, `15m0s`."""
    if duration_ns == 0:
        return "0s"
    sign = "-" if duration_ns < 0 else ""
    rest = abs(duration_ns)
    if rest < 1_000_000_000:
        unit = next(name for name in ("ms", "µs", "ns") if rest >= _UNIT_NS[name])
        return f"{sign}{_decimal(rest, _UNIT_NS[unit])}{unit}"
    minutes, seconds_ns = divmod(rest, 60_000_000_000)
    text = f"{_decimal(seconds_ns, 1_000_000_000)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = str(rest).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{digits}"


def parse_duration(text: str) -> int:
    """Read a Go duration such as `1h15m`, `-1.5s` or `0` as nanoseconds.

    Raises:
        ValueError: with the text of Go's `time.ParseDuration`.
    """
    rest, negative = text, False
    if rest[:1] in ("+", "-"):
        negative, rest = rest[0] == "-", rest[1:]
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f"time: invalid duration {quote(text)}")
    total = 0
    while rest:
        term = _TERM.match(rest)
        assert term is not None  # every part of the pattern may be empty
        whole, fraction, unit = term.groups()
        if not whole and not fraction:
            raise ValueError(f"time: invalid duration {quote(text)}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {quote(text)}")
        if unit not in _UNIT_NS:
            raise ValueError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
        total += int(whole or "0") * _UNIT_NS[unit]
        if fraction:
            total += _fraction_of(fraction, _UNIT_NS[unit])
        # The most negative int64 is a duration too.
        if total > _MAX_INT64 + negative:
            raise ValueError(f"time: invalid duration {quote(text)}")
        rest = rest[term.end() :]
    return -total if negative else total


def _fraction_of(digits: str, unit_ns: int) -> int:
    value, scale = 0, 1.0
    for digit in digits:
        longer = value * 10 + int(digit)
        if longer > _MAX_INT64 + 1:
            break  # digits that no longer fit are dropped
        value, scale = longer, scale * 10
    # In floating point and in this order, so that 0.3333333333333333333h is 20 minutes.
    return int(value * (unit_ns / scale))


def format_slice(values: Iterable[object]) -> str:
    """Write values as `%v` prints a slice: `[a b]`."""
    return f"[{' '.join(str(value) for value in values)}]"


def quote(text: str) -> str:
    """Write a text as `%q` does: double quotes, escapes only where needed."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(_ESCAPES.get(char) or _printable(char) for char in text)}"'


def _printable(char: str) -> str:
    # Go prints the ASCII space but escapes all other spaces, as isprintable does.
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def sprintf_without_arguments(text: str) -> str:
    """Return what `fmt.Sprintf(text)` returns: a literal `%` is taken for a verb."""
    if "%" not in text:
        return text
    out: list[str] = []
    position = 0
    while True:
        percent = text.find("%", position)
        if percent < 0:
            out.append(text[position:])
            return "".join(out)
        out.append(text[position:percent])
        directive = _Directive(text, percent + 1)
        out.append(directive.output)
        position = directive.end


class _Directive:
    """One `%…` directive of a format without arguments: its output, and where it ends."""

    def __init__(self, text: str, start: int) -> None:
        self._text, self.end = text, start
        self._bad_index = False
        self._complaints = ""
        while self._peek() and self._peek() in "#0+- ":
            self.end += 1
        after_index = self._skip_index()
        if self._peek() == "*":
            self.end += 1
            self._complaints += "%!(BADWIDTH)"
            after_index = False
        else:
            self._skip_number()
        if self._peek() == ".":
            self.end += 1
            after_index = self._skip_index()
            if self._peek() == "*":
                self.end += 1
                self._complaints += "%!(BADPREC)"
                after_index = False
            else:
                self._skip_number()
        if not after_index:
            self._skip_index()
        self.output = self._complaints + self._verb()

    def _peek(self) -> str:
        return self._text[self.end : self.end + 1]

    def _verb(self) -> str:
        verb = self._peek()
        if not verb:
            return "%!(NOVERB)"
        self.end += 1
        if verb == "%":
            return "%"
        return f"%!{verb}({'BADINDEX' if self._bad_index else 'MISSING'})"

    def _skip_number(self) -> None:
        start = self.end
        while self._peek() in _DIGITS:
            if _is_too_large(self._text[start : self.end]):
                # Go gives up on the rest of the format here.
                self.end = len(self._text)
                return
            self.end += 1

    def _skip_index(self) -> bool:
        """Skip `[n]`; True if it is well formed. It never names an argument that exists."""
        if self._peek() != "[":
            return False
        self._bad_index = True
        close = self._text.find("]", self.end)
        if close < 0 or len(self._text) - self.end < 3:
            self.end += 1
            return False
        number = self._text[self.end + 1 : close]
        self.end = close + 1
        return bool(number) and _DIGITS.issuperset(number) and not _is_too_large(number[:-1])


def _is_too_large(digits: str) -> bool:
    return int(digits or "0") > _WIDTH_LIMIT
