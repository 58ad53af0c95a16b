"""The client of one HTTP extender: posts the arguments of a verb and returns the JSON response.

It has no scheduling rules. Every failure is an `ExtenderError` with the reference's text, as far as
possible, because events show it to users (docs/reference/04 §18.2). Requests are not retried.
"""

from __future__ import annotations

import asyncio
import json
import re
from urllib.parse import urlsplit

import msgspec

from kubesched.errors import KubeschedError
from kubesched.foundation.client.transport import OutgoingRequest, Transport, TransportError
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.go_format import quote

__all__ = ["ExtenderClient", "ExtenderError"]

_JSON = "application/json"
_OK = 200
_PORTS = {"http": 80, "https": 443}
_TOO_DEEP = "exceeded max depth"
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_TOO_SLOW = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"


class ExtenderError(KubeschedError):
    """An extender did not respond, or its response is invalid."""


class ExtenderClient:
    """A client for the extender at a URL. `timeout_ns` limits a request with its response."""

    def __init__(self, url_prefix: str, transport: Transport, timeout_ns: int) -> None:
        self.url_prefix = url_prefix
        self._transport = transport
        self._timeout_ns = timeout_ns

    async def post(self, verb: str, body: bytes) -> bytes:
        """Send the arguments of a verb and return the response, one JSON value.

        Raises:
            ExtenderError: there is no response, or it is not successful, or not JSON.
        """
        url = f"{self.url_prefix.rstrip('/')}/{verb}"
        request = OutgoingRequest("POST", f"/{verb}", body, _JSON, self._timeout_ns)
        try:
            # The transport measures real time. On a virtual loop this timeout applies.
            async with asyncio.timeout(self._timeout_ns / SECOND):
                answer = await self._transport.send(request)
        except TimeoutError as exc:
            raise ExtenderError(f"Post {quote(url)}: {_TOO_SLOW}") from exc
        except TransportError as exc:
            raise ExtenderError(f"Post {quote(url)}: {_cause(exc, url)}") from exc
        if answer.status != _OK:
            raise ExtenderError(
                f"failed {verb} with extender at URL {url}, code {answer.status}"
            ) from None
        return _first_value(answer.body)

    async def close(self) -> None:
        await self._transport.close()


def _cause(failure: TransportError, url: str) -> str:
    parts = urlsplit(url)
    match failure.kind:
        case "timeout":
            return _TOO_SLOW
        case "refused":
            port = parts.port or _PORTS.get(parts.scheme, 80)
            return f"dial tcp {parts.hostname}:{port}: connect: connection refused"
        case "reset":
            return "EOF"
        case "tls":
            return f"tls: failed to verify certificate: {_tls_cause(str(failure))}"
        case _:
            return str(failure).removeprefix(f"{url.rpartition('/')[0]}: ")


def _tls_cause(text: str) -> str:
    if "issuer certificate" in text or "self-signed certificate" in text:
        return "x509: certificate signed by unknown authority"
    return text.rpartition("certificate verify failed: ")[2]


def _first_value(body: bytes) -> bytes:
    """Return the first JSON value of a response and ignore the rest.

    Invalid bytes and escapes are replaced, as in Go.
    """
    try:
        body.decode()
        msgspec.json.decode(body, type=msgspec.Raw)
        if not _HALF_CHARACTER.search(body):
            return body
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError as exc:
        raise ExtenderError(_TOO_DEEP) from exc
    text = body.decode("utf-8", "replace").strip(" \t\r\n")
    if not text:
        raise ExtenderError("EOF")
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
        written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError as exc:
        raise ExtenderError(_TOO_DEEP) from exc
    except json.JSONDecodeError as exc:
        if exc.pos >= len(text):
            raise ExtenderError("unexpected EOF") from exc
        character = text[exc.pos]
        raise ExtenderError(
            f"invalid character {_quoted_rune(character)} looking for beginning of value"
        ) from exc
    except ValueError as exc:  # an integer with thousands of digits
        raise ExtenderError("json: cannot unmarshal a number that is out of range") from exc
    return re.sub("[\ud800-\udfff]", "\ufffd", written).encode()


def _quoted_rune(character: str) -> str:
    special = {"'": r"'\''", '"': "'\"'"}
    return special.get(character) or f"'{quote(character)[1:-1]}'"
