from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesched.api import (
    ApiError,
    Container,
    ObjectMeta,
    Pod,
    PodReadinessGate,
    PodSpec,
    Status,
)
from kubesched.cluster.apiserver import Fault, Faults, LocalApi, Store
from kubesched.cluster.apiserver.store.resource_collection import RestoredObject
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.cluster.nodes.pod_behavior import RUN_DURATION, run_duration_ns
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run


class KubeletHarness:
    """A store and a kubelet, with their virtual clock."""

    def __init__(self, faults: Faults | None = None, **options: Any) -> None:
        self.clock: Clock = current_clock()
        store = Store(random.Random(0), now_ns=self.clock.now_ns())
        self.api = LocalApi(store, self.clock)
        reached = LocalApi(store, self.clock, faults=faults)
        self.kubelet = FakeKubelet(reached, self.clock, **options)

    async def pod(self, name: str = "p", node: str = "n", duration: str = "", **spec: Any) -> None:
        annotations = {RUN_DURATION: duration} if duration else {}
        metadata = ObjectMeta(name=name, namespace="default", annotations=annotations)
        spec.setdefault("containers", (Container(name="c", image="pause"),))
        await self.api.create(Pod(metadata=metadata, spec=PodSpec(**spec)))
        if node:
            await self.api.bind("default", name, "", node)

    async def get(self, name: str = "p") -> Pod:
        return await self.api.get(Pod, name, "default")

    async def names(self) -> list[str]:
        return [pod.metadata.name for pod in (await self.api.list(Pod)).items]

    async def after(self, seconds: float) -> None:
        await self.clock.sleep(round(seconds * SECOND))


def scenario(
    steps: Callable[[KubeletHarness], Awaitable[None]], faults: Faults | None = None, **options: Any
) -> None:
    async def main() -> None:
        harness = KubeletHarness(faults, **options)
        async with running(harness.kubelet):
            await steps(harness)

    run(main())


def test_a_bound_pod_starts_after_a_moment() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod()
        await harness.after(0.09)
        assert (await harness.get()).status.phase == "Pending"
        await harness.after(0.02)
        pod = await harness.get()
        assert pod.status.phase == "Running"
        assert pod.status.start_time == "2026-01-01T00:00:00Z"
        assert pod.status.pod_ip
        assert pod.status.pod_ips[0].ip == pod.status.pod_ip
        assert pod.status.host_ip
        conditions = {each.type: each.status for each in pod.status.conditions}
        wanted = ("PodScheduled", "Initialized", "Ready", "ContainersReady")
        assert {kind: conditions.get(kind) for kind in wanted} == dict.fromkeys(wanted, "True")
        (container,) = pod.status.container_statuses
        assert (container.name, container.ready) == ("c", True)
        assert container.state.running is not None

    scenario(steps)


def test_a_pod_without_a_node_is_not_changed() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod(node="")
        await harness.after(100)
        assert (await harness.get()).status.phase == "Pending"

    scenario(steps)


def test_pods_bound_before_the_start_are_run() -> None:
    async def main() -> None:
        harness = KubeletHarness()
        await harness.pod()
        async with running(harness.kubelet):
            await harness.after(1)
            assert (await harness.get()).status.phase == "Running"

    run(main())


@pytest.mark.parametrize("duration", ["90s", "1m30s", "90", "90.0"])
def test_a_pod_with_a_duration_ends_after_it(duration: str) -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod(duration=duration)
        await harness.after(89)
        assert (await harness.get()).status.phase == "Running"
        await harness.after(2)
        pod = await harness.get()
        assert pod.status.phase == "Succeeded"
        (container,) = pod.status.container_statuses
        assert container.state.terminated is not None
        assert container.state.running is None
        assert container.state.terminated.exit_code == 0
        ready = next(each for each in pod.status.conditions if each.type == "Ready")
        assert (ready.status, ready.reason) == ("False", "PodCompleted")

    scenario(steps)


@pytest.mark.parametrize("duration", ["", "soon", "-", "nan", "inf"])
def test_a_pod_without_a_readable_duration_runs_on(duration: str) -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod(duration=duration)
        await harness.after(10_000)
        assert (await harness.get()).status.phase == "Running"

    scenario(steps)


def test_a_deleted_pod_is_removed_after_a_moment() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod()
        await harness.after(1)
        await harness.api.delete(Pod, "p", "default")
        await harness.after(0.9)
        assert await harness.names() == ["p"]
        await harness.after(0.2)
        assert await harness.names() == []

    scenario(steps)


def test_a_slow_pod_is_removed_when_its_grace_period_ends() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod(termination_grace_period_seconds=20)
        await harness.after(1)
        await harness.api.delete(Pod, "p", "default")
        await harness.after(19)
        assert await harness.names() == ["p"]
        await harness.after(2)
        assert await harness.names() == []

    scenario(steps, stop_delay_ns=300 * SECOND)


def test_other_changes_do_not_delay_the_removal_of_a_pod() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod()
        await harness.after(1)
        await harness.api.delete(Pod, "p", "default")
        for number in range(10):
            await harness.after(0.3)
            if "p" not in await harness.names():
                break
            patch = {"metadata": {"annotations": {"n": str(number)}}}
            await harness.api.patch(Pod, "p", "default", patch)
        assert number == 3

    scenario(steps)


def test_a_pod_with_a_finalizer_stays_until_the_finalizer_is_removed() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod()
        patch = {"metadata": {"finalizers": ["example.com/f"]}}
        await harness.api.patch(Pod, "p", "default", patch)
        await harness.api.delete(Pod, "p", "default")
        await harness.after(100)
        assert (await harness.get()).metadata.deletion_grace_period_seconds == 0
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/f"]}}
        await harness.api.patch(Pod, "p", "default", patch)
        assert await harness.names() == []

    scenario(steps)


def test_a_pod_of_the_same_name_begins_again() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod(duration="10s")
        await harness.after(5)
        await harness.api.delete(Pod, "p", "default", grace_period_seconds=0)
        await harness.pod(duration="10s")
        await harness.after(7)
        assert (await harness.get()).status.phase == "Running"
        await harness.after(4)
        assert (await harness.get()).status.phase == "Succeeded"

    scenario(steps)


def test_sidecars_run_and_other_init_containers_have_ended() -> None:
    async def steps(harness: KubeletHarness) -> None:
        init = (
            Container(name="setup", image="x"),
            Container(name="sidecar", image="x", restart_policy="Always"),
        )
        await harness.pod(init_containers=init)
        await harness.after(1)
        setup, sidecar = (await harness.get()).status.init_container_statuses
        assert setup.state.terminated is not None
        assert sidecar.state.running is not None

    scenario(steps)


def test_a_pod_is_ready_only_when_its_gates_are_open() -> None:
    async def steps(harness: KubeletHarness) -> None:
        await harness.pod(readiness_gates=(PodReadinessGate(condition_type="example.com/ok"),))
        await harness.after(1)
        conditions = (await harness.get()).status.conditions
        ready = next(each for each in conditions if each.type == "Ready")
        assert (ready.status, ready.reason) == ("False", "ReadinessGatesNotReady")

    scenario(steps)


def test_nodes_have_one_address_and_pods_have_their_own() -> None:
    async def steps(harness: KubeletHarness) -> None:
        for number in range(10):
            await harness.pod(f"p{number}", node=f"n{number % 2}")
        await harness.after(1)
        pods = (await harness.api.list(Pod)).items
        assert len({pod.status.pod_ip for pod in pods}) == 10
        assert len({(pod.spec.node_name, pod.status.host_ip) for pod in pods}) == 2
        assert len({pod.status.host_ip for pod in pods}) == 2

    scenario(steps)


def test_failed_reports_and_broken_watches_are_retried() -> None:
    rng = random.Random(5)
    broken = ApiError(Status(status="Failure", message="injected", code=0))

    def faults(verb: str, *request: Any) -> Fault | None:
        return Fault(error=broken) if rng.random() < 0.5 else None

    async def steps(harness: KubeletHarness) -> None:
        for number in range(20):
            await harness.pod(f"p{number}", duration="5s")
        await harness.after(120)
        phases = {pod.status.phase for pod in (await harness.api.list(Pod)).items}
        assert phases == {"Succeeded"}

    scenario(steps, faults)


def test_a_slow_answer_for_one_pod_does_not_hold_up_others() -> None:
    def faults(verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
        return Fault(delay_ns=50 * SECOND) if (verb, name) == ("patch", "a") else None

    async def steps(harness: KubeletHarness) -> None:
        await harness.pod("a")
        await harness.pod("b")
        await harness.after(1)
        assert (await harness.get("a")).status.phase == "Pending"
        assert (await harness.get("b")).status.phase == "Running"

    scenario(steps, faults)


def test_a_report_that_changes_nothing_is_not_made_again_and_again() -> None:
    """Of a pod without a generation, as files have them, no generation is reported."""
    odd = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "observedGeneration": 7},
    }

    async def main() -> None:
        harness = KubeletHarness()
        harness.api.store.restore([RestoredObject("pods", "default/p", 1, odd)], 1)
        async with running(harness.kubelet):
            await harness.after(5)
            pod = await harness.get()
        assert pod.status.container_statuses[0].state.running is not None

    run(main(), max_passes=1000)  # at one moment


def test_the_kubelet_stops_at_once_while_it_waits() -> None:
    async def main() -> None:
        harness = KubeletHarness(start_delay_ns=1000 * SECOND)
        task = asyncio.create_task(harness.kubelet.run())
        await harness.pod()
        await harness.after(1)
        harness.kubelet.stop()
        await task
        assert harness.clock.monotonic_ns() < 2 * SECOND

    run(main())


def test_many_pods_start_at_the_same_time() -> None:
    async def steps(harness: KubeletHarness) -> None:
        for number in range(200):
            await harness.pod(f"p{number}")
        await harness.after(0.11)
        phases = [pod.status.phase for pod in (await harness.api.list(Pod)).items]
        assert phases == ["Running"] * 200
        assert harness.clock.monotonic_ns() == 110 * MILLISECOND

    scenario(steps)


@pytest.mark.parametrize(
    ("text", "want"),
    [("90s", 90 * SECOND), ("1.5", 1_500_000_000), ("0", 0), ("1h", 3600 * SECOND), ("x", None)],
)
def test_durations(text: str, want: int | None) -> None:
    assert run_duration_ns(Pod(metadata=ObjectMeta(annotations={RUN_DURATION: text}))) == want
