"""The whole of `kubesched run` in the test's own process, on a cluster of the test."""

from __future__ import annotations

import asyncio
import time

import pytest

from kubesched.api import Lease, LeaseSpec, ObjectMeta, Pod
from kubesched.api.plain_kinds import LeaseCandidate
from kubesched.api.time import format_micro_time
from kubesched.errors import KubeschedError
from kubesched.testing import Cluster, make_pod

FLAGS = ("--leader-elect=true", "--leader-elect-resource-name=under-test")


def test_a_process_serves_leads_places_pods_and_releases_its_lease() -> None:
    async def main() -> None:
        async with Cluster(nodes=1, scheduler_flags=FLAGS) as cluster:
            command = cluster.command
            async with asyncio.timeout(30):
                await command.wait_until_ready()
            assert await command.get("/healthz") == (200, "ok")
            await cluster.api.create(make_pod("p"))
            pod = await cluster.wait_for(Pod, "p", "PodScheduled", timeout_s=30)
            assert pod.spec.node_name == "node-0"
            lease = await cluster.api.get(Lease, "under-test", "kube-system")
            assert lease.spec.holder_identity.startswith("localhost_")
            status, metrics = await command.get("/metrics")
            assert status == 200
            assert 'leader_election_master_status{name="kube-scheduler"} 1' in metrics
            assert 'scheduler_schedule_attempts_total{profile="default-scheduler"' in metrics
            command.stop()
            async with asyncio.timeout(30):
                await command.wait_until_stopped()
            assert command.exit_code == 0
            lease = await cluster.api.get(Lease, "under-test", "kube-system")
            assert lease.spec.holder_identity == ""
            with pytest.raises(KubeschedError):
                await command.get("/healthz")

    asyncio.run(main())


def test_a_coordinated_process_is_a_candidate_and_leads_when_it_is_elected() -> None:
    flags = ("--leader-elect=true", "--feature-gates=CoordinatedLeaderElection=true")

    async def candidate_of(cluster: Cluster) -> str:
        watch = cluster.api.watch(
            LeaseCandidate, "kube-system", resource_version="", send_initial_events=True
        )
        async for event in watch:
            if event.object is not None:
                return event.object.metadata.name
        raise AssertionError("the watch has ended")

    async def main() -> None:
        async with Cluster(nodes=1, scheduler_flags=flags) as cluster, asyncio.timeout(60):
            await cluster.command.wait_until_ready()
            name = await candidate_of(cluster)
            assert name.startswith("localhost_")
            assert await cluster.command.get("/readyz/informer-sync") == (200, "ok")
            await cluster.api.create(make_pod("p"))
            now = format_micro_time(time.time_ns())
            spec = LeaseSpec(holder_identity=name, lease_duration_seconds=15, renew_time=now)
            metadata = ObjectMeta(name="kube-scheduler", namespace="kube-system")
            await cluster.api.create(Lease(metadata=metadata, spec=spec))
            pod = await cluster.wait_for(Pod, "p", "PodScheduled", timeout_s=30)
            assert pod.spec.node_name == "node-0"

    asyncio.run(main())


def test_invalid_scheduler_flags_end_the_cluster_with_the_commands_error() -> None:
    async def main() -> None:
        async with Cluster(nodes=0, scheduler_flags=["--no-such-flag"]) as cluster:
            await cluster.command.wait_until_stopped()

    with pytest.raises(BaseExceptionGroup) as raised:
        asyncio.run(main())
    assert "unknown flag: --no-such-flag" in str(raised.value.exceptions[0])
