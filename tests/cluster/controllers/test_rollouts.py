"""Deployments: surge and unavailability, progress deadlines, recreation, rollbacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kubesched.api import DaemonSet, Deployment, Pod, ReplicaSet
from kubesched.api.apps import ControllerRevision
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workload, workloads

BAD = "webserver:404"


def run_on_cluster(test: Callable[[Workloads], Awaitable[None]], nodes: int = 1) -> None:
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

    run_on_cluster(test)


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

    run_on_cluster(test)


def test_recreate_waits_for_the_end_of_the_last_old_pod() -> None:
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

    run_on_cluster(test)


def test_a_daemon_set_rollback_retains_pods_that_already_match() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(DaemonSet, workload("web", {}))
        await harness.settle(5)
        before = {pod.metadata.uid for pod in await harness.pods()}
        await roll(harness, DaemonSet, BAD)
        await harness.settle(10)
        pods = await harness.pods()
        broken = [pod for pod in pods if pod.spec.containers[0].image == BAD]
        assert len(broken) == 1  # the first pod blocks the others
        await roll(harness, DaemonSet, "nginx")
        await harness.settle(10)
        after = await harness.pods()
        assert {pod.spec.containers[0].image for pod in after} == {"nginx"}
        assert len({pod.metadata.uid for pod in after} & before) == 2
        revisions = sorted(each.revision for each in await harness.all(ControllerRevision))
        assert revisions == [2, 3]
        marks = {pod.metadata.labels["controller-revision-hash"] for pod in after}
        assert len(marks) == 1

    run_on_cluster(test, nodes=3)


def test_behavior_annotations_of_an_owner_apply_to_its_pods() -> None:
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

    run_on_cluster(test)


def test_a_paused_deployment_is_scaled_without_a_rollout() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Deployment, workload("web", {"replicas": 2}))
        await harness.settle(5)
        await harness.patch(Deployment, "web", {"spec": {"paused": True}})
        await roll(harness, Deployment, "nginx:2")
        await harness.patch(Deployment, "web", {"spec": {"replicas": 5}})
        await harness.settle(5)
        assert await sizes(harness) == {"nginx": 5}
        assert conditions(harness)["Progressing"] == ("Unknown", "DeploymentPaused")
        assert conditions(harness)["Available"] == ("True", "MinimumReplicasAvailable")
        await harness.patch(Deployment, "web", {"spec": {"paused": None}})
        await harness.settle(10)
        assert await sizes(harness) == {"nginx": 0, "nginx:2": 5}
        assert conditions(harness)["Progressing"] == ("True", "NewReplicaSetAvailable")

    run_on_cluster(test)


def test_a_pause_in_the_middle_of_a_rollout_retains_both_versions() -> None:
    async def test(harness: Workloads) -> None:
        strategy = {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0},
        }
        await harness.create(Deployment, workload("web", {"replicas": 4, "strategy": strategy}))
        await harness.settle(5)
        await roll(harness, Deployment, BAD)
        await harness.settle(5)
        assert await sizes(harness) == {"nginx": 4, BAD: 2}
        await harness.patch(Deployment, "web", {"spec": {"paused": True}})
        await harness.settle(5)
        assert await sizes(harness) == {"nginx": 4, BAD: 2}
        await harness.patch(Deployment, "web", {"spec": {"replicas": 10}})
        await harness.settle(5)
        # 12 may be there: 4 and 2 of 6 become 8 and 4.
        assert await sizes(harness) == {"nginx": 8, BAD: 4}

    run_on_cluster(test)


def test_a_set_that_becomes_the_newest_again_has_its_history() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Deployment, workload("web", {"replicas": 1}))
        for image in ("nginx:2", "nginx", "nginx:2", "nginx"):
            await harness.settle(5)
            await roll(harness, Deployment, image)
        await harness.settle(5)
        prefix = "deployment.kubernetes.io/revision"
        seen = {
            each.spec.template.spec.containers[0].image: (
                each.metadata.annotations[prefix],
                each.metadata.annotations[f"{prefix}-history"],
            )
            for each in await harness.all(ReplicaSet)
        }
        assert seen == {"nginx": ("5", "1,3"), "nginx:2": ("4", "2")}

    run_on_cluster(test)
