"""Suggestions applied to an embedded cluster: the server accepts them, and the pod is placed.

The cluster has the store's validation and admission, controllers, kubelets and the scheduler, in
virtual time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import (
    ApiError,
    Container,
    Namespace,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PriorityClass,
    Status,
    StorageClass,
)
from kubesched.api.kinds import KINDS, by_api_version_kind
from kubesched.api.runtime_class import RuntimeClass, RuntimeClassOverhead
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.controllers.volume_provisioning import PROVISIONER
from kubesched.dashboard.bad_request import BadRequestError
from kubesched.dashboard.edit_transaction import apply_edits
from kubesched.explain import Snapshot
from kubesched.explain.clusters.virtual_cluster import VirtualCluster
from kubesched.explain.explanation import Suggestion
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND
from tests.explain.causes import CAUSES as USUAL
from tests.explain.causes import Cause, nodes
from tests.explain.device_causes import DEVICES
from tests.explain.domain_causes import DOMAINS
from tests.explain.unusual_causes import UNUSUAL

CAUSES = {**USUAL, **UNUSUAL, **DEVICES, **DOMAINS}


def complete(given: Iterable[Any]) -> list[Any]:
    """The objects as a server has them: images, limits, classes, volumes with their claims."""
    objects = list(given)
    claims = {
        each.spec.volume_name: each for each in objects if isinstance(each, PersistentVolumeClaim)
    }
    made: list[Any] = []
    for each in objects:
        if isinstance(each, PersistentVolume) and each.metadata.name in claims:
            each = bound_to(each, claims[each.metadata.name])
        if isinstance(each, PersistentVolumeClaim) and each.spec.volume_name:
            each = replace(each, status=replace(each.status, phase="Bound"))
        if isinstance(each, StorageClass) and each.provisioner == "csi.example.com":
            each = replace(each, provisioner=PROVISIONER)  # the only provisioner that runs here
        if isinstance(each, Pod):
            spec = replace(
                each.spec,
                containers=tuple(map(completed, each.spec.containers or (Container(name="c"),))),
                init_containers=tuple(map(completed, each.spec.init_containers)),
            )
            for cluster_object, changes in prerequisites(spec):
                made += [] if cluster_object in made else [cluster_object]
                spec = replace(spec, **changes)
            each = replace(each, spec=spec)
        made.append(each)
    return made


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    metadata = claim.metadata
    reference = ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
    )
    status = replace(volume.status, phase="Bound")
    return replace(volume, spec=replace(volume.spec, claim_ref=reference), status=status)


def completed(container: Container) -> Container:
    own = container.resources
    extended = {name: amount for name, amount in own.requests.items() if "/" in name}
    resources = replace(own, limits={**own.limits, **extended})
    return replace(container, image=container.image or "example.com/c", resources=resources)


def prerequisites(spec: PodSpec) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Objects that a server requires, and how the pod refers to them."""
    if spec.priority and not spec.priority_class_name:
        name = f"class-{spec.priority}-{spec.preemption_policy or 'any'}".lower()
        yield (
            PriorityClass(
                metadata=ObjectMeta(name=name),
                value=spec.priority,
                preemption_policy=spec.preemption_policy,
            ),
            {"priority_class_name": name},
        )
    if spec.overhead:
        overhead = RuntimeClassOverhead(pod_fixed=spec.overhead)
        made = RuntimeClass(metadata=ObjectMeta(name="heavy"), handler="heavy", overhead=overhead)
        yield made, {"runtime_class_name": "heavy"}


async def explained(objects: list[Any], pod: Pod) -> tuple[Suggestion, ...]:
    answer = Snapshot(objects).explain(pod)
    preempts = answer.preemption is not None and answer.preemption.possible
    return answer.suggestions if answer.verdict == "pending" and not preempts else ()


async def is_placed(cluster: VirtualCluster, pod: Pod) -> bool:
    """Wait a minute; return whether the pod, or its replacement by the controller, has a node."""
    for _ in range(60):
        await cluster.clock.sleep(SECOND)
        for each in (await cluster.pods()).values():
            if each.metadata.namespace != pod.metadata.namespace or not each.spec.node_name:
                continue
            has_owners = pod.metadata.owner_references and each.metadata.owner_references
            if each.metadata.name == pod.metadata.name or has_owners:
                return True
    return False


def problems_of(cause: Cause) -> list[str]:
    """Apply every suggestion to a cluster of its own; return those that do not help."""
    objects = complete((*cause.objects, cause.pod))
    pod = objects[-1]
    suggestions = virtual_loop.run(lambda: explained(objects, pod))

    async def applied(suggestion: Suggestion) -> str:
        cluster = VirtualCluster()
        await cluster.copy_objects(objects)
        async with cluster.running():
            await cluster.clock.sleep(2 * SECOND)
            edits = [msgspec.to_builtins(each) for each in suggestion.edits]
            try:
                await apply_edits(cluster.api, edits, cluster.clock)
            except BadRequestError as error:
                return f"{suggestion.change}: refused: {error}"
            return "" if await is_placed(cluster, pod) else f"{suggestion.change}: not placed"

    found = [
        virtual_loop.run(lambda each=each: applied(each)) for each in suggestions if each.edits
    ]
    return [each for each in found if each]


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_every_suggestion_that_is_applied_places_the_pod(cause: Cause) -> None:
    assert not problems_of(cause)


TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [
            {"name": "c", "image": "c", "resources": {"requests": {"cpu": "8"}}},
            {"name": "proxy", "image": "c"},
        ],
        "tolerations": [{"key": "other", "operator": "Exists"}],
        "priorityClassName": "low",
    },
}
SELECTOR = {"matchLabels": {"app": "web"}}
SPEC = {"selector": SELECTOR, "template": TEMPLATE}
WORKLOADS: dict[str, Any] = {
    "deployments": ("apps/v1", "Deployment", {"replicas": 1, **SPEC}),
    "statefulsets": ("apps/v1", "StatefulSet", {"replicas": 1, "serviceName": "web", **SPEC}),
    "replicasets": ("apps/v1", "ReplicaSet", {"replicas": 1, **SPEC}),
    "daemonsets": ("apps/v1", "DaemonSet", SPEC),
    "jobs": (
        "batch/v1",
        "Job",
        {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}},
    ),
    "replicationcontrollers": (
        "v1",
        "ReplicationController",
        {"replicas": 1, "selector": {"app": "web"}, "template": TEMPLATE},
    ),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_of_a_workload_is_changed_in_the_template(name: str) -> None:
    api_version, kind, spec = WORKLOADS[name]
    found = by_api_version_kind(api_version, kind)
    assert found is not None
    workload = msgspec.convert(
        {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}, found.type
    )
    taints = ["dedicated=search:NoSchedule"]
    low = PriorityClass(metadata=ObjectMeta(name="low"), value=5)

    async def applied(change: str) -> None:
        cluster = VirtualCluster()
        shop = Namespace(metadata=ObjectMeta(name="shop"))
        await cluster.copy_objects([low, shop, *nodes("a"), *nodes("b", taints=taints)])
        async with cluster.running():
            await cluster.clock.sleep(SECOND)
            await cluster.api.create(workload)
            await cluster.clock.sleep(5 * SECOND)
            pod = next(iter((await cluster.pods()).values()))
            assert not pod.spec.node_name
            objects = [each for kind in KINDS for each in cluster.api.present(kind.type)]
            suggestions = [
                each
                for each in Snapshot(objects).explain(pod).suggestions
                if each.change.startswith(change)
            ]
            (chosen,) = suggestions
            assert f", in the template of {kind} shop/web" in chosen.change
            edits = [msgspec.to_builtins(each) for each in chosen.edits]
            await apply_edits(cluster.api, edits, cluster.clock)
            assert await is_placed(cluster, pod), chosen.edits
            changed = await cluster.api.get(found.type, "web", "shop")
            template = changed.spec.template  # type: ignore[attr-defined]
            (c, proxy) = template.spec.containers
            assert (c.resources.requests, proxy.resources.requests) == ({"cpu": "4"}, {})
            assert [each.key for each in template.spec.tolerations] == ["other"]

    virtual_loop.run(lambda: applied("request cpu <= 4 (asks 8), in"))


def test_a_deleted_object_is_restored_if_the_creation_fails() -> None:
    cause = USUAL["not enough free cpu"]
    objects = complete((*cause.objects, cause.pod))
    pod = objects[-1]
    refused = ApiError(Status(code=500, reason="InternalError", message="no room in etcd"))

    async def main() -> None:
        cluster = VirtualCluster()
        await cluster.copy_objects(objects)
        (change,) = [
            each for each in Snapshot(objects).explain(pod).suggestions if each.kind == "pod"
        ][:1]
        edits = [msgspec.to_builtins(each) for each in change.edits]
        assert [each["action"] for each in edits] == ["recreate"]
        fails = [True]

        def faults(verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
            return Fault(error=refused) if verb == "create" and fails.pop() else None

        fails = [False, True]  # the first creation fails; the one that restores the object does not
        api = LocalApi(cluster.api.store, cluster.clock, faults=faults)
        with pytest.raises(BadRequestError, match=r"no room in etcd.*has been restored"):
            await apply_edits(api, edits, cluster.clock)
        restored = await cluster.api.get(Pod, pod.metadata.name, pod.metadata.namespace)
        requests = [each.resources.requests for each in restored.spec.containers]
        assert requests == [each.resources.requests for each in pod.spec.containers]
        # What the server refuses by its rules changes nothing at all.
        before = cluster.api.store.revision
        edits[0]["document"]["spec"]["priority"] = 77
        api = LocalApi(cluster.api.store, cluster.clock)
        with pytest.raises(BadRequestError, match=r"priority.*nothing has been changed"):
            await apply_edits(api, edits, cluster.clock)
        assert cluster.api.store.revision == before

    virtual_loop.run(main)
