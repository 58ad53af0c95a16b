"""`kubesched run` as a process: signals, take-over and loss of the lease, server failures."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from kubesched.api import Event, Lease, LeaseSpec, ObjectMeta, Pod
from kubesched.api.events import Event as EventsEvent
from kubesched.testing import make_pod
from tests.integration.scheduler_cluster import Cluster, ended, run_steps, said_until


def test_a_process_leads_places_pods_writes_events_and_ends(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        await cluster.create_pods(f"p{number}" for number in range(20))
        await cluster.create(make_pod("big", requests={"cpu": "100"}, images=["i"]))
        async with cluster.scheduler() as process:
            await cluster.until_bound(20)
            process.send_signal(signal.SIGUSR2)
            said = await said_until(process, '"Dump of scheduling queue"')
            process.send_signal(signal.SIGTERM)
            code, rest = await ended(process)
            said += rest
        assert code == 0, said
        assert '"Starting Kubernetes Scheduler"' in said
        assert '"Requested to terminate, exiting"' in said
        assert "Traceback" not in said
        lease = await cluster.lease()
        assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("", 1)
        events = (await cluster.api.list(EventsEvent)).items
        reasons = Counter(event.reason for event in events)
        assert reasons["Scheduled"] == 20
        assert reasons["FailedScheduling"] == 1
        told = [
            event.message.split(" ", 1)[1]
            for event in (await cluster.api.list(Event)).items
            if event.reason == "LeaderElection"
        ]
        assert told == ["became leader", "stopped leading"]
        big = await cluster.api.get(Pod, "big", "default")
        (condition,) = big.status.conditions
        assert (condition.type, condition.reason) == ("PodScheduled", "Unschedulable")

    run_steps(tmp_path, steps)


# Files that a reload refuses, and a part of the reason.
BAD_FILES = {
    "": "Object 'Kind' is missing in ''",
    "kind: [": "yaml",
    "apiVersion: v1\nkind: Pod\n": "no kind",
    "profiles: {}\n": "profiles",
    "profiles: [{schedulerName: a}, {schedulerName: a}]\n": "Duplicate value",
    "profiles: [{plugins: {filter: {enabled: [{name: Nothing}]}}}]\n": "Nothing",
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: 3}}]}]\n": "scor",
    "percentageOfNodesToScore: 101\n": "percentageOfNodesToScore",
    "podMaxBackoffSeconds: 0\n": "podMaxBackoffSeconds",
    "parallelism: 3\n": "a change of parallelism needs a restart",
}


def test_a_hangup_reloads_the_file_and_bad_files_change_nothing(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        cluster.configure(more="profiles: [{schedulerName: first}]\n")
        async with cluster.scheduler() as process:
            await cluster.until_led()
            for number, (text, why) in enumerate(BAD_FILES.items()):
                if text.startswith(("profiles", "p")):
                    cluster.configure(more=text)
                else:
                    cluster.configure_with(text)
                process.send_signal(signal.SIGHUP)
                said = await said_until(process, '"Configuration was not reloaded"')
                assert why in said.splitlines()[-1], said
                name = f"p{number}"
                await cluster.create(make_pod(name, images=["i"], scheduler_name="first"))
            await cluster.create(make_pod("second", images=["i"], scheduler_name="second"))
            await cluster.until_bound(len(BAD_FILES))
            cluster.configure(more="profiles: [{schedulerName: second}, {schedulerName: first}]\n")
            process.send_signal(signal.SIGHUP)
            await said_until(process, '"Configuration reloaded"')
            await cluster.until_bound(len(BAD_FILES) + 1)
            process.send_signal(signal.SIGTERM)
            assert (await ended(process))[0] == 0
        events = (await cluster.api.list(Event)).items
        reasons = {event.reason: event for event in events}
        assert reasons.keys() >= {"ConfigurationRejected", "ConfigurationReloaded"}
        about = reasons["ConfigurationRejected"].involved_object
        assert (about.kind, about.namespace, about.name) == (
            "Lease",
            "kube-system",
            "kube-scheduler",
        )

    run_steps(tmp_path, steps)


def test_the_second_takes_over_when_the_first_is_killed(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        async with cluster.scheduler() as first:
            leader = await cluster.until_led()
            async with cluster.scheduler() as second:
                await cluster.create_pods(f"a{number}" for number in range(10))
                await cluster.until_bound(10)
                assert await cluster.until_led() == leader
                first.kill()
                await cluster.create_pods(f"b{number}" for number in range(10))
                await cluster.until_bound(20)
                lease = await cluster.lease()
                assert lease.spec.holder_identity != leader
                assert lease.spec.lease_transitions == 1
                second.send_signal(signal.SIGINT)
                assert (await ended(second))[0] == 0

    run_steps(tmp_path, steps)


def test_of_two_processes_that_start_together_one_leads(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        await cluster.create_pods(f"p{number}" for number in range(100))
        async with cluster.scheduler("-v=2") as first, cluster.scheduler("-v=2") as second:
            await cluster.until_bound(100)
            first.send_signal(signal.SIGTERM)
            second.send_signal(signal.SIGTERM)
            done = [(await ended(process))[1] for process in (first, second)]
        assert sorted(said.count("Successfully bound pod to node") for said in done) == [0, 100]

    run_steps(tmp_path, steps)


def test_a_leader_suspended_for_long_writes_nothing_when_it_resumes(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        async with cluster.scheduler("-v=2") as first:
            leader = await cluster.until_led()
            async with cluster.scheduler("-v=2") as second:
                await said_until(second, "Attempting to acquire leader lease")
                first.send_signal(signal.SIGSTOP)
                await cluster.create_pods(f"p{number}" for number in range(20))
                await said_until(second, "Successfully acquired lease")
                first.send_signal(signal.SIGCONT)
                await cluster.until_bound(20)
                code, said = await ended(first)
                assert code == 1
                assert '"Leaderelection lost"' in said
                assert "Successfully bound pod to node" not in said
                assert (await cluster.lease()).spec.holder_identity not in ("", leader)

    run_steps(tmp_path, steps)


def test_a_lease_that_is_taken_away_ends_the_process(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        async with cluster.scheduler() as process:
            await cluster.until_led()
            taking = asyncio.create_task(_keep_lease(cluster))
            code, said = await ended(process)
            taking.cancel()
        assert code == 1
        assert '"Leaderelection lost"' in said
        assert (await cluster.lease()).spec.holder_identity == "thief"

    run_steps(tmp_path, steps)


async def _keep_lease(cluster: Cluster) -> None:
    while True:
        await cluster.api.patch(
            Lease,
            "kube-scheduler",
            "kube-system",
            {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}},
            patch_type="merge",
        )
        await asyncio.sleep(0.01)


def test_a_standby_may_leave_its_caches_empty_until_it_leads(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        cluster.configure(more="delayCacheUntilActive: true\n")
        await cluster.create_pods(["p"])
        held = LeaseSpec(holder_identity="other", lease_duration_seconds=2)
        metadata = ObjectMeta(name="kube-scheduler", namespace="kube-system")
        await cluster.api.create(Lease(metadata=metadata, spec=held))
        async with cluster.scheduler("-v=4") as process:
            await said_until(process, "Lease is held by and has not yet expired")
            assert cluster.server.watches == 0
            await said_until(process, '"Sync completed"')
            assert cluster.server.watches > 0
            await cluster.until_bound(1)

    run_steps(tmp_path, steps)


def test_an_api_server_that_restarts_is_watched_again(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        await cluster.create_pods(["before"])
        async with cluster.scheduler("--leader-elect=false") as process:
            await cluster.until_bound(1)
            await cluster.server.stop()
            await cluster.create_pods(f"p{number}" for number in range(10))
            await asyncio.sleep(1)
            assert process.returncode is None
            await cluster.serve(cluster.port)
            pods = await cluster.until_bound(11)
            assert len({pod.metadata.uid for pod in pods}) == 11

    run_steps(tmp_path, steps)


def test_without_leader_election_a_signal_is_a_failure(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        await cluster.create_pods(["p"])
        async with cluster.scheduler("--leader-elect=false") as process:
            await cluster.until_bound(1)
            process.send_signal(signal.SIGTERM)
            code, said = await ended(process)
        assert code == 1
        assert '"command failed" err="finished without leader elect"' in said
        assert not (await cluster.api.list(Lease)).items

    run_steps(tmp_path, steps)


def test_an_invalid_kubeconfig_is_reported_in_one_line(tmp_path: Path) -> None:
    async def steps(cluster: Cluster) -> None:
        wrong = tmp_path / "wrong"
        wrong.write_text("kind: Config\ncurrent-context: x\n")
        cluster.configure(wrong)
        async with cluster.scheduler() as process:
            code, said = await ended(process)
        assert code == 1
        (line,) = said.splitlines()
        assert line.endswith(
            f'"command failed" err="{wrong}: current-context: there is no context named \'x\'"'
        )

    run_steps(tmp_path, steps)


LYING = """\
from kubesched.framework import Plugin, PodPart, Reads


class Lying(Plugin):
    name = "Lying"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def score(self, state, pod, node):
        everywhere = sum(len(each.pods) for each in self.handle.snapshot.nodes)
        return max(0, 100 - everywhere) if node.name < "n2" else 50
"""
ENABLED = """\
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Lying}]}}
"""


@pytest.mark.parametrize("flags", [(), ("--leader-elect=false",)])
def test_wrong_cache_declarations_end_a_verified_run(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    plugin = tmp_path / "lying.py"
    plugin.write_text(LYING)

    async def steps(cluster: Cluster) -> None:
        cluster.configure(more=ENABLED)
        await cluster.create_pods(f"p{number}" for number in range(20))
        async with cluster.scheduler("--verify-engine", f"--plugin={plugin}", *flags) as process:
            code, said = await ended(process)
        assert code == 1, said
        assert "the engine and a full evaluation differ" in said
        assert "Traceback" not in said

    run_steps(tmp_path, steps)
