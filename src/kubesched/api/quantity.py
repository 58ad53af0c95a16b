"""Resource quantities: exact decimal numbers with their notation.

docs/reference/05 §2.

A quantity is `mantissa × 10^exponent`; the module never uses floats. Quantities of different
notation compare and add by value. Conversion to an integer rounds away from zero. A number that
does not fit 64 bits wraps, as in the reference.

On the wire, a quantity is a string or a number. `parse_value` and `parse_milli_value` convert it
directly to the integer that the scheduler counts with, and cache the result.
"""

from __future__ import annotations

import enum
import re
from typing import Final

import msgspec

from kubesched.api.base import RawQuantity
from kubesched.api.sized_caches import cached_unless
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
# Limits that no valid input reaches: a short text must not expand to gigabytes of digits.
_MAX_DIGITS: Final = 1000
# Longer numbers are not cached.
_LONGEST_CACHED: Final = 40
_MAX_POWER: Final = 2000
_LONGEST_EXPONENT = 4096
_WRAPPING_SHIFTS: Final = frozenset((0, 1, 2, 3, 6, 9))


class Format(enum.Enum):
    """The notation in which a quantity was written and is printed."""

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
    """An exact number; equality and order ignore the notation."""

    mantissa: int
    exponent: int = 0
    format: Format = Format.DECIMAL_SI
    # Whether the reference would store it in 64 bits; affects overflow only.
    compact: bool = True
    # The original text, if it is canonical.
    text: str = ""

    @classmethod
    def from_value(cls, value: int, notation: Format = Format.DECIMAL_SI) -> Quantity:
        return cls(value, 0, notation, -_MAX_INT64 <= value <= _MAX_INT64)

    @classmethod
    def from_milli(cls, milli_value: int, notation: Format = Format.DECIMAL_SI) -> Quantity:
        return cls(milli_value, -3, notation, -_MAX_INT64 <= milli_value <= _MAX_INT64)

    @property
    def value(self) -> int:
        """The number as a signed 64-bit integer, rounded away from zero."""
        return self._scaled(self.exponent)

    @property
    def milli_value(self) -> int:
        """A thousand times the number as a signed 64-bit integer, rounded away from zero."""
        return self._scaled(self.exponent + 3)

    @property
    def sign(self) -> int:
        return (self.mantissa > 0) - (self.mantissa < 0)

    @property
    def is_zero(self) -> bool:
        return not self.mantissa

    @property
    def nanos(self) -> int:
        """The exact number in billionths; every quantity is a multiple of a billionth."""
        scale: int = 10 ** (self.exponent - _NANO)
        return self.mantissa * scale

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1 if the number is less, equal or greater."""
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
        """Return the canonical text in the quantity's notation."""
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
        """Return the number with a binary suffix, or None if it needs a decimal one."""
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
        """Return the decimal position of the first digit; the number must not be 0."""
        return len(str(abs(self.mantissa))) + self.exponent

    def _scaled(self, exponent: int) -> int:
        """Return the mantissa times a power of ten, in 64 bits."""
        mantissa = self.mantissa
        if exponent < 0:
            divisor: int = 10**-exponent
            if mantissa < 0 and not self.compact:
                # The reference truncates such a number to 64 bits first, and adds one to the
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


def _is_long_number(text: RawQuantity) -> bool:
    return isinstance(text, str) and len(text) > _LONGEST_CACHED


@cached_unless(_is_long_number, 65536)
def parse_quantity(text: RawQuantity) -> Quantity:
    """Parse a quantity from its text, or from a number.

    Raises:
        QuantityError: the text is not a quantity, with the reference's message.
    """
    match = _TEXT.match(text if isinstance(text, str) else str(text))
    if match is None or match.end() != len(match.string) or not match.string:
        raise QuantityError(_WRONG_FORMAT)
    sign, whole, fraction, suffix = match.groups(default="")
    base, power, notation = _interpret(suffix)
    digits = (whole or "0") + fraction
    if len(digits) > _MAX_DIGITS:
        raise QuantityError(_WRONG_NUMBER)
    number = -int(digits) if sign == "-" else int(digits)
    exact: Quantity | None = None
    if base == 10:
        exact = _exact_decimal(match.string, digits, number, power - len(fraction), notation)
    elif not fraction:
        exact = _exact_binary(match.string, digits, number, power, notation)
    if exact is not None:
        return exact
    if not any(character.isdigit() for character in match.string[: match.start("suffix")]):
        raise QuantityError(_WRONG_NUMBER)
    if base == 10:
        return _rounded(number, power - len(fraction), notation)
    return _binary(number << power, -len(fraction))


def _exact_decimal(
    text: str, digits: str, number: int, exponent: int, notation: Format
) -> Quantity | None:
    """Return a decimal that fits the reference's 64-bit form, or None."""
    if len(digits) > _COMPACT_DIGITS or exponent < _NANO:
        return None
    is_canonical = exponent % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
    return Quantity(number, exponent, notation, text=text if is_canonical else "")


def _exact_binary(
    text: str, digits: str, number: int, power: int, notation: Format
) -> Quantity | None:
    """Return a binary number that fits the reference's 64-bit form, or None."""
    if 15 - len(digits) - power * 3 // 10 - 1 < 0:
        return None
    return Quantity(number << power, 0, notation, text=text if number % 8 else "")


def quantity_from_json(raw: RawQuantity | None) -> Quantity:
    """Parse a quantity from JSON: null is zero, and text may have spaces around it."""
    if raw is None:
        return ZERO
    return parse_quantity(raw.strip() if isinstance(raw, str) else raw)


@cached_unless(_is_long_number, 65536)
def parse_value(raw: RawQuantity) -> int:
    """Return the integer value of a quantity on the wire."""
    return quantity_from_json(raw).value


@cached_unless(_is_long_number, 65536)
def parse_milli_value(raw: RawQuantity) -> int:
    """Return the milli-value of a quantity on the wire."""
    return quantity_from_json(raw).milli_value


def _interpret(suffix: str) -> tuple[int, int, Format]:
    """Return the base, the power and the notation of a suffix."""
    if (power := _DECIMAL_SUFFIXES.get(suffix)) is not None:
        return 10, power, Format.DECIMAL_SI
    if (power := _BINARY_SUFFIXES.get(suffix)) is not None:
        return 2, power, Format.BINARY_SI
    # Longer exponents are out of range, and `int` rejects thousands of digits.
    if len(suffix) <= _LONGEST_EXPONENT and (match := _EXPONENT.fullmatch(suffix)):
        power = int(match[1])
        if -(2**63) <= power < 2**63:
            power = (power + 2**31) % 2**32 - 2**31
            return 10, max(-_MAX_POWER, min(power, _MAX_POWER)), Format.DECIMAL_EXPONENT
    raise QuantityError(_WRONG_SUFFIX)


def _rounded(mantissa: int, exponent: int, notation: Format) -> Quantity:
    """Round a number away from zero to billionths."""
    if exponent < _NANO and mantissa:
        quotient, rest = divmod(abs(mantissa), 10 ** (_NANO - exponent))
        quotient += rest != 0
        mantissa, exponent = quotient if mantissa > 0 else -quotient, _NANO
    elif mantissa:
        mantissa, exponent = mantissa * 10 ** (exponent - _NANO), _NANO
    return Quantity(mantissa, exponent, notation, compact=False)


def _binary(mantissa: int, exponent: int) -> Quantity:
    """Convert a number with a binary suffix.

    Capped at int64, decimal if it is a fraction.
    """
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
    """Divide by a factor as often as there is no remainder.

    Return the quotient and the count.
    """
    count = 0
    while count < most:
        quotient, rest = divmod(number, factor)
        if rest:
            break
        number, count = quotient, count + 1
    return number, count
