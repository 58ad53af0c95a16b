"""Errors for responses that are no success, and when to retry (docs/reference/02 §9.3)."""

from __future__ import annotations

import msgspec

from kubesched.api import codec
from kubesched.api.access import ApiError
from kubesched.api.meta import Status, StatusDetails
from kubesched.foundation.client.transport import ServerResponse, TransportError
from kubesched.foundation.util.clock import SECOND

__all__ = [
    "LONGEST_MESSAGE",
    "bounded",
    "refusal",
    "retry_after_ns",
    "retry_lost_ns",
    "unreachable",
]

_RETRIES = 10
# The longest Retry-After that the client obeys.
_LONGEST_PAUSE_S = 60
_MOST_DIGITS = 9
_TOO_MANY_REQUESTS = 429
_RETRY_LOST_NS = SECOND
_SHOWN = 2048
LONGEST_MESSAGE = 16 * 1024

# The reasons and messages that client-go uses for responses without a Status.
_NAMELESS = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "unknown"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: (
        "NotAcceptable",
        "the server was unable to respond with a content type that the client supports",
    ),
    409: ("Conflict", "the server reported a conflict"),
    415: (
        "UnsupportedMediaType",
        "the server was unable to process the request body: unsupported media type",
    ),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: (
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
    ),
    503: (
        "ServiceUnavailable",
        "the server is currently unable to handle the request",
    ),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be "
        "processing the request",
    ),
}


def refusal(answer: ServerResponse) -> ApiError:
    """Return the error for a response whose status is no success."""
    try:
        status = codec.decode(answer.body, Status)
    except msgspec.MsgspecError:
        status = Status()
    # Any JSON object decodes as a Status. Use it only if it is a failure.
    if status.status != "Failure":
        return ApiError(_nameless(answer))
    if not status.code:
        status = msgspec.structs.replace(status, code=answer.status)
    return ApiError(bounded(status))


def bounded(status: Status) -> Status:
    """Return a status whose message is truncated.

    The message is written to logs, events and conditions, and a webhook may send one of any length.
    """
    if len(status.message) <= LONGEST_MESSAGE:
        return status
    message = f"{status.message[: LONGEST_MESSAGE - 3]}..."
    return msgspec.structs.replace(status, message=message)


def unreachable(failure: TransportError) -> ApiError:
    """Return the error for a request without a response."""
    return ApiError(Status(status="Failure", code=0, message=str(failure)))


def retry_after_ns(answer: ServerResponse, attempt: int) -> int | None:
    """Return the delay that the server requested before a retry; None if it did not."""
    if attempt >= _RETRIES:
        return None
    if answer.status != _TOO_MANY_REQUESTS and answer.status < 500:
        return None
    seconds = _retry_after(answer)
    return None if seconds is None else min(seconds, _LONGEST_PAUSE_S) * SECOND


def _retry_after(answer: ServerResponse) -> int | None:
    """Return the seconds of a Retry-After header if they are a plausible number."""
    text = answer.headers.get("Retry-After", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def retry_lost_ns(failure: TransportError, attempt: int, *, is_watch: bool = False) -> int | None:
    """Return the delay before a read whose response was lost is retried.

    Writes are never retried, because the server may have executed them.
    """
    if attempt >= _RETRIES:
        return None
    again = failure.kind == "reset" or (is_watch and failure.kind == "timeout")
    return _RETRY_LOST_NS if again else None


def _nameless(answer: ServerResponse) -> Status:
    reason, message = _NAMELESS.get(answer.status, ("", ""))
    if not message:
        text = answer.body[:_SHOWN].decode(errors="replace").strip() or "unknown"
        reason = "InternalError" if answer.status >= 500 else "Unknown"
        message = f'an error on the server ("{text}") has prevented the request from succeeding'
    details = None
    seconds = _retry_after(answer)
    if seconds is not None:
        details = StatusDetails(retry_after_seconds=seconds)
    return Status(
        status="Failure", code=answer.status, reason=reason, message=message, details=details
    )
