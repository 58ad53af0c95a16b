"""Authentication by bearer token, reviewed by the cluster's API server (docs/reference/02 §3.3)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac

from kubesched.api.authentication import TokenReview, TokenReviewSpec
from kubesched.foundation.http.http_messages import Request
from kubesched.foundation.metrics.server_metrics import ServerMetrics
from kubesched.foundation.util.clock import Clock
from kubesched.scheduler.server.access.authenticators import AuthenticationError
from kubesched.scheduler.server.access.expiring_cache import ExpiringCache
from kubesched.scheduler.server.access.review_client import Reviewer, ReviewError
from kubesched.scheduler.server.access.user import CallerIdentity

__all__ = ["BearerTokens", "bearer_token"]

_MAX_CACHED_TOKENS = 4096
_LOOKUP_SECONDS = 30
_PROTOCOL_PREFIX = "base64url.bearer.authorization.k8s.io."
_INVALID = "invalid bearer token"

# The owner of a token, or the reason why the token is invalid.
_Outcome = CallerIdentity | str


class BearerTokens:
    """Authenticates by token and caches the results.

    Concurrent requests with one token share one review. The cache has keyed digests, not tokens.
    """

    def __init__(
        self,
        reviewer: Reviewer,
        clock: Clock,
        metrics: ServerMetrics,
        *,
        cache_ttl_ns: int,
        digest_key: bytes,
    ) -> None:
        self._reviewer, self._clock, self._metrics = reviewer, clock, metrics
        self._cache_ttl_ns = cache_ttl_ns
        self._digest_key = digest_key
        self._known: ExpiringCache[bytes, _Outcome] = ExpiringCache(_MAX_CACHED_TOKENS)
        self._lookups: dict[bytes, asyncio.Task[_Outcome]] = {}

    async def authenticate(self, request: Request) -> CallerIdentity | None:
        token = bearer_token(request)
        if token is None:
            return None
        if not token.isascii():
            # Such a token cannot be valid, and a review of it could not be encoded.
            raise AuthenticationError(_INVALID)
        try:
            outcome = await self._outcome(token)
        except ReviewError as exc:
            raise AuthenticationError(str(exc)) from exc
        if isinstance(outcome, str):
            raise AuthenticationError(outcome)
        return outcome

    async def _outcome(self, token: str) -> _Outcome:
        if self._cache_ttl_ns <= 0:
            return await self._review(token)
        started_ns = self._clock.monotonic_ns()
        key = hmac.digest(self._digest_key, token.encode("utf-8", "surrogateescape"), "sha256")
        outcome = self._known.get(key, started_ns)
        status = "hit"
        if outcome is None:
            status = "miss"
            try:
                outcome = await self._look_up(key, token)
            except ReviewError:
                self._metrics.observe_token_lookup(status, self._clock.monotonic_ns() - started_ns)
                raise
        self._metrics.observe_token_lookup(status, self._clock.monotonic_ns() - started_ns)
        return outcome

    async def _look_up(self, key: bytes, token: str) -> _Outcome:
        lookup = self._lookups.get(key)
        blocked = self._metrics.token_cache_active_fetch_count.labels("blocked")
        if lookup is None:
            lookup = asyncio.create_task(self._review_and_cache(key, token), name="TokenReview")
            self._lookups[key] = lookup
            lookup.add_done_callback(lambda done: self._forget_lookup(key, done))
        blocked.inc()
        try:
            # Shielded: the first client may disconnect while others wait for the same review.
            return await asyncio.wait_for(asyncio.shield(lookup), _LOOKUP_SECONDS)
        except TimeoutError as exc:
            raise ReviewError("context deadline exceeded") from exc
        finally:
            blocked.dec()

    def _forget_lookup(self, key: bytes, done: asyncio.Task[_Outcome]) -> None:
        self._lookups.pop(key, None)
        if not done.cancelled():
            done.exception()  # no task awaits it if every client has disconnected

    async def _review_and_cache(self, key: bytes, token: str) -> _Outcome:
        in_flight = self._metrics.token_cache_active_fetch_count.labels("in_flight")
        in_flight.inc()
        status = "error"
        try:
            outcome = await self._review(token)
            status = "ok"
        finally:
            in_flight.dec()
            self._metrics.token_cache_fetch_total.labels(status).inc()
        self._known.put(key, outcome, self._clock.monotonic_ns() + self._cache_ttl_ns)
        return outcome

    async def _review(self, token: str) -> _Outcome:
        review = await self._reviewer.review(TokenReview(spec=TokenReviewSpec(token=token)))
        status = review.status
        if not status.authenticated:
            return status.error or _INVALID
        user = status.user
        return CallerIdentity(
            name=user.username, uid=user.uid, groups=user.groups, extra=user.extra
        )


def bearer_token(request: Request) -> str | None:
    """Return the token of a request, from its header or from a websocket's protocols."""
    parts = request.headers.get("Authorization").strip().split(" ")
    if len(parts) >= 2 and parts[0].lower() == "bearer" and parts[1]:
        return parts[1]
    return _websocket_token(request)


def _websocket_token(request: Request) -> str | None:
    headers = request.headers
    upgrades = "upgrade" in headers.get("Connection").lower()
    if not upgrades or headers.get("Upgrade").lower() != "websocket":
        return None
    offered = ",".join(headers.all("Sec-WebSocket-Protocol")).split(",")
    tokens = [each.strip() for each in offered if each.strip().startswith(_PROTOCOL_PREFIX)]
    if not tokens or len(offered) < 2:
        return None
    encoded = tokens[0].removeprefix(_PROTOCOL_PREFIX)
    try:
        token = base64.b64decode(
            encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True
        ).decode()
    except (binascii.Error, UnicodeDecodeError) as exc:
        raise AuthenticationError(f"invalid bearer token in a websocket protocol: {exc}") from exc
    if not token:
        raise AuthenticationError("missing bearer token in a websocket protocol")
    return token
