"""Resource quantities: exact decimal numbers with a remembered notation (docs/reference/05 §2).

A quantity is `mantissa × 10^exponent`; nothing here touches a float. Quantities of different
notation compare and add by value. Conversion to an integer rounds away from zero and, where
the number does not fit 64 bits, wraps as the reference does.

On the wire a quantity is text or a bare number. `parse_value` and `parse_milli_value` go from
there straight to the integer that a scheduler counts with, and remember the answer.
"""

from __future__ import annotations

import enum
import re
from functools import lru_cache
from typing import Final

import msgspec

from kubesched.api.base import RawQuantity
from kubesched.errors import QuantityError

__all__ = [
    "ZERO",
    "Format",
    "Quantity",
    "parse_milli_value",
    "parse_quantity",
    "parse_value",
    "quantity_from_json",
]

_WRONG_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"

_TEXT: Final = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)",
    re.ASCII,
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)

_MAX_INT64: Final = 2**63 - 1
_NANO: Final = -9
_COMPACT_DIGITS: Final = 18
# Bounds that no honest quantity meets: a few characters must not become a number of gigabytes.
_MAX_DIGITS: Final = 1000
_MAX_POWER: Final = 2000
_LONGEST_EXPONENT = 4096
_WRAPPING_SHIFTS: Final = frozenset((0, 1, 2, 3, 6, 9))


class Format(enum.Enum):
    """The notation a quantity was written in, and is printed in."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIXES: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX_OF_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_SUFFIX_OF_SHIFT: Final = {0: ""} | {shift: name for name, shift in _BINARY_SUFFIXES.items()}


class Quantity(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An exact number. Equal when the numbers are; the notation does not count."""

    mantissa: int
    exponent: int = 0
    format: Format = Format.DECIMAL_SI
    compact: bool = True
    """Whether the reference would hold it in 64 bits; matters for overflow only."""
    text: str = ""
    """What was written, where that passes for canonical."""

    @classmethod
    def from_value(cls, value: int, notation: Format = Format.DECIMAL_SI) -> Quantity:
        return cls(value, 0, notation, -_MAX_INT64 <= value <= _MAX_INT64)

    @classmethod
    def from_milli(cls, milli_value: int, notation: Format = Format.DECIMAL_SI) -> Quantity:
        return cls(milli_value, -3, notation, -_MAX_INT64 <= milli_value <= _MAX_INT64)

    @property
    def value(self) -> int:
        """The number rounded away from zero to an integer, as a signed 64-bit number."""
        return self._scaled(self.exponent)

    @property
    def milli_value(self) -> int:
        """A thousand times the number, rounded away from zero, as a signed 64-bit number."""
        return self._scaled(self.exponent + 3)

    @property
    def sign(self) -> int:
        return (self.mantissa > 0) - (self.mantissa < 0)

    @property
    def is_zero(self) -> bool:
        return not self.mantissa

    @property
    def nanos(self) -> int:
        """The exact number in billionths: every quantity is a whole number of them."""
        scale: int = 10 ** (self.exponent - _NANO)
        return self.mantissa * scale

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1: less than, equal to or greater than the other."""
        if self.exponent == other.exponent:
            left, right = self.mantissa, other.mantissa
        elif self.sign != other.sign or not self.mantissa:
            left, right = self.sign, other.sign
        elif (mine := self._magnitude()) != (theirs := other._magnitude()):
            left, right = mine * self.sign, theirs * self.sign
        else:
            base = min(self.exponent, other.exponent)
            left = self.mantissa * 10 ** (self.exponent - base)
            right = other.mantissa * 10 ** (other.exponent - base)
        return (left > right) - (left < right)

    def __eq__(self, other: object) -> bool:
        return self.compare(other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.compare(other) < 0

    def __le__(self, other: Quantity) -> bool:
        return self.compare(other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return self.compare(other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return self.compare(other) >= 0

    def __hash__(self) -> int:
        if not self.mantissa:
            return 0
        mantissa, zeros = _strip_factors(self.mantissa, 10)
        return hash((mantissa, self.exponent + zeros))

    def __bool__(self) -> bool:
        return self.mantissa != 0

    def __add__(self, other: Quantity) -> Quantity:
        if not other.mantissa:
            return self if self.mantissa else other
        if not self.mantissa:
            return other
        base = min(self.exponent, other.exponent)
        mantissa = self.mantissa * 10 ** (self.exponent - base) + other.mantissa * 10 ** (
            other.exponent - base
        )
        fits = self.compact and other.compact and -_MAX_INT64 <= mantissa <= _MAX_INT64
        return Quantity(mantissa, base, self.format, fits)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def __neg__(self) -> Quantity:
        return Quantity(-self.mantissa, self.exponent, self.format, self.compact)

    def __str__(self) -> str:
        """The canonical text, in the quantity's own notation."""
        if self.text:
            return self.text
        if not self.mantissa:
            return "0"
        if self.format is Format.BINARY_SI and (text := self._binary_text()) is not None:
            return text
        mantissa, zeros = _strip_factors(self.mantissa, 10)
        exponent = self.exponent + zeros
        mantissa *= 10 ** (exponent % 3)
        exponent -= exponent % 3
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        if exponent > 18:
            mantissa, exponent = mantissa * 10 ** (exponent - 18), 18
        return f"{mantissa}{_SUFFIX_OF_EXPONENT[exponent]}"

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def _binary_text(self) -> str | None:
        """The number with a binary suffix, or None where only decimals can print it."""
        whole = self.mantissa
        if self.exponent >= 0:
            whole *= 10**self.exponent
        else:
            whole, rest = divmod(whole, 10**-self.exponent)
            if rest:
                return None
        if -1024 < whole < 1024:
            return None
        whole, factors = _strip_factors(whole, 1024, most=6)
        return f"{whole}{_SUFFIX_OF_SHIFT[factors * 10]}"

    def _magnitude(self) -> int:
        """The decimal position of the first digit of a number that is not zero."""
        return len(str(abs(self.mantissa))) + self.exponent

    def _scaled(self, exponent: int) -> int:
        """The mantissa times ten to a power, in 64 bits."""
        mantissa = self.mantissa
        if exponent < 0:
            divisor: int = 10**-exponent
            if mantissa < 0 and not self.compact:
                # The reference cuts such a number to 64 bits first, and adds one to the
                # truncated quotient whatever its sign.
                cut = _wrap(mantissa)
                quotient, rest = divmod(abs(cut), divisor)
                return (quotient if cut >= 0 else -quotient) + (rest != 0)
            quotient, rest = divmod(abs(mantissa), divisor)
            quotient += rest != 0
            return _wrap(quotient if mantissa >= 0 else -quotient)
        if not exponent:
            return _wrap(mantissa)
        if self.compact and exponent not in _WRAPPING_SHIFTS:
            scaled: int = mantissa * 10 ** min(exponent, 20)
            return scaled if -_MAX_INT64 <= scaled <= _MAX_INT64 else 0
        return _wrap(mantissa * pow(10, exponent, 2**64))


ZERO: Final = Quantity(0)


@lru_cache(maxsize=65536)
def parse_quantity(text: RawQuantity) -> Quantity:
    """Read a quantity from its text, or from a bare number.

    Raises:
        QuantityError: the text is not a quantity, with the reference's message.
    """
    match = _TEXT.match(text if isinstance(text, str) else str(text))
    if match is None or match.end() != len(match.string) or not match.string:
        raise QuantityError(_WRONG_FORMAT)
    sign, whole, fraction, suffix = match.groups(default="")
    base, shift, notation = _interpret(suffix)
    digits = (whole or "0") + fraction
    if len(digits) > _MAX_DIGITS:
        raise QuantityError(_WRONG_NUMBER)
    number = -int(digits) if sign == "-" else int(digits)
    if base == 10:
        exponent = shift - len(fraction)
        if len(digits) <= _COMPACT_DIGITS and exponent >= _NANO:
            tidy = exponent % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
            return Quantity(number, exponent, notation, text=match.string if tidy else "")
    elif not fraction and 15 - len(digits) - shift * 3 // 10 - 1 >= 0:
        return Quantity(number << shift, 0, notation, text=match.string if number % 8 else "")
    if not any(character.isdigit() for character in match.string[: match.start("suffix")]):
        raise QuantityError(_WRONG_NUMBER)
    if base == 10:
        return _rounded(number, exponent, notation)
    return _binary(number << shift, -len(fraction))


def quantity_from_json(raw: RawQuantity | None) -> Quantity:
    """Read a quantity as a JSON document holds it: null is zero, text may be padded."""
    if raw is None:
        return ZERO
    return parse_quantity(raw.strip() if isinstance(raw, str) else raw)


@lru_cache(maxsize=65536)
def parse_value(raw: RawQuantity) -> int:
    """The integer value of a quantity on the wire."""
    return quantity_from_json(raw).value


@lru_cache(maxsize=65536)
def parse_milli_value(raw: RawQuantity) -> int:
    """The milli-value of a quantity on the wire."""
    return quantity_from_json(raw).milli_value


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """The base, the power and the notation that a suffix stands for."""
    if (power := _DECIMAL_SUFFIXES.get(suffix)) is not None:
        return 10, power, Format.DECIMAL_SI
    if (power := _BINARY_SUFFIXES.get(suffix)) is not None:
        return 2, power, Format.BINARY_SI
    # Longer ones are out of range, whatever they begin with, and `int` refuses thousands.
    if len(suffix) <= _LONGEST_EXPONENT and (match := _EXPONENT.fullmatch(suffix)):
        power = int(match[1])
        if -(2**63) <= power < 2**63:
            power = (power + 2**31) % 2**32 - 2**31
            return 10, max(-_MAX_POWER, min(power, _MAX_POWER)), Format.DECIMAL_EXPONENT
    raise QuantityError(_WRONG_SUFFIX)


def _rounded(mantissa: int, exponent: int, notation: Format) -> Quantity:
    """A number in billionths, rounded away from zero."""
    if exponent < _NANO and mantissa:
        quotient, rest = divmod(abs(mantissa), 10 ** (_NANO - exponent))
        quotient += rest != 0
        mantissa, exponent = quotient if mantissa > 0 else -quotient, _NANO
    elif mantissa:
        mantissa, exponent = mantissa * 10 ** (exponent - _NANO), _NANO
    return Quantity(mantissa, exponent, notation, compact=False)


def _binary(mantissa: int, exponent: int) -> Quantity:
    """A number with a binary suffix: capped, and decimal when it is a mere fraction."""
    rounded = _rounded(mantissa, exponent, Format.BINARY_SI)
    size = Quantity(abs(rounded.mantissa), rounded.exponent)
    if size > _CAP:
        mantissa = _MAX_INT64 if rounded.mantissa > 0 else -_MAX_INT64
        return Quantity(mantissa, 0, Format.BINARY_SI, compact=False)
    if ZERO < size < _ONE:
        return Quantity(rounded.mantissa, rounded.exponent, Format.DECIMAL_SI, compact=False)
    return rounded


_CAP: Final = Quantity(_MAX_INT64)
_ONE: Final = Quantity(1)


def _wrap(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _strip_factors(number: int, factor: int, most: int = 1 << 62) -> tuple[int, int]:
    """Divide by a factor as often as possible without a remainder, and count."""
    count = 0
    while count < most:
        quotient, rest = divmod(number, factor)
        if rest:
            break
        number, count = quotient, count + 1
    return number, count
