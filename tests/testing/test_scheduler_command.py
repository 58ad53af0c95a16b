"""The whole of `kubesched run` in the test's own process, on a cluster of the test."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.api import Lease, Pod
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


def test_wrong_flags_end_the_cluster_with_the_commands_words() -> None:
    async def main() -> None:
        async with Cluster(nodes=0, scheduler_flags=["--no-such-flag"]) as cluster:
            await cluster.command.wait_until_stopped()

    with pytest.raises(BaseExceptionGroup) as raised:
        asyncio.run(main())
    assert "unknown flag: --no-such-flag" in str(raised.value.exceptions[0])
