"""Extreme numbers in objects must not fill the memory or block the event loop."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kubesched.api import (
    ApiError,
    Deployment,
    Job,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    ReplicationController,
    ResourceSlice,
    StatefulSet,
)
from kubesched.api.base import ApiObject
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.cluster.controllers import control_loop
from kubesched.cluster.controllers import pod_creation_limit as new_pods
from kubesched.cluster.controllers.control_loop import Controllers
from kubesched.cluster.controllers.terminated_pods import TerminatedPodCollector
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MICROSECOND, ManualClock, current_clock
from kubesched.foundation.util.components import running
from tests.cluster.controllers.test_devices import DRIVER, equip
from tests.cluster.controllers.test_volumes import run_on_cluster
from tests.cluster.controllers.workloads import Workloads, workload

Json = dict[str, Any]

MANY = 2**31 - 1


def replication_controller(replicas: int) -> Json:
    document = workload("many", {"replicas": replicas})
    document["spec"]["selector"] = document["spec"]["selector"]["matchLabels"]
    return document


def job(parallelism: int) -> Json:
    template = workload("many", {}, restartPolicy="Never")["spec"]["template"]
    spec = {"parallelism": parallelism, "completions": parallelism, "template": template}
    return {"metadata": {"name": "many"}, "spec": spec}


PARALLEL = {"replicas": MANY, "podManagementPolicy": "Parallel", "serviceName": "s"}
OWNERS: dict[type[ApiObject], Json] = {
    Deployment: workload("many", {"replicas": MANY}),
    ReplicaSet: workload("many", {"replicas": MANY}),
    ReplicationController: replication_controller(MANY),
    StatefulSet: workload("many", PARALLEL),
    Job: job(MANY),
}


@pytest.mark.parametrize("kind", OWNERS)
def test_no_owner_gets_more_pods_than_may_wait(
    kind: type[ApiObject], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_pods, "MOST_WAITING", 12)
    monkeypatch.setattr(new_pods, "MOST_AT_ONCE", 5)
    told: list[str] = []

    def record(_controller: str, _subject: Any, _kind: str, reason: str, message: str) -> None:
        if reason == "TooManyWaiting":
            told.append(message)

    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        async with running(Controllers(api, clock, events=record)):
            await api.create_document(kind, "default", OWNERS[kind])
            await asyncio.sleep(60)
            pods = (await api.list(Pod)).items
            assert len(pods) == 12
            assert told[-1].startswith("12 pods wait for a node: ")
            # One of the waiting pods has a node now, so another one may be created.
            await api.bind("default", pods[0].metadata.name, "", "n0")
            await asyncio.sleep(1)
            assert len((await api.list(Pod)).items) == 13

    virtual_loop.run(main, seed=0)


def ephemeral(modes: list[str]) -> Json:
    claim = {"spec": {"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}}}
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "volumes": [volume]}}


def test_refused_creations_are_retried_with_backoff() -> None:
    tries: list[int] = []

    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        create = api.create_document

        async def counted(kind: Any, namespace: str | None, document: Any) -> Any:
            tries.append(clock.now_ns())
            return await create(kind, namespace, document)

        async with running(Controllers(api, clock)):
            await asyncio.sleep(1)
            await create(Pod, "default", ephemeral(["n0"]))
            api.create_document = counted  # type: ignore[method-assign]
            await asyncio.sleep(100)

    virtual_loop.run(main, seed=0)
    assert 5 < len(tries) < 30


def test_a_long_plan_yields_to_other_tasks() -> None:
    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        async with running(Controllers(api, clock)):
            await asyncio.sleep(1)
            claim = ephemeral(["ReadWriteOnce"])["spec"]["volumes"][0]["ephemeral"]
            volumes = [{"name": f"v{number}", "ephemeral": claim} for number in range(450)]
            spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
            await api.create_document(Pod, "default", {"metadata": {"name": "p"}, "spec": spec})
            claims = api.store.collection(api.store.catalog.by_type(PersistentVolumeClaim))
            seen = set()
            for _ in range(1_000):
                seen.add(len(claims.objects))
                await asyncio.sleep(0)
            assert len(claims.objects) == len(volumes)
            assert len(seen) >= 5

    virtual_loop.run(main, seed=0)


def test_an_owner_of_many_objects_is_reconciled_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_loop, "_PAUSE_PER_OWNED_NS", 200 * MICROSECOND)
    looked: list[int] = []

    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        documents = api.document

        def counted(kind: Any, name: str, namespace: str | None = None) -> Any:
            if kind is ReplicaSet:
                looked.append(clock.now_ns())
            return documents(kind, name, namespace)

        api.document = counted  # type: ignore[method-assign]
        async with running(Controllers(api, clock)):
            await api.create_document(ReplicaSet, "default", workload("many", {"replicas": 100}))
            await asyncio.sleep(5)
            pods = (await api.list(Pod)).items
            assert len(pods) == 100
            looked.clear()
            # One change after the other, each of which triggers a plan for the owner.
            for pod in pods:
                patch = {"metadata": {"annotations": {"a": "b"}}}
                await api.patch(Pod, pod.metadata.name, "default", patch, patch_type="merge")
                await asyncio.sleep(0.01)

    virtual_loop.run(main, seed=0)
    assert 40 <= len(looked) <= 60  # every 20 ms, not every 10 ms


@pytest.mark.parametrize(
    "groups",
    [
        [{"driver": DRIVER, "count": 6_000}, {"driver": "other.example.com", "count": 6_000}],
        [{"driver": DRIVER, "count": 500, "partitions": 32}],
        [{"driver": DRIVER, "count": 1, "attributes": {f"a{n}": "x" for n in range(33)}}],
        [{"driver": DRIVER, "count": 1, "attributes": {"a": "x" * 65}}],
    ],
    ids=["groups together", "parts", "attributes", "long text"],
)
def test_a_node_with_too_many_devices_publishes_none(groups: list[Json]) -> None:
    async def test(harness: Workloads) -> None:
        await equip(harness, "n0", *groups)
        assert await harness.all(ResourceSlice) == []
        await equip(harness, "n0", {"driver": DRIVER, "count": 1})
        assert len(await harness.all(ResourceSlice)) == 1

    run_on_cluster(test)


def test_the_oldest_of_too_many_ended_pods_go() -> None:
    clock = ManualClock(now_ns=10**18)
    store = Store(random.Random(0), now_ns=clock.now_ns())
    pods = store.catalog.by_type(Pod)
    for number, phase in enumerate(["Succeeded", "Failed", "Running", "Succeeded", "Succeeded"]):
        body = {
            "metadata": {"name": f"p{number}"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        now_ns = 10**18 + number * 10**9
        store.create(pods, "default", body, now_ns)
        status = {"status": {"phase": phase}}
        where = (pods, "default", f"p{number}")
        store.patch(*where, status, now_ns, patch_type="merge", subresource="status")

    async def main() -> None:
        async with running(TerminatedPodCollector(store, current_clock(), most=2)):
            await asyncio.sleep(21)

    virtual_loop.run(main, seed=0)
    left = [record.data["metadata"]["name"] for record in store.collection(pods).objects.values()]
    assert left == ["p2", "p3", "p4"]


def other_labels(document: Json) -> Json:
    template = document["spec"]["template"]
    return {
        **document,
        "spec": {**document["spec"], "template": {**template, "metadata": {"labels": {"b": "c"}}}},
    }


def by_expression() -> Json:
    document = workload("many", {"replicas": 1})
    expressions = [{"key": "app", "operator": "NotIn", "values": ["many"]}]
    return {**document, "spec": {**document["spec"], "selector": {"matchExpressions": expressions}}}


STRANGERS: dict[str, tuple[type[ApiObject], Json]] = {
    "a Deployment": (Deployment, other_labels(OWNERS[Deployment])),
    "by expression": (ReplicaSet, by_expression()),
    "a ReplicationController": (
        ReplicationController,
        other_labels(OWNERS[ReplicationController]),
    ),
    "a Job": (
        Job,
        {
            "metadata": {"name": "many"},
            "spec": {
                **job(1)["spec"],
                "manualSelector": True,
                "selector": {"matchLabels": {"b": "c"}},
            },
        },
    ),
}


@pytest.mark.parametrize(("kind", "document"), STRANGERS.values(), ids=STRANGERS)
def test_an_owner_whose_selector_misses_its_template_is_refused(
    kind: type[ApiObject], document: Json
) -> None:
    async def test(harness: Workloads) -> None:
        with pytest.raises(ApiError, match="`selector` does not match template `labels`"):
            await harness.create(kind, document)

    run_on_cluster(test)


def test_a_replication_controller_needs_a_selector_and_a_template() -> None:
    async def test(harness: Workloads) -> None:
        with pytest.raises(ApiError) as refused:
            await harness.create(ReplicationController, {"metadata": {"name": "x"}, "spec": {}})
        text = "[spec.selector: Required value, spec.template: Required value]"
        assert str(refused.value).endswith(text)

    run_on_cluster(test)
