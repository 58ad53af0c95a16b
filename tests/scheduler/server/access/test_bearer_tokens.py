"""Bearer tokens: reviews and their cache (docs/reference/02 §3.3, cases 19 to 22 and 28)."""

from __future__ import annotations

import asyncio
import base64

import pytest

from kubesched.foundation.http.http_messages import Request
from kubesched.foundation.util.clock import SECOND, ManualClock
from kubesched.scheduler.server.access.authenticators import AuthenticationError
from kubesched.scheduler.server.access.bearer_tokens import bearer_token
from kubesched.scheduler.server.access.user import ANONYMOUS, CallerIdentity
from tests.scheduler.server.serving_harness import (
    METRICS_READER,
    NOBODY,
    ServingHarness,
    refused,
    request,
)

HEADERS = {
    "Bearer abc": "abc",
    "bearer abc": "abc",
    "BEARER abc": "abc",
    " Bearer abc ": "abc",
    "Bearer abc def": "abc",
    "Bearer  abc": None,
    "Bearer": None,
    "Bearer ": None,
    "Token abc": None,
    "Basic abc": None,
    "": None,
}


@pytest.mark.parametrize("header", HEADERS)
def test_tokens_in_headers(header: str) -> None:
    assert bearer_token(request("/", [("Authorization", header)])) == HEADERS[header]


def websocket(*protocols: str) -> Request:
    fields = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "websocket")]
    return request("/", [*fields, ("Sec-WebSocket-Protocol", ", ".join(protocols))])


def test_a_websocket_may_carry_the_token_as_a_protocol() -> None:
    encoded = base64.urlsafe_b64encode(b"abc").decode().rstrip("=")
    name = f"base64url.bearer.authorization.k8s.io.{encoded}"
    assert bearer_token(websocket(name, "v4.channel.k8s.io")) == "abc"
    assert bearer_token(websocket(name)) is None
    with pytest.raises(AuthenticationError):
        bearer_token(websocket("base64url.bearer.authorization.k8s.io.%%%", "x"))


def authenticate(harness: ServingHarness, token: str) -> CallerIdentity:
    found = request("/", [("Authorization", f"Bearer {token}")])
    return asyncio.run(harness.access.authenticators.authenticate(found))


def test_the_owner_of_a_token_comes_from_the_review() -> None:
    assert authenticate(ServingHarness(ManualClock()), METRICS_READER) == CallerIdentity(
        name="reader", uid="7", groups=("monitoring", "system:authenticated")
    )


def test_a_token_is_reviewed_once_within_its_time() -> None:
    clock = ManualClock()
    harness = ServingHarness(clock)
    authenticate(harness, METRICS_READER)
    del harness.api.tokens[METRICS_READER]
    clock.advance(10 * SECOND - 1)
    authenticate(harness, METRICS_READER)
    assert harness.api.asked == ["token"]
    clock.advance(1)
    with pytest.raises(AuthenticationError, match="invalid bearer token"):
        authenticate(harness, METRICS_READER)


def test_a_failed_authentication_is_cached() -> None:
    harness = ServingHarness(ManualClock())
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="invalid bearer token"):
            authenticate(harness, "wrong")
    assert harness.api.asked == ["token"]


@pytest.mark.parametrize("token", ["tök", "\udcff"])
def test_malformed_tokens_are_refused_without_a_review(token: str) -> None:
    harness = ServingHarness(ManualClock())
    with pytest.raises(AuthenticationError, match="invalid bearer token"):
        authenticate(harness, token)
    assert harness.api.asked == []


def test_a_failed_review_is_not_cached() -> None:
    harness = ServingHarness(ManualClock())
    harness.api.failures = [refused(403, message="not yours to ask")]
    with pytest.raises(AuthenticationError, match="not yours to ask"):
        authenticate(harness, NOBODY)
    harness.api.failures = []
    assert authenticate(harness, NOBODY).name == "nobody"


def test_a_ttl_of_zero_disables_the_cache() -> None:
    harness = ServingHarness(ManualClock(), "--authentication-token-webhook-cache-ttl=0s")
    authenticate(harness, NOBODY)
    authenticate(harness, NOBODY)
    assert harness.api.asked == ["token", "token"]


def test_requests_at_once_share_a_review_even_if_the_first_hangs_up() -> None:
    async def main() -> tuple[list[CallerIdentity], list[str]]:
        harness = ServingHarness(ManualClock())
        found = request("/", [("Authorization", f"Bearer {NOBODY}")])
        waiting = [
            asyncio.create_task(harness.access.authenticators.authenticate(found)) for _ in range(3)
        ]
        await asyncio.sleep(0)
        waiting[0].cancel()
        return await asyncio.gather(*waiting[1:]), harness.api.asked

    users, asked = asyncio.run(main())
    assert [user.name for user in users] == ["nobody", "nobody"]
    assert asked == ["token"]


def test_without_a_cluster_a_token_identifies_no_user() -> None:
    assert authenticate(ServingHarness(ManualClock(), delegates=False), "anything") == ANONYMOUS
