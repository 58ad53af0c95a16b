"""Faults of single requests in scenarios."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from tests.foundation.client.wire_network import Trouble

__all__ = ["is_request", "once", "refusal"]

_REFUSED = b'{"kind":"Status","status":"Failure","code":%d,"reason":"%s","message":"injected"}'


def refusal(code: int, reason: str) -> Trouble:
    return Trouble(answer=ServerResponse(code, _REFUSED % (code, reason.encode()), {}))


def once(
    matches: Callable[[OutgoingRequest], bool], *troubles: Trouble
) -> Callable[[OutgoingRequest], Trouble | None]:
    """Inject these faults into the first matching requests, one after the other."""
    left = list(troubles)

    def intercepted(request: OutgoingRequest) -> Trouble | None:
        return left.pop(0) if left and matches(request) else None

    return intercepted


def is_request(method: str, path: str) -> Callable[[OutgoingRequest], bool]:
    def matches(request: OutgoingRequest) -> bool:
        return request.method == method and request.target.partition("?")[0].endswith(path)

    return matches
