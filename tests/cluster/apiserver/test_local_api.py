from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import (
    ApiAccess,
    ApiError,
    Container,
    Lease,
    LeaseSpec,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Status,
    WatchEvent,
)
from kubesched.cluster.apiserver import Fault, Faults, LocalApi, Store
from kubesched.errors import DeadlockError
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.virtual_loop import run


def make_api(faults: Faults | None = None, **options: Any) -> LocalApi:
    clock = current_clock()
    store = Store(random.Random(0), now_ns=clock.now_ns(), **options)
    return LocalApi(store, clock, faults=faults)


def make_pod(name: str, **metadata: Any) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", **metadata),
        spec=PodSpec(containers=(Container(name="c", image="pause"),)),
    )


def failure(code: int) -> ApiError:
    return ApiError(Status(status="Failure", message="injected", code=code))


def step(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that must complete without waiting."""
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    return stopped.value.value


def test_a_local_api_implements_api_access() -> None:
    async def main() -> None:
        access: ApiAccess = make_api()
        created = await access.create(make_pod("p"))
        assert created.spec.scheduler_name == "default-scheduler"
        assert await access.get(Pod, "p", "default") == created
        listed = await access.list(Pod)
        assert list(listed.items) == [created]
        assert listed.resource_version == created.metadata.resource_version
        await access.bind("default", "p", created.metadata.uid, "n")
        bound = await access.get(Pod, "p", "default")
        assert bound.spec.node_name == "n"
        await access.delete(Pod, "p", "default", grace_period_seconds=0)
        with pytest.raises(ApiError) as refused:
            await access.get(Pod, "p", "default")
        assert (refused.value.code, refused.value.reason) == (404, "NotFound")

    run(main())


def test_requests_need_no_turn_of_the_loop() -> None:
    async def main() -> LocalApi:
        return make_api()

    api = run(main())
    created = step(api.create(make_pod("p")))
    step(api.bind("default", "p", "", "n"))
    watch = api.watch(Pod, resource_version=created.metadata.resource_version)
    assert step(anext(watch)).object.spec.node_name == "n"
    step(api.delete(Pod, "p", "default"))


def test_readers_share_one_object_per_version() -> None:
    async def main() -> None:
        api = make_api()
        await api.create(make_pod("p"))
        assert await api.get(Pod, "p", "default") is await api.get(Pod, "p", "default")

    run(main())


def test_an_update_preserves_undeclared_fields() -> None:
    async def main() -> None:
        api = make_api()
        pods = api.store.catalog.by_type(Pod)
        env = [{"name": "A", "value": "1"}]
        body = {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "x", "env": env}]},
        }
        api.store.create(pods, "default", body, 0)
        pod = await api.get(Pod, "p", "default")
        containers = tuple(replace(each, image="y") for each in pod.spec.containers)
        changed = replace(pod, spec=replace(pod.spec, containers=containers))
        updated = await api.update(changed)
        assert updated.spec.containers[0].image == "y"
        assert api.store.get(pods, "default", "p").data["spec"]["containers"][0]["env"] == env

    run(main())


def test_an_update_can_take_things_away() -> None:
    async def main() -> None:
        api = make_api()
        node = await api.create(
            Node(
                metadata=ObjectMeta(name="n", labels={"a": "b"}), spec=NodeSpec(unschedulable=True)
            )
        )
        node = await api.update(
            replace(
                node, metadata=replace(node.metadata, labels={}), spec=NodeSpec(unschedulable=False)
            )
        )
        assert node.metadata.labels == {}
        assert not node.spec.unschedulable
        stored = api.store.get(api.store.catalog.by_type(Node), None, "n").data
        assert "labels" not in stored["metadata"]

    run(main())


def test_a_stale_update_is_a_conflict() -> None:
    async def main() -> None:
        api = make_api()
        lease = Lease(
            metadata=ObjectMeta(name="l", namespace="kube-system"),
            spec=LeaseSpec(holder_identity="me"),
        )
        first = await api.create(lease)
        await api.update(replace(first, spec=replace(first.spec, holder_identity="you")))
        with pytest.raises(ApiError) as refused:
            await api.update(replace(first, spec=replace(first.spec, holder_identity="they")))
        assert (refused.value.code, refused.value.reason) == (409, "Conflict")
        assert (await api.get(Lease, "l", "kube-system")).spec.holder_identity == "you"

    run(main())


def test_a_status_update_leaves_the_rest() -> None:
    async def main() -> None:
        api = make_api()
        node = await api.create(Node(metadata=ObjectMeta(name="n")))
        attempt = replace(
            node,
            spec=NodeSpec(unschedulable=True),
            status=NodeStatus(capacity={"cpu": "2"}, allocatable={"cpu": "2"}),
        )
        changed = await api.update(attempt, subresource="status")
        assert not changed.spec.unschedulable
        assert changed.status.capacity == {"cpu": "2"}

    run(main())


def test_a_patch_of_the_status_returns_the_new_object() -> None:
    async def main() -> None:
        api = make_api()
        await api.create(make_pod("p"))
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        patch = {"status": {"conditions": [condition], "nominatedNodeName": "n"}}
        pod = await api.patch(Pod, "p", "default", patch, subresource="status")
        assert pod.status.nominated_node_name == "n"
        assert pod.status.conditions[0].reason == "Unschedulable"
        assert pod.status.qos_class == "BestEffort"

    run(main())


def test_a_new_object_must_have_its_namespace() -> None:
    async def main() -> None:
        with pytest.raises(ApiError, match="an empty namespace may not be set during creation"):
            await make_api().create(Pod(metadata=ObjectMeta(name="p")))

    run(main())


def test_a_waiting_watch_is_woken_by_the_next_change() -> None:
    async def main() -> None:
        api = make_api()
        clock = current_clock()
        seen: list[tuple[str, int]] = []

        async def follow() -> None:
            async for event in api.watch(Pod, resource_version=str(api.store.revision)):
                assert event.object is not None
                seen.append((event.object.metadata.name, clock.monotonic_ns() // SECOND))
                if len(seen) == 3:
                    return

        follower = asyncio.create_task(follow())
        for name in "abc":
            await clock.sleep(SECOND)
            await api.create(make_pod(name))
        await follower
        assert seen == [("a", 1), ("b", 2), ("c", 3)]

    run(main())


def test_waiting_on_an_idle_watch_is_a_deadlock_error() -> None:
    async def main() -> None:
        api = make_api()
        await anext(api.watch(Pod, resource_version=str(api.store.revision)))

    with pytest.raises(DeadlockError):
        run(main())


def test_a_closed_watch_ends() -> None:
    async def main() -> None:
        api = make_api()
        await api.create(make_pod("a"))
        watch = api.watch(Pod, resource_version="0")
        await watch.aclose()
        assert [event async for event in watch] == []

    run(main())


def test_a_refused_watch_raises_when_it_is_read() -> None:
    async def main() -> None:
        api = make_api(history=5)
        for number in range(20):
            await api.create(make_pod(f"p{number}"))
        watch = api.watch(Pod, resource_version="1")
        with pytest.raises(ApiError) as refused:
            await anext(watch)
        assert refused.value.code == 410

    run(main())


def test_a_watch_that_falls_behind_gets_an_error() -> None:
    async def main() -> None:
        api = make_api(history=5)
        watch = api.watch(Pod, resource_version=str(api.store.revision))
        await api.create(make_pod("first"))
        assert (await anext(watch)).type == "ADDED"
        for number in range(20):
            await api.create(make_pod(f"p{number}"))
        with pytest.raises(ApiError) as refused:
            await anext(watch)
        assert refused.value.code == 410

    run(main())


def test_a_cancelled_watcher_leaves_no_state_behind() -> None:
    async def main() -> None:
        api = make_api()
        collection = api.store.collection(api.store.catalog.by_type(Pod))
        waiting = asyncio.ensure_future(
            anext(api.watch(Pod, resource_version=str(api.store.revision)))
        )
        await asyncio.sleep(0)
        assert len(collection._callbacks) == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        assert collection._callbacks == []

    run(main())


def test_a_list_and_the_watch_after_it_leave_no_gap() -> None:
    async def main() -> None:
        api = make_api()
        await api.create(make_pod("before"))
        listed = await api.list(Pod)
        await api.create(make_pod("after"))
        event: WatchEvent[Pod] = await anext(
            api.watch(Pod, resource_version=listed.resource_version)
        )
        assert event.object is not None
        assert event.object.metadata.name == "after"

    run(main())


def test_a_fault_can_delay_a_request() -> None:
    async def main() -> None:
        api = make_api(lambda *request: Fault(delay_ns=3 * SECOND))
        await api.create(make_pod("p"))
        assert current_clock().monotonic_ns() == 3 * SECOND

    run(main())


def test_a_fault_can_refuse_a_request_before_it_takes_effect() -> None:
    async def main() -> None:
        requests: list[tuple[str, str, str | None, str]] = []

        def faults(verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
            requests.append((verb, kind, namespace, name))
            return Fault(error=failure(503)) if verb == "bind" else None

        api = make_api(faults)
        await api.create(make_pod("p"))
        with pytest.raises(ApiError) as refused:
            await api.bind("default", "p", "", "n")
        assert refused.value.code == 503
        assert (await api.get(Pod, "p", "default")).spec.node_name == ""
        assert requests == [
            ("create", "Pod", "default", "p"),
            ("bind", "Pod", "default", "p"),
            ("get", "Pod", "default", "p"),
        ]

    run(main())


def test_a_fault_can_lose_the_answer_of_a_request_that_took_effect() -> None:
    async def main() -> None:
        lost = Fault(error=failure(0), answer_lost=True)
        api = make_api(lambda verb, *request: lost if verb == "bind" else None)
        await api.create(make_pod("p"))
        with pytest.raises(ApiError):
            await api.bind("default", "p", "", "n")
        assert (await api.get(Pod, "p", "default")).spec.node_name == "n"

    run(main())


def test_a_fault_can_break_a_watch_that_is_open() -> None:
    async def main() -> None:
        broken: list[Fault] = []
        api = make_api(lambda verb, *request: broken[0] if broken and verb == "watch" else None)
        watch = api.watch(Pod, resource_version=str(api.store.revision))
        await api.create(make_pod("a"))
        assert (await anext(watch)).type == "ADDED"
        broken.append(Fault(error=failure(0)))
        await api.create(make_pod("b"))
        with pytest.raises(ApiError, match="injected"):
            await anext(watch)

    run(main())


def test_a_pod_status_is_written_without_touching_its_class() -> None:
    async def main() -> None:
        api = make_api()
        pod = await api.create(make_pod("p"))
        pod = await api.update(
            replace(pod, status=PodStatus(phase="Running")), subresource="status"
        )
        assert (pod.status.phase, pod.status.qos_class) == ("Running", "BestEffort")

    run(main())
