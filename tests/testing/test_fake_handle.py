"""`FakeHandle`: objects, listers, nominations, waiting pods, and recorded writes."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.api import ApiError, Node, PersistentVolumeClaim, Pod
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import Handle, Nominating, NominatingMode, PodInfo
from kubesched.testing import (
    FakeHandle,
    FakePodInPreBind,
    FakeWaitingPod,
    make_node,
    make_pod,
    make_pvc,
)

NODE = make_node("n")
PLACED = make_pod("placed", node_name="n")
WAITING = make_pod("waiting")


def test_a_fake_handle_implements_the_handle_protocol() -> None:
    handle: Handle = FakeHandle()
    assert handle.profile_name == "default-scheduler"


def test_objects_are_in_listers_and_placed_pods_in_the_snapshot() -> None:
    handle = FakeHandle([NODE, PLACED, WAITING, make_pvc("c")])
    assert list(handle.snapshot.nodes.names) == ["n"]
    node = handle.snapshot.get("n")
    assert node is not None
    assert [info.pod for info in node.pods] == [PLACED]
    assert list(handle.lister(Pod).list()) == [PLACED, WAITING]
    assert handle.lister(Pod).list("elsewhere") == []
    assert handle.lister(Node).get("n") is NODE
    claims = handle.lister(PersistentVolumeClaim)
    assert claims.get("c", "default") is not None
    assert claims.get("c", "elsewhere") is None


def test_feature_gates_have_their_defaults_unless_they_are_set() -> None:
    assert FakeHandle().feature_enabled("SchedulerQueueingHints")
    assert not FakeHandle().feature_enabled("GenericWorkload")
    assert FakeHandle(feature_gates={"GenericWorkload": True}).feature_enabled("GenericWorkload")
    with pytest.raises(KeyError):
        FakeHandle().feature_enabled("NoSuchGate")


def test_nominations_follow_the_pod_or_the_override() -> None:
    pod = make_pod("p", nominated_node_name="a", requests={"cpu": 1})
    handle = FakeHandle([pod])
    info = PodInfo(pod)
    handle.nominator.add_nominated_pod(info, None)
    assert [found.pod for found in handle.nominator.nominated_pods("a")] == [pod]
    handle.nominator.add_nominated_pod(info, Nominating(NominatingMode.OVERRIDE, "b"))
    assert list(handle.nominator.nominated_nodes()) == ["b"]
    handle.nominator.add_nominated_pod(info, Nominating(NominatingMode.OVERRIDE, ""))
    assert list(handle.nominator.nominated_nodes()) == []


def test_a_pod_that_is_placed_cannot_be_nominated() -> None:
    handle = FakeHandle([NODE, PLACED])
    handle.nominator.add_nominated_pod(PodInfo(PLACED), Nominating(NominatingMode.OVERRIDE, "n"))
    assert list(handle.nominator.nominated_nodes()) == []


def test_a_waiting_pod_is_allowed_when_all_plugins_allow_it() -> None:
    entry = FakeWaitingPod(WAITING, "A", "B")
    handle = FakeHandle(waiting=[entry])
    found = handle.waiting_pod(WAITING.metadata.uid)
    assert found is entry
    found.allow("A")
    assert not entry.is_allowed
    found.allow("B")
    assert entry.is_allowed
    assert not found.reject("A", "too late")


def test_a_rejected_waiting_pod_stays_rejected() -> None:
    entry = FakeWaitingPod(WAITING, "A")
    assert entry.reject("A", "no")
    assert not entry.reject("A", "again")
    assert entry.rejection == ("A", "no")


def test_a_preempted_waiting_pod_can_no_longer_be_rejected() -> None:
    entry = FakeWaitingPod(WAITING, "A")
    assert entry.preempt("B", "preempted")
    assert not entry.reject("A", "no")
    assert not entry.is_allowed
    assert entry.preemption == ("B", "preempted")


def test_pre_bind_can_be_stopped_until_it_is_over() -> None:
    entry = FakePodInPreBind(WAITING)
    found = FakeHandle(in_pre_bind=[entry]).pod_in_pre_bind(WAITING.metadata.uid)
    assert found is entry
    assert found.cancel("preempted by A")
    assert entry.cancel_reason == "preempted by A"
    entry.is_over = True
    assert not found.cancel("again")


def test_spawned_work_is_finished_on_demand() -> None:
    handle = FakeHandle()
    done = []

    async def work(number: int) -> None:
        await asyncio.sleep(number)
        done.append(number)
        if number:
            handle.spawn(work(number - 1), "less")

    async def scenario() -> None:
        handle.spawn(work(2), "work")
        await handle.finish_work()

    run(scenario())
    assert done == [2, 1, 0]


def test_writes_change_the_objects_and_are_recorded() -> None:
    handle = FakeHandle([NODE, WAITING])

    async def work() -> None:
        await handle.api.bind("default", "waiting", WAITING.metadata.uid, "n")
        await handle.api.patch(
            Pod, "waiting", "default", {"status": {"nominatedNodeName": "n"}}, subresource="status"
        )
        await handle.api.create(make_pvc("new"))
        await handle.api.delete(Node, "n")

    run(work())
    bound = handle.lister(Pod).get("waiting", "default")
    assert bound is not None
    assert (bound.spec.node_name, bound.status.nominated_node_name) == ("n", "n")
    assert handle.lister(PersistentVolumeClaim).get("new", "default") is not None
    assert handle.lister(Node).list() == []
    assert [call.verb for call in handle.fake_api.calls] == ["bind", "patch", "create", "delete"]
    handle.refresh()
    assert len(handle.snapshot.nodes) == 0


def test_writes_that_cannot_be_done_are_refused_as_a_server_does() -> None:
    handle = FakeHandle([WAITING, PLACED])

    async def refused(code: int, reason: str, call: object) -> None:
        with pytest.raises(ApiError) as caught:
            await call  # type: ignore[misc]
        assert (caught.value.code, caught.value.reason) == (code, reason)

    async def work() -> None:
        api = handle.api
        await refused(404, "NotFound", api.get(Pod, "nobody", "default"))
        await refused(409, "AlreadyExists", api.create(WAITING))
        await refused(409, "Conflict", api.bind("default", "placed", "", "n"))
        await refused(409, "Conflict", api.delete(Pod, "waiting", "default", uid="other"))
        await api.update(WAITING)
        await refused(409, "Conflict", api.update(WAITING))

    run(work())


def test_a_fake_handle_without_a_runner_reports_that() -> None:
    handle = FakeHandle([NODE])
    with pytest.raises(RuntimeError, match="give it a runner"):
        handle.dry_run.add_pod(None, WAITING, PodInfo(PLACED), None)  # type: ignore[arg-type]
