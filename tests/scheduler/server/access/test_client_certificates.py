"""Users by certificate (docs/reference/02 §3.3, cases 26 and 27)."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from collections.abc import Sequence

import pytest
from prometheus_client.registry import CollectorRegistry

from kubesched.foundation.metrics.server_metrics import ServerMetrics
from kubesched.foundation.util.clock import SECOND, ManualClock
from kubesched.scheduler.server.access.authenticators import AuthenticationError
from kubesched.scheduler.server.access.client_certificates import (
    Bundle,
    ClientCertificates,
    FrontProxy,
    RequestHeaderNames,
)
from kubesched.scheduler.server.access.user import CallerIdentity
from tests.scheduler.server.serving_harness import Authority, Credentials, request

NOW_NS = 1_800_000_000 * SECOND
CLIENTS, PROXIES = Authority("clients"), Authority("proxies")
NAMES = RequestHeaderNames(
    username=("X-Remote-User", "X-Other-User"),
    uid=("X-Remote-Uid",),
    group=("X-Remote-Group",),
    extra_prefix=("X-Remote-Extra-",),
)


def by_certificate(credentials: Credentials, bundle: Bundle | None = None) -> CallerIdentity | None:
    bundle = bundle or Bundle(CLIENTS.pem)
    authenticator = ClientCertificates(
        lambda: bundle, ManualClock(NOW_NS), ServerMetrics(CollectorRegistry())
    )
    return asyncio.run(authenticator.authenticate(request("/", certificates=credentials.chain)))


def by_proxy(
    credentials: Credentials,
    headers: Sequence[tuple[str, str]],
    names: RequestHeaderNames = NAMES,
) -> CallerIdentity | None:
    authenticator = FrontProxy(lambda: Bundle(PROXIES.pem), lambda: names, ManualClock(NOW_NS))
    asked = request("/", headers, certificates=credentials.chain)
    return asyncio.run(authenticator.authenticate(asked))


def test_names_groups_and_uid_come_from_the_subject() -> None:
    credentials = CLIENTS.issue("jane", "dev", "ops", uid="42")
    digest = hashlib.sha256(credentials.chain[0]).hexdigest()
    assert by_certificate(credentials) == CallerIdentity(
        name="jane",
        uid="42",
        groups=("dev", "ops"),
        extra={"authentication.kubernetes.io/credential-id": (f"X509SHA256={digest}",)},
    )


def test_a_certificate_without_a_name_identifies_no_user() -> None:
    assert by_certificate(CLIENTS.issue("", "system:masters")) is None


def test_without_a_certificate_or_an_authority_no_user_is_identified() -> None:
    authenticator = ClientCertificates(
        lambda: None, ManualClock(NOW_NS), ServerMetrics(CollectorRegistry())
    )
    known = request("/", certificates=CLIENTS.issue("jane").chain)
    assert asyncio.run(authenticator.authenticate(known)) is None
    assert by_certificate(Credentials(b"", b"", ())) is None


WRONG = {
    "an authority that is trusted for something else": (
        PROXIES.issue("jane"),
        "unknown authority",
    ),
    "a certificate for servers": (CLIENTS.issue("jane", server=True), "incompatible key usage"),
    "a certificate that expired while its connection lived": (
        CLIENTS.issue("jane", ends=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        "expired",
    ),
    "something that is no certificate": (Credentials(b"", b"", (b"junk",)), "malformed"),
}


@pytest.mark.parametrize(("credentials", "problem"), WRONG.values(), ids=WRONG)
def test_wrong_certificates(credentials: Credentials, problem: str) -> None:
    with pytest.raises(AuthenticationError, match=problem):
        by_certificate(credentials)


def test_an_authority_of_the_same_name_with_another_key_is_another() -> None:
    with pytest.raises(AuthenticationError, match="unknown authority"):
        by_certificate(Authority("clients").issue("jane", "system:masters"))


def test_a_bundle_needs_certificates() -> None:
    for text in (b"", b"junk", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(ValueError):
            Bundle(text)


def test_a_proxy_names_the_user_of_a_request() -> None:
    headers = [
        ("x-remote-user", ""),
        ("x-other-user", "jane"),
        ("x-remote-uid", "42"),
        ("X-Remote-Group", "dev"),
        ("X-Remote-Group", "ops"),
        ("X-Remote-Extra-Scopes", "a"),
        ("X-Remote-Extra-scopes", "b"),
        ("X-Remote-Extra-Example.com%2Fkey", "c"),
    ]
    assert by_proxy(PROXIES.issue("proxy"), headers) == CallerIdentity(
        name="jane",
        uid="42",
        groups=("dev", "ops"),
        extra={"scopes": ("a", "b"), "example.com/key": ("c",)},
    )


def test_a_proxy_request_without_a_user_has_no_identity() -> None:
    assert by_proxy(PROXIES.issue("proxy"), [("X-Remote-Group", "system:masters")]) is None


def test_only_allowed_proxies_are_trusted() -> None:
    names = RequestHeaderNames(username=("X-Remote-User",), allowed_names=("front-proxy",))
    headers = [("X-Remote-User", "jane")]
    assert by_proxy(PROXIES.issue("front-proxy"), headers, names) == CallerIdentity(name="jane")
    with pytest.raises(AuthenticationError) as refused:
        by_proxy(PROXIES.issue("other"), headers, names)
    assert str(refused.value) == "x509: subject with cn=other is not in the allowed list"


def test_headers_do_not_make_a_client_a_proxy() -> None:
    with pytest.raises(AuthenticationError, match="unknown authority"):
        by_proxy(CLIENTS.issue("jane"), [("X-Remote-User", "admin")])
