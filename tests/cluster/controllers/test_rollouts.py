"""Deployments: surge and unavailability, progress deadlines, recreation, rollbacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kubesched.api import DaemonSet, Deployment, Pod, ReplicaSet
from kubesched.api.apps import ControllerRevision
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workload, workloads

BAD = "webserver:404"


def story(test: Callable[[Workloads], Awaitable[None]], nodes: int = 1) -> None:
    async def main() -> None:
        async with workloads(nodes) as harness:
            await test(harness)

    run(main)


async def roll(harness: Workloads, kind: Any, image: str) -> None:
    template = workload("web", {}, image=image)["spec"]["template"]
    await harness.patch(kind, "web", {"spec": {"template": template}})


async def sizes(harness: Workloads) -> dict[str, int]:
    return {
        each.spec.template.spec.containers[0].image: each.spec.replicas or 0
        for each in await harness.all(ReplicaSet)
    }


def conditions(harness: Workloads) -> dict[str, tuple[str, str]]:
    status = harness.document(Deployment, "web")["status"]
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def test_a_change_of_size_in_the_middle_of_a_rollout_is_shared() -> None:
    async def test(harness: Workloads) -> None:
        rolling = {"maxSurge": 3, "maxUnavailable": 2}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
        await harness.create(Deployment, workload("web", {"replicas": 10, "strategy": strategy}))
        await harness.settle(5)
        await roll(harness, Deployment, BAD)
        await harness.settle(5)
        assert await sizes(harness) == {"nginx": 8, BAD: 5}
        await harness.patch(Deployment, "web", {"spec": {"replicas": 30}})
        await harness.settle(5)
        # 33 may be there: 8 and 5 of 13 become 20 and 13.
        assert await sizes(harness) == {"nginx": 20, BAD: 13}

    story(test)


def test_a_rollout_that_makes_no_progress_has_failed_until_it_does() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(
            Deployment, workload("web", {"replicas": 2, "progressDeadlineSeconds": 30})
        )
        await harness.settle(5)
        await roll(harness, Deployment, BAD)
        await harness.settle(20)
        assert conditions(harness)["Progressing"] == ("True", "ReplicaSetUpdated")
        await harness.settle(20)
        assert conditions(harness)["Progressing"] == ("False", "ProgressDeadlineExceeded")
        await roll(harness, Deployment, "nginx")
        await harness.settle(10)
        assert conditions(harness)["Progressing"] == ("True", "NewReplicaSetAvailable")
        assert await sizes(harness) == {"nginx": 2, BAD: 0}

    story(test)


def test_recreation_waits_for_the_last_old_pod_to_be_gone() -> None:
    async def test(harness: Workloads) -> None:
        spec = {"replicas": 2, "strategy": {"type": "Recreate"}}
        document = workload("web", spec)
        notes = {"kubesched.io/stop-delay": "10s"}
        document["spec"]["template"]["metadata"]["annotations"] = notes
        await harness.create(Deployment, document)
        await harness.settle(5)
        await roll(harness, Deployment, "nginx:2")
        for _ in range(30):
            await harness.settle(1)
            images = {pod.spec.containers[0].image for pod in await harness.pods()}
            assert len(images) <= 1
        assert images == {"nginx:2"}

    story(test)


def test_a_daemon_set_goes_back_without_touching_what_is_as_it_should_be() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(DaemonSet, workload("web", {}))
        await harness.settle(5)
        before = {pod.metadata.uid for pod in await harness.pods()}
        await roll(harness, DaemonSet, BAD)
        await harness.settle(10)
        pods = await harness.pods()
        broken = [pod for pod in pods if pod.spec.containers[0].image == BAD]
        assert len(broken) == 1  # the first one holds up the others
        await roll(harness, DaemonSet, "nginx")
        await harness.settle(10)
        after = await harness.pods()
        assert {pod.spec.containers[0].image for pod in after} == {"nginx"}
        assert len({pod.metadata.uid for pod in after} & before) == 2
        revisions = sorted(each.revision for each in await harness.all(ControllerRevision))
        assert revisions == [2, 3]
        marks = {pod.metadata.labels["controller-revision-hash"] for pod in after}
        assert len(marks) == 1

    story(test, nodes=3)


def test_how_an_owner_says_its_pods_behave_reaches_them() -> None:
    async def test(harness: Workloads) -> None:
        document = workload("web", {"replicas": 1})
        document["metadata"]["annotations"] = {"kubesched.io/ready-delay": "never"}
        await harness.create(Deployment, document)
        await harness.settle(5)
        (pod,) = await harness.pods()
        assert pod.metadata.annotations["kubesched.io/ready-delay"] == "never"
        status = harness.document(Deployment, "web")["status"]
        assert status.get("availableReplicas", 0) == 0
        assert (await harness.get(Pod, pod.metadata.name)).status.phase == "Running"

    story(test)
