"""The protocol buffers wire format: numbered fields without message definitions."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.errors import KubeschedError

__all__ = ["MalformedError", "fields", "text", "varint", "wrapped"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN = 1 << 63


class MalformedError(KubeschedError):
    """The bytes are not a valid message."""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Iterate over the fields of a message: field number, and integer or bytes."""
    position, end = 0, len(message)
    while position < end:
        tag, position = _read_varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _read_varint(message, position)
            yield number, value - (_SIGN << 1) if value & _SIGN else value
            continue
        if kind == _BYTES:
            size, position = _read_varint(message, position)
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        else:
            raise MalformedError(f"unexpected wire type {kind}")
        if position + size > end:
            raise MalformedError("unexpected end of message")
        yield number, message[position : position + size]
        position += size


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(message) and shift < 70:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value & ((_SIGN << 1) - 1), position
        shift += 7
    raise MalformedError("unexpected end of message")


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def wrapped(number: int, content: bytes) -> bytes:
    """Encode a field that holds bytes or a message."""
    return varint(number << 3 | _BYTES) + varint(len(content)) + content


def text(number: int, content: str) -> bytes:
    return wrapped(number, content.encode())
