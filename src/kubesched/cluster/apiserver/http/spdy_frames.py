"""SPDY/3.1 frames, as kubectl uses them for exec, attach and port-forward.

A connection carries streams of bytes in both directions. The header blocks of one direction share
one compressor, with a dictionary that the protocol defines.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kubesched.errors import KubeschedError

__all__ = [
    "DATA",
    "FINISHES",
    "GOAWAY",
    "PING",
    "RESET",
    "SETTINGS",
    "SYN_REPLY",
    "SYN_STREAM",
    "WINDOW_UPDATE",
    "SpdyError",
    "SpdyFrame",
    "SpdyReader",
    "SpdyWriter",
]

SYN_STREAM, SYN_REPLY, RESET, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = (
    1,
    2,
    3,
    4,
    6,
    7,
    8,
    9,
)
DATA: Final = 0
FINISHES: Final = 1  # flag of the last frame of a stream in one direction
_VERSION: Final = 3
_MOST_FRAME_BYTES: Final = 1 << 20
_MOST_HEADER_BYTES: Final = 64 * 1024
_MOST_HEADERS: Final = 100
_STREAM_BITS: Final = 0x7FFFFFFF

# The names that the dictionary begins with, each after its length in four bytes.
_NAMES: Final = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
]
_REST: Final = (
    "\0\0\0\x06200 OK\0\0\0\x07version\0\0\0\x08HTTP/1.1\0\0\0\x03url\0\0\0\x06public"
    "\0\0\0\x0aset-cookie\0\0\0\x0akeep-alive\0\0\0\x06origin"
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
    "Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
_DICTIONARY: Final = b"".join(
    struct.pack(">I", len(name)) + name.encode() for name in _NAMES
) + _REST.encode("latin-1")


class SpdyError(KubeschedError):
    """The bytes of a client are not SPDY."""


class SpdyFrame(NamedTuple):
    """A frame: data of a stream, or a control frame."""

    kind: int
    stream: int
    flags: int
    payload: bytes = b""
    headers: Mapping[str, str] = {}


class SpdyReader:
    """Splits the bytes of a client into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflater = zlib.decompressobj(zdict=_DICTIONARY)

    def feed(self, data: bytes) -> Iterator[SpdyFrame]:
        """Yield the complete frames. Raises SpdyError."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 8:
            first, second = struct.unpack_from(">II", buffer)
            length = second & 0xFFFFFF
            if length > _MOST_FRAME_BYTES:
                raise SpdyError("a frame is too large")
            if len(buffer) < 8 + length:
                return
            payload = bytes(buffer[8 : 8 + length])
            del buffer[: 8 + length]
            yield self._frame(first, second >> 24, payload)

    def _frame(self, first: int, flags: int, payload: bytes) -> SpdyFrame:
        if not first >> 31:
            return SpdyFrame(DATA, first & _STREAM_BITS, flags, payload)
        if first >> 16 & 0x7FFF != _VERSION:
            raise SpdyError("only version 3 is supported")
        kind = first & 0xFFFF
        if kind == PING:
            return SpdyFrame(kind, 0, flags, payload)
        if kind not in (SYN_STREAM, SYN_REPLY, RESET, HEADERS, WINDOW_UPDATE):
            return SpdyFrame(kind, 0, flags, payload)
        if len(payload) < 4:
            raise SpdyError("a frame is too short")
        stream = struct.unpack_from(">I", payload)[0] & _STREAM_BITS
        headers: Mapping[str, str] = {}
        if kind in (SYN_STREAM, SYN_REPLY, HEADERS):
            headers = self._headers(payload[10 if kind == SYN_STREAM else 4 :])
        return SpdyFrame(kind, stream, flags, payload, headers)

    def _headers(self, block: bytes) -> Mapping[str, str]:
        try:
            text = self._inflater.decompress(block, _MOST_HEADER_BYTES)
            if self._inflater.unconsumed_tail:
                raise SpdyError("the headers of a stream are too large")
            (count,) = struct.unpack_from(">I", text)
            if count > _MOST_HEADERS:
                raise SpdyError("a stream has too many headers")
            position, found = 4, {}
            for _ in range(count):
                name, position = _text(text, position)
                value, position = _text(text, position)
                found[name.lower()] = value.split("\0")[0]
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise SpdyError(f"the headers of a stream cannot be read: {error}") from error
        return found


def _text(data: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", data, position)
    end = position + 4 + length
    if end > len(data):
        raise SpdyError("the headers of a stream are cut off")
    return data[position + 4 : end].decode(), end


class SpdyWriter:
    """Encodes frames for a client."""

    def __init__(self) -> None:
        self._deflater = zlib.compressobj(zdict=_DICTIONARY)

    def data(self, stream: int, data: bytes, *, finishes: bool = False) -> bytes:
        flags = FINISHES if finishes else 0
        return struct.pack(">II", stream, flags << 24 | len(data)) + data

    def open(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Encode the frame that opens a stream."""
        block = self._block(headers)
        return _control(SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + block)

    def reply(self, stream: int) -> bytes:
        """Encode the acceptance of a stream that the client has opened."""
        return _control(SYN_REPLY, struct.pack(">I", stream) + self._block({}))

    def reset(self, stream: int) -> bytes:
        return _control(RESET, struct.pack(">II", stream, 1))

    def window(self, stream: int, size: int) -> bytes:
        """Encode a window update: the client may send this many further bytes."""
        return _control(WINDOW_UPDATE, struct.pack(">II", stream, size))

    def ping(self, payload: bytes) -> bytes:
        return _control(PING, payload)

    def _block(self, headers: Mapping[str, str]) -> bytes:
        parts = [struct.pack(">I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower(), value):
                encoded = text.encode()
                parts += [struct.pack(">I", len(encoded)), encoded]
        block = self._deflater.compress(b"".join(parts))
        return block + self._deflater.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">II", 1 << 31 | _VERSION << 16 | kind, len(payload)) + payload
