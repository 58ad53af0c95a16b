"""The filters before a handler (docs/reference/02 §2.4, §4.1, cases 15 to 25)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest
import yaml

from kubesched.foundation.http.http_messages import Request, Response
from kubesched.foundation.util.clock import ManualClock
from kubesched.scheduler.server.access.client_certificates import Bundle
from tests.scheduler.server.serving_harness import (
    ADMIN,
    METRICS_READER,
    NOBODY,
    Authority,
    ServingHarness,
    refused,
)

UNAUTHORIZED = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"Unauthorized","reason":"Unauthorized","code":401}\n'
)
FORBIDDEN = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":'
    b'"forbidden: User \\"system:anonymous\\" cannot get path \\"/metrics\\"",'
    b'"reason":"Forbidden","details":{},"code":403}\n'
)


class Case(NamedTuple):
    path: str
    status: int
    token: str = ""
    authorization: str = ""
    delegates: bool = True
    broken: int | None = None
    flags: tuple[str, ...] = ()


OPEN = ("--authorization-always-allow-paths=/healthz,/metrics",)
CASES = {
    "health needs no credentials": Case("/healthz", 200),
    "but not for a single check": Case("/livez/ping", 403),
    "nor with a slash behind it": Case("/healthz/", 403),
    "nor for what does not exist": Case("/nope", 403),
    "a permitted user gets to the handler": Case("/metrics", 200, METRICS_READER),
    "a user without permission does not": Case("/metrics", 403, NOBODY),
    "an admin learns what does not exist": Case("/nope", 404, ADMIN),
    "an admin too must spell paths right": Case("/healthz/", 404, ADMIN),
    "a wrong token is refused even for health": Case("/healthz", 401, "wrong"),
    "another scheme is anonymous": Case("/healthz", 200, authorization="Token abc"),
    "a token without a cluster is anonymous": Case("/healthz", 200, "any", delegates=False),
    "and gets nowhere else": Case("/metrics", 403, "any", delegates=False),
    "no token can be checked while the cluster is down": Case("/healthz", 401, ADMIN, broken=0),
    "no permission either": Case("/metrics", 500, broken=403),
    "but open paths stay open": Case("/healthz", 200, broken=403),
    "paths may be opened": Case("/metrics", 200, broken=403, flags=OPEN),
    "which replaces the list": Case("/readyz", 500, broken=403, flags=OPEN),
    "a star opens what begins so": Case(
        "/metrics/resources", 200, flags=("--authorization-always-allow-paths=/metrics*",)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_status_codes(case: Case) -> None:
    harness = ServingHarness(ManualClock(), *case.flags, delegates=case.delegates)
    if case.broken is not None:
        harness.api.failures = [refused(case.broken)]
    headers = {"Authorization": case.authorization} if case.authorization else {}
    answer = asyncio.run(harness.ask(case.path, token=case.token, **headers))
    assert answer.status == case.status
    assert answer.headers["Cache-Control"] == "no-cache, private"


def test_refusals_are_status_objects() -> None:
    harness = ServingHarness(ManualClock())
    answer = asyncio.run(harness.ask("/metrics", token="wrong"))
    assert (answer.body, answer.content_type) == (UNAUTHORIZED, "application/json")
    answer = asyncio.run(harness.ask("/metrics"))
    assert (answer.body, answer.content_type) == (FORBIDDEN, "application/json")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


PRETTY = {
    "people's programs get it indented": {"User_Agent": "curl/8.0"},
    "so does who accepts nothing we have": {"Accept": "application/xml"},
}


@pytest.mark.parametrize("headers", PRETTY.values(), ids=PRETTY)
def test_indented_refusals(headers: dict[str, str]) -> None:
    answer = asyncio.run(ServingHarness(ManualClock()).ask("/metrics", **headers))
    assert answer.body.startswith(b'{\n  "kind": "Status",\n  "apiVersion": "v1",\n')


def test_a_query_decides_about_indentation() -> None:
    harness = ServingHarness(ManualClock())
    assert asyncio.run(harness.ask("/metrics?pretty=true")).body.startswith(b"{\n")
    answer = asyncio.run(harness.ask("/metrics?pretty=false", User_Agent="curl/8.0"))
    assert answer.body == FORBIDDEN


def test_responses_can_be_requested_as_yaml() -> None:
    answer = asyncio.run(ServingHarness(ManualClock()).ask("/metrics", Accept="application/yaml"))
    assert answer.content_type == "application/yaml"
    assert yaml.safe_load(answer.body)["reason"] == "Forbidden"


def test_request_data_is_escaped_in_responses() -> None:
    answer = asyncio.run(ServingHarness(ManualClock()).ask("/%3Cscript%3E"))
    assert answer.status == 403
    assert b"<" not in answer.body
    assert b"\\u0026lt;script\\u0026gt;" in answer.body


def test_the_reason_of_the_cluster_is_shown() -> None:
    harness = ServingHarness(ManualClock())
    harness.api.reason = "RBAC: no rule"
    answer = asyncio.run(harness.ask("/metrics"))
    assert b'cannot get path \\"/metrics\\": RBAC: no rule"' in answer.body


def test_a_failed_review_is_a_server_error_in_plain_text() -> None:
    harness = ServingHarness(ManualClock())
    harness.api.failures = [refused(403, message="reviews are not for you")]
    answer = asyncio.run(harness.ask("/metrics?a=1"))
    assert answer.status == 500
    assert answer.body == (b'Internal Server Error: "/metrics?a=1": reviews are not for you\n')
    assert answer.content_type == "text/plain; charset=utf-8"


def test_the_verb_is_the_method_in_lower_case() -> None:
    harness = ServingHarness(ManualClock())
    harness.api.permissions.add(("reader", "delete", "/metrics"))
    assert asyncio.run(harness.ask("/metrics", token=METRICS_READER, method="DELETE")).status == 200
    assert asyncio.run(harness.ask("/metrics", token=METRICS_READER, method="POST")).status == 403


def test_masters_need_no_review() -> None:
    harness = ServingHarness(ManualClock(1_800_000_000 * 10**9))
    authority = Authority()
    harness.access.authorities.client = Bundle(authority.pem)
    chain = authority.issue("root", "system:masters").chain
    assert asyncio.run(harness.ask("/configz", certificates=chain)).status == 200
    assert harness.api.asked == []


def test_a_handler_that_fails_costs_its_request_only() -> None:
    async def broken(_: Request) -> Response:
        raise RuntimeError("secret detail")

    harness = ServingHarness(ManualClock())
    harness.routes.add("/broken", broken)
    answer = asyncio.run(harness.ask("/broken", token=ADMIN))
    assert (answer.status, answer.body) == (
        500,
        b"This request caused apiserver to panic. Look in the logs for details.\n",
    )
    assert asyncio.run(harness.ask("/healthz")).status == 200
