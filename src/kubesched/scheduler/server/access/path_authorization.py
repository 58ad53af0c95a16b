"""Authorization of a user for a path (docs/reference/02 §4).

The first definite decision wins. Members of `system:masters` may read every path, and some paths
are open to all users. For other paths the cluster's API server decides; without one they are
closed.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kubesched.api.authorization import (
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.server.access.expiring_cache import ExpiringCache
from kubesched.scheduler.server.access.review_client import Reviewer, ReviewError
from kubesched.scheduler.server.access.user import MASTERS, CallerIdentity

__all__ = [
    "AlwaysAllowPaths",
    "AuthorizationDecision",
    "AuthorizationVerdict",
    "PathAuthorizer",
    "SubjectAccess",
]

log = get_logger(__name__)

_MAX_CACHED_ANSWERS = 8192
_MAX_CACHED_TEXT = 10_000


class AuthorizationVerdict(enum.Enum):
    ALLOW = "allowed"
    DENY = "denied"
    NO_OPINION = "no-opinion"


class AuthorizationDecision(NamedTuple):
    verdict: AuthorizationVerdict
    reason: str = ""


_ALLOW = AuthorizationDecision(AuthorizationVerdict.ALLOW)
_NO_OPINION = AuthorizationDecision(AuthorizationVerdict.NO_OPINION)


class AlwaysAllowPaths:
    """Paths that are open to all users. An entry is a path, or a prefix if it ends with `*`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._exact: set[str] = set()
        self._prefixes: tuple[str, ...] = ()
        for path in paths:
            if "*" in path[:-1]:
                raise ConfigError(f"only trailing * allowed in {quote(path)}")
            bare = path.removeprefix("/")
            if bare.endswith("*"):
                self._prefixes += (bare[:-1],)
            else:
                self._exact.add(bare)

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or (bool(self._prefixes) and bare.startswith(self._prefixes))


class SubjectAccess:
    """Authorizes by SubjectAccessReviews and caches the decisions."""

    def __init__(
        self, reviewer: Reviewer, clock: Clock, *, allow_ttl_ns: int, deny_ttl_ns: int
    ) -> None:
        self._reviewer, self._clock = reviewer, clock
        self._allow_ttl_ns, self._deny_ttl_ns = allow_ttl_ns, deny_ttl_ns
        self._answers: ExpiringCache[bytes, AuthorizationDecision] = ExpiringCache(
            _MAX_CACHED_ANSWERS
        )

    async def decide(self, user: CallerIdentity, verb: str, path: str) -> AuthorizationDecision:
        """Return the API server's decision. Raises ReviewError if it has none."""
        spec = SubjectAccessReviewSpec(
            non_resource_attributes=NonResourceAttributes(path=path, verb=verb),
            user=user.name,
            groups=user.groups,
            extra=dict(user.extra),
            uid=user.uid,
        )
        key = msgspec.json.encode(spec, order="deterministic")
        known = self._answers.get(key, self._clock.monotonic_ns())
        if known is not None:
            return known
        status = (await self._reviewer.review(SubjectAccessReview(spec=spec))).status
        if status.allowed and status.denied:
            raise ReviewError("webhook subject access review returned both allow and deny response")
        verdict = AuthorizationVerdict.NO_OPINION
        if status.denied:
            verdict = AuthorizationVerdict.DENY
        elif status.allowed:
            verdict = AuthorizationVerdict.ALLOW
        decision = AuthorizationDecision(verdict, status.reason)
        ttl_ns = self._allow_ttl_ns if verdict is AuthorizationVerdict.ALLOW else self._deny_ttl_ns
        if ttl_ns > 0 and len(verb) + len(path) < _MAX_CACHED_TEXT:
            self._answers.put(key, decision, self._clock.monotonic_ns() + ttl_ns)
        return decision


class PathAuthorizer:
    """Applies the rules for masters, open paths and reviews, in this order."""

    def __init__(self, always_allow: AlwaysAllowPaths, access: SubjectAccess | None) -> None:
        self._always_allow = always_allow
        self._access = access
        if access is None:
            log.warning(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization "
                "tokens won't work."
            )

    async def decide(self, user: CallerIdentity, verb: str, path: str) -> AuthorizationDecision:
        """Return the first definite decision. Raises ReviewError if the API server has none."""
        if MASTERS in user.groups or path in self._always_allow:
            return _ALLOW
        if self._access is None:
            return _NO_OPINION
        return await self._access.decide(user, verb, path)
