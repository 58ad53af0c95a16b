"""`/metrics` and its reset (docs/reference/02 §6.2, case 40)."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from kubesched.foundation.http.http_messages import Response
from kubesched.foundation.util.clock import ManualClock
from tests.scheduler.server.serving_harness import ADMIN, ServingHarness


def test_delete_resets_labelled_series_and_bare_counters_only() -> None:
    async def main() -> tuple[Response, str]:
        harness = ServingHarness(ManualClock())
        metrics = harness.scheduler_metrics
        metrics.observe_attempt("scheduled", "p", 1)
        metrics.preemption_attempts_total.inc()
        metrics.pod_scheduling_attempts.observe(2)
        answer = await harness.ask("/metrics", method="DELETE", token=ADMIN)
        return answer, (await harness.ask("/metrics", token=ADMIN)).body.decode()

    answer, page = asyncio.run(main())
    assert (answer.status, answer.body) == (200, b"metrics reset\n")
    assert "scheduler_schedule_attempts_total" not in page
    assert "scheduler_preemption_attempts_total 0\n" in page
    assert "scheduler_pod_scheduling_attempts_count 1\n" in page


@pytest.mark.parametrize(
    ("accept", "escaping"),
    {
        "": "underscores",
        "text/plain;version=0.0.4;escaping=allow-utf-8;q=0.2,*/*;q=0.1": "allow-utf-8",
        "application/openmetrics-text": "underscores",
    }.items(),
)
def test_the_text_format_is_always_served(accept: str, escaping: str) -> None:
    harness = ServingHarness(ManualClock())
    answer = asyncio.run(harness.ask("/metrics", token=ADMIN, Accept=accept))
    assert answer.content_type == (f"text/plain; version=0.0.4; charset=utf-8; escaping={escaping}")


@pytest.mark.parametrize(
    ("accept", "packed"),
    {"gzip": True, "br, gzip;q=0.5": True, "gzip;q=0": False, "br": False, "": False}.items(),
)
def test_pages_are_compressed_for_clients_that_accept_it(accept: str, packed: bool) -> None:
    harness = ServingHarness(ManualClock())
    answer = asyncio.run(harness.ask("/metrics", token=ADMIN, Accept_Encoding=accept))
    assert (answer.headers.get("Content-Encoding") == "gzip") is packed
    text = gzip.decompress(answer.body) if packed else answer.body
    assert b"# TYPE scheduler_pending_pods gauge\n" in text


def test_requests_are_counted_by_user_and_outcome() -> None:
    async def main() -> str:
        harness = ServingHarness(ManualClock())
        await harness.ask("/healthz")
        await harness.ask("/metrics")
        await harness.ask("/healthz", token="wrong")
        await harness.ask("/metrics", token=ADMIN)
        return (await harness.ask("/metrics", token=ADMIN)).body.decode()

    page = asyncio.run(main())
    for line in (
        'authentication_attempts{result="error"} 1',
        'authentication_attempts{result="success"} 4',
        'authenticated_user_requests{username="admin"} 2',
        'authenticated_user_requests{username="other"} 2',
        'authentication_token_cache_request_total{status="hit"} 1',
        'authentication_token_cache_request_total{status="miss"} 2',
        'authentication_token_cache_fetch_total{status="ok"} 2',
        'authorization_attempts_total{result="no-opinion"} 1',
        'apiserver_delegated_authn_request_total{code="201"} 2',
        'apiserver_delegated_authz_request_total{code="201"} 1',
    ):
        assert f"{line}\n" in page
