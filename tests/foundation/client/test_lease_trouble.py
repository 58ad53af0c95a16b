"""What a replica reports while requests about its lease fail, in virtual time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client.registry import CollectorRegistry

from kubesched.api import ApiError, Lease, LeaseSpec, ObjectMeta, Status
from kubesched.cluster.apiserver import Fault, LocalApi, Store
from kubesched.foundation.client.leader_election import ElectionSettings, LeaderElector
from kubesched.foundation.metrics.client_metrics import LeaderElectionMetrics
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run

REASON = 'leases "kubesched" is forbidden: User "s" cannot get resource "leases"'
REFUSED = ApiError(Status(status="Failure", code=403, message=REASON))
LOST = ApiError(Status(status="Failure", code=0, message="connection lost"))


class TroubleHarness:
    """An elector whose requests fail with one fault, until it is removed."""

    def __init__(self, fault: Fault | None) -> None:
        self.fault = fault
        clock = current_clock()
        store = Store(random.Random(0))
        self.api = LocalApi(store, clock)
        self._registry = CollectorRegistry()
        self.elector = LeaderElector(
            LocalApi(store, clock, faults=lambda *_: self.fault),
            clock,
            random.Random(0),
            ElectionSettings(identity="me", name="kubesched"),
            metrics=LeaderElectionMetrics(self._registry),
        )

    @property
    def metric(self) -> float | None:
        return self._registry.get_sample_value("kubesched_leader_election_failing")

    @property
    def problem(self) -> str | None:
        return self.elector.trouble.problem()


def virtually(steps: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await steps()

    run(main)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_refusal_is_logged_at_once_and_then_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def steps() -> None:
        harness = TroubleHarness(Fault(error=REFUSED))
        assert harness.problem is None
        async with running(harness.elector):
            await asyncio.sleep(1)
            (first,) = lines(caplog)
            assert first.startswith("Error retrieving lease lock")
            assert "forbidden" in first
            await asyncio.sleep(599)
            _, *repeated = lines(caplog)
            # Requests have a jitter, so a line may come up to 4.4 s after its minute.
            assert len(repeated) == 9
            for line in repeated:
                assert line.startswith("The lease cannot be acquired; without it this replica")
                assert "forbidden" in line
                assert "kube-system/kubesched" in line

    virtually(steps)


def test_a_refusal_is_a_problem_at_once_until_the_lease_is_acquired() -> None:
    async def steps() -> None:
        harness = TroubleHarness(Fault(error=REFUSED))
        async with running(harness.elector):
            await asyncio.sleep(1)
            assert harness.problem == f"lease kube-system/kubesched cannot be acquired: {REASON}"
            assert harness.metric == 1
            harness.fault = None
            await harness.elector.leading.wait()
            assert (harness.problem, harness.metric) == (None, 0)

    virtually(steps)


def test_a_lease_of_another_replica_is_no_failure() -> None:
    async def steps() -> None:
        harness = TroubleHarness(Fault(error=REFUSED))
        spec = LeaseSpec(holder_identity="other", lease_duration_seconds=3600)
        metadata = ObjectMeta(name="kubesched", namespace="kube-system")
        await harness.api.create(Lease(metadata=metadata, spec=spec))
        async with running(harness.elector):
            await asyncio.sleep(1)
            assert harness.problem is not None
            harness.fault = None
            await asyncio.sleep(5)
            assert (harness.problem, harness.metric) == (None, 0)

    virtually(steps)


@pytest.mark.parametrize(
    # An attempt without a response is abandoned after 15 s.
    ("fault", "first_failure_s"),
    [(Fault(error=LOST), 0), (Fault(delay_ns=3600 * SECOND), 15)],
)
def test_an_unavailable_server_is_a_problem_after_the_renew_deadline(
    fault: Fault, first_failure_s: float
) -> None:
    async def steps() -> None:
        harness = TroubleHarness(fault)
        async with running(harness.elector):
            await asyncio.sleep(first_failure_s + 0.1)
            assert harness.metric == 1
            await asyncio.sleep(9)
            assert harness.problem is None
            await asyncio.sleep(2)
            assert harness.problem is not None

    virtually(steps)
