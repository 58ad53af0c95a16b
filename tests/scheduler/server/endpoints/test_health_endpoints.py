"""Health roots and single checks (docs/reference/02 §6.1, cases 32 to 38)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest

from kubesched.foundation.util.clock import ManualClock
from kubesched.scheduler.server.endpoints.health_endpoints import HealthCheck, add_health_routes
from kubesched.scheduler.server.endpoints.routes import Routes
from tests.scheduler.server.serving_harness import ADMIN, ServingHarness, request


class Case(NamedTuple):
    target: str
    status: int
    body: str
    synced: bool = True


_NOT_SYNCED = (
    "[+]leaderElection ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\n"
    "readyz check failed\n"
)
CASES = {
    "a healthy root says ok": Case("/readyz", 200, "ok"),
    "a failing root is always verbose": Case("/readyz", 500, _NOT_SYNCED, synced=False),
    "a single check gives its reason": Case(
        "/readyz/sched-handler-sync",
        500,
        "internal server error: handlers are not fully synchronized\n",
        synced=False,
    ),
    "excluding the failing check helps": Case(
        "/readyz?exclude=sched-handler-sync", 200, "ok", synced=False
    ),
    "an excluded check is listed as such": Case(
        "/readyz?verbose&exclude=sched-handler-sync",
        200,
        "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync excluded: ok\n"
        "readyz check passed\n",
        synced=False,
    ),
    "any value of verbose is verbose": Case(
        "/livez?verbose=false", 200, "[+]ping ok\nlivez check passed\n"
    ),
    "names that match nothing are listed, sorted": Case(
        "/livez?verbose&exclude=b&exclude=a",
        200,
        "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "
        '"a","b"\nlivez check passed\n',
    ),
    "commas do not separate names": Case(
        "/livez?verbose&exclude=ping,x",
        200,
        "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "
        '"ping,x"\nlivez check passed\n',
    ),
    "a single check knows no exclusion": Case(
        "/readyz/sched-handler-sync?exclude=sched-handler-sync&verbose",
        500,
        "internal server error: handlers are not fully synchronized\n",
        synced=False,
    ),
    "a single healthy check says ok": Case("/livez/ping?verbose", 200, "ok"),
    "there is no path for a check of another root": Case(
        "/livez/shutdown", 404, "404 page not found\n"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_health(case: Case) -> None:
    harness = ServingHarness(ManualClock())
    harness.synced.is_fine = case.synced
    answer = asyncio.run(harness.ask(case.target, token=ADMIN))
    assert (answer.status, answer.body.decode()) == (case.status, case.body)
    assert answer.content_type == "text/plain; charset=utf-8"


@pytest.mark.parametrize("root", ["healthz", "livez", "readyz"])
def test_verbose_bodies_equal_the_recorded_ones(root: str, goldens: Path) -> None:
    answer = asyncio.run(ServingHarness(ManualClock()).ask(f"/{root}?verbose"))
    assert answer.body == (goldens / f"api/{root}.txt").read_bytes()


def test_a_root_without_checks_pings() -> None:
    routes = Routes()
    add_health_routes(routes, "healthz", (), lambda *_: None)
    answer = asyncio.run(routes.find("/healthz")(request("/healthz?verbose")))
    assert answer.body == b"[+]ping ok\nhealthz check passed\n"


def test_only_roots_report_results() -> None:
    seen: list[tuple[str, str, bool]] = []
    routes = Routes()
    checks = [HealthCheck("a", lambda: None), HealthCheck("b", lambda: "broken")]
    add_health_routes(routes, "readyz", checks, lambda *result: seen.append(result))
    asyncio.run(routes.find("/readyz/b")(request("/readyz/b")))
    assert seen == []
    asyncio.run(routes.find("/readyz")(request("/readyz?exclude=a")))
    assert seen == [("readyz", "b", False)]


def test_results_are_shown_as_slis() -> None:
    async def main() -> str:
        harness = ServingHarness(ManualClock())
        harness.synced.is_fine = False
        await harness.ask("/readyz")
        await harness.ask("/livez")
        return (await harness.ask("/metrics/slis", token=ADMIN)).body.decode()

    page = asyncio.run(main())
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1\n' in page
    assert 'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 0\n' in page
    assert (
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="error",type="readyz"} 1\n'
        in page
    )
