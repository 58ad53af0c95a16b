"""Authorization of requests by path (docs/reference/02 §4, cases 23 to 29)."""

from __future__ import annotations

import asyncio
import random

import pytest
from prometheus_client.registry import CollectorRegistry

from kubesched.api.authorization import SubjectAccessReviewStatus
from kubesched.errors import ConfigError
from kubesched.foundation.metrics.server_metrics import ServerMetrics
from kubesched.foundation.util.clock import SECOND, ManualClock
from kubesched.scheduler.server.access.path_authorization import (
    AlwaysAllowPaths,
    AuthorizationDecision,
    AuthorizationVerdict,
    PathAuthorizer,
    SubjectAccess,
)
from kubesched.scheduler.server.access.review_client import Reviewer, ReviewError
from kubesched.scheduler.server.access.user import ANONYMOUS, CallerIdentity
from tests.scheduler.server.serving_harness import ReviewingApi, refused

READER = CallerIdentity(name="reader", groups=("monitoring",))


class AuthorizerHarness:
    """An authorizer with its clock and its API server."""

    def __init__(self, *paths: str, allow_ttl_ns: int = 10 * SECOND) -> None:
        self.clock = ManualClock()
        self.api = ReviewingApi(self.clock)
        metrics = ServerMetrics(CollectorRegistry())
        reviewer = Reviewer(
            self.api,
            self.clock,
            random.Random(1),
            metrics.delegated_authz_request_total,
            metrics.delegated_authz_request_duration_seconds,
        )
        access = SubjectAccess(
            reviewer, self.clock, allow_ttl_ns=allow_ttl_ns, deny_ttl_ns=10 * SECOND
        )
        self._authorizer = PathAuthorizer(AlwaysAllowPaths(paths), access)

    def decide(self, user: CallerIdentity, path: str, verb: str = "get") -> AuthorizationDecision:
        return asyncio.run(self._authorizer.decide(user, verb, path))

    def allows(self, user: CallerIdentity, path: str, verb: str = "get") -> bool:
        return self.decide(user, path, verb).verdict is AuthorizationVerdict.ALLOW


ALWAYS = {
    ("/healthz", "/healthz"): True,
    ("/healthz", "/healthz/"): False,
    ("/healthz", "/healthz/ping"): False,
    ("healthz", "/healthz"): True,
    ("/healthz", "//healthz"): False,
    ("/metrics*", "/metrics/resources"): True,
    ("/metrics*", "/metricsx"): True,
    ("/metrics*", "/metric"): False,
    ("/metrics/*", "/metrics"): False,
    ("*", "/anything"): True,
}


@pytest.mark.parametrize(("entry", "path"), ALWAYS)
def test_paths_that_are_open_to_all(entry: str, path: str) -> None:
    assert (path in AlwaysAllowPaths([entry])) is ALWAYS[entry, path]


def test_a_star_in_the_middle_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'only trailing \* allowed in "/met\*rics"'):
        AlwaysAllowPaths(["/met*rics"])


def test_masters_and_open_paths_need_no_review() -> None:
    harness = AuthorizerHarness("/healthz")
    assert harness.allows(CallerIdentity(name="x", groups=("system:masters",)), "/configz")
    assert harness.allows(ANONYMOUS, "/healthz")
    assert harness.api.asked == []


def test_without_a_cluster_everything_else_is_closed() -> None:
    authorizer = PathAuthorizer(AlwaysAllowPaths(["/healthz"]), None)
    assert (
        asyncio.run(authorizer.decide(READER, "get", "/metrics")).verdict
        is AuthorizationVerdict.NO_OPINION
    )


def test_a_permission_is_reviewed_once_within_its_cache_time() -> None:
    harness = AuthorizerHarness()
    assert harness.allows(READER, "/metrics")
    harness.api.permissions.clear()
    harness.clock.advance(10 * SECOND - 1)
    assert harness.allows(READER, "/metrics")
    assert harness.api.asked == ["access"]
    harness.clock.advance(1)
    assert not harness.allows(READER, "/metrics")


def test_a_refusal_is_cached() -> None:
    harness = AuthorizerHarness()
    assert not harness.allows(READER, "/configz")
    harness.api.permissions.add(("reader", "get", "/configz"))
    harness.clock.advance(5 * SECOND)
    assert not harness.allows(READER, "/configz")
    harness.clock.advance(5 * SECOND)
    assert harness.allows(READER, "/configz")


def test_answers_differ_by_verb_path_and_user() -> None:
    harness = AuthorizerHarness()
    assert harness.allows(READER, "/metrics")
    assert not harness.allows(READER, "/metrics", "delete")
    assert not harness.allows(READER, "/metrics/slis")
    assert not harness.allows(ANONYMOUS, "/metrics")
    assert not harness.allows(CallerIdentity(name="reader2", groups=READER.groups), "/metrics")


def test_a_ttl_of_zero_disables_the_cache() -> None:
    harness = AuthorizerHarness(allow_ttl_ns=0)
    harness.allows(READER, "/metrics")
    harness.allows(READER, "/metrics")
    assert harness.api.asked == ["access", "access"]


def test_endless_paths_are_not_cached() -> None:
    harness = AuthorizerHarness()
    for _ in range(2):
        harness.allows(READER, "/" + "a" * 10_000)
    assert harness.api.asked == ["access", "access"]


def test_denied_wins_over_no_opinion_and_allowed_with_denied_is_an_error() -> None:
    harness = AuthorizerHarness()
    harness.api.answers = [
        SubjectAccessReviewStatus(denied=True, reason="no"),
        SubjectAccessReviewStatus(allowed=True, denied=True),
    ]
    assert harness.decide(READER, "/a") == AuthorizationDecision(AuthorizationVerdict.DENY, "no")
    with pytest.raises(ReviewError, match="both allow and deny"):
        harness.decide(READER, "/b")


RETRIES = {429: 5, 500: 5, 504: 5, 403: 1, 404: 1, 503: 1, 0: 1}


@pytest.mark.parametrize("code", RETRIES)
def test_failures_are_retried_where_it_may_help(code: int) -> None:
    harness = AuthorizerHarness()
    harness.api.failures = [refused(code)]
    with pytest.raises(ReviewError, match="refused"):
        harness.decide(READER, "/metrics")
    assert len(harness.api.asked) == RETRIES[code]


def test_a_broken_connection_is_retried() -> None:
    harness = AuthorizerHarness()
    broken = refused(0)
    broken.__cause__ = ConnectionResetError()
    harness.api.failures = [broken]
    with pytest.raises(ReviewError):
        harness.decide(READER, "/metrics")
    assert len(harness.api.asked) == 5


def test_errors_are_not_cached() -> None:
    harness = AuthorizerHarness()
    harness.api.failures = [refused(403)]
    with pytest.raises(ReviewError):
        harness.decide(READER, "/metrics")
    harness.api.failures = []
    assert harness.allows(READER, "/metrics")
