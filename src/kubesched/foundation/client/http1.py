"""HTTP/1.1 requests and responses as bytes, without sockets.

Only what a client of an API server needs: complete requests and complete responses. The body of a
response has a length, is chunked, or ends with the connection (RFC 9112, §6.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kubesched.foundation.client.transport import ServerResponse
from kubesched.foundation.util.ints import whole_number

__all__ = ["LARGEST_BODY", "AnswerReader", "HttpError", "encode_fields", "encode_request"]

_LONGEST_HEAD = 256 * 1024
_LONGEST_CHUNK_LINE = 16 * 1024
# Far more than a page of the largest objects. A longer body may be endless.
LARGEST_BODY = 1 << 30
_WITHOUT_BODY = frozenset({204, 304})
_NOT_IN_TARGET = re.compile(r"[ \r\n]")
_CHUNK_LENGTH = re.compile(rb"[0-9A-Fa-f]{1,16}")


class HttpError(ValueError):
    """The received bytes are no response, or a request cannot be encoded."""


def encode_fields(headers: Mapping[str, str]) -> str:
    """Encode the header fields that requests share.

    Raises:
        HttpError: a field contains line breaks.
    """
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if any("\n" in line or "\r" in line for line in lines):
        raise HttpError("a header has characters that it must not have")
    return "".join(f"{line}\r\n" for line in lines)


def encode_request(method: str, target: str, fields: str, body: bytes = b"") -> bytes:
    """Encode a request with fields from `encode_fields`.

    Raises:
        HttpError: the target contains spaces or line breaks.
    """
    if _NOT_IN_TARGET.search(target) is not None:
        raise HttpError("a target has characters that it must not have")
    length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
    return f"{method} {target} HTTP/1.1\r\n{fields}{length}\r\n".encode() + body


class AnswerReader:
    """Parses one response from pieces in the order of arrival."""

    def __init__(self) -> None:
        self._arrived = bytearray()  # received and not parsed yet
        self._status = 0
        self._headers: dict[str, str] = {}
        self._missing: int | None = 0  # of the body; None: the body ends with the connection
        self._parts: list[bytes] = []
        self._length = 0  # of the parts
        self._is_chunked = False
        self._is_last_chunk = False
        self.has_begun = False
        # Whether the connection can be reused after this response.
        self.keeps_connection = False

    def feed(self, data: bytes) -> ServerResponse | None:
        """Parse more bytes. Returns the response once it is complete.

        Raises:
            HttpError: the bytes are no response.
        """
        self.has_begun = True
        self._arrived += data
        if not self._status and not self._read_head():
            return None
        is_whole = self._read_chunks() if self._is_chunked else self._read_body()
        return self._finished() if is_whole else None

    def end(self) -> ServerResponse | None:
        """Handle the end of the connection. Returns the response if that ends its body."""
        return self._finished() if self._status and self._missing is None else None

    def _read_head(self) -> bool:
        while True:
            end = self._arrived.find(b"\r\n\r\n")
            if end < 0:
                if len(self._arrived) > _LONGEST_HEAD:
                    raise HttpError("the head of the answer does not end")
                return False
            first, *lines = self._arrived[:end].decode("latin-1").split("\r\n")
            del self._arrived[: end + 4]
            version, _, rest = first.partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
                raise HttpError(f"not the beginning of an answer: {first[:80]!r}")
            status = int(rest[:3])
            if status >= 200:
                break  # an interim response
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.title(), value.strip()
            if name in self._headers:  # one field with both values has the same meaning
                value = f"{self._headers[name]}, {value}"
            self._headers[name] = value
        self._status = status
        self._frame(version)
        return True

    def _frame(self, version: str) -> None:
        """Determine how the body ends."""
        headers = self._headers
        connection = headers.get("Connection", "").lower()
        self.keeps_connection = version != "HTTP/1.0" and "close" not in connection
        if self._status in _WITHOUT_BODY:
            self._missing = 0
        elif "chunked" in headers.get("Transfer-Encoding", "").lower():
            self._is_chunked = True
            self._missing = 0
        elif (length := headers.get("Content-Length")) is not None:
            self._missing = whole_number(length)
            if self._missing is None:
                raise HttpError(f"not a length: {length[:80]!r}")
        else:
            self._missing, self.keeps_connection = None, False

    def _read_body(self) -> bool:
        if self._missing is None:
            self._take(len(self._arrived))
            return False
        self._missing -= self._take(self._missing)
        return self._missing == 0

    def _read_chunks(self) -> bool:
        assert self._missing is not None
        while True:
            if self._missing:
                self._missing -= self._take(self._missing)
                if self._missing:
                    return False
            end = self._arrived.find(b"\r\n")
            if end < 0:
                if len(self._arrived) > _LONGEST_CHUNK_LINE:
                    raise HttpError("a line between chunks does not end")
                return False
            line = bytes(self._arrived[:end])
            del self._arrived[: end + 2]
            if self._is_last_chunk:
                if not line:
                    return True
                continue  # a header after the body
            if not line:
                continue  # the end of the chunk before
            length = line.partition(b";")[0].strip()
            if not _CHUNK_LENGTH.fullmatch(length):
                raise HttpError(f"not the length of a chunk: {line[:80]!r}")
            self._missing = int(length, 16)
            self._is_last_chunk = self._missing == 0

    def _take(self, most: int) -> int:
        """Move what arrived to the body; returns how much that was."""
        part = bytes(self._arrived[:most])
        if part:
            self._parts.append(part)
            self._length += len(part)
            if self._length > LARGEST_BODY:
                raise HttpError(f"the answer is longer than {LARGEST_BODY >> 20} MiB")
            del self._arrived[: len(part)]
        return len(part)

    def _finished(self) -> ServerResponse:
        if self._arrived:
            self.keeps_connection = False  # the server sent bytes without a request
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()  # the reader stays until the next request of its connection
        return ServerResponse(self._status, body, self._headers)
