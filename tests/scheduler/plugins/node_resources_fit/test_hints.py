"""Queueing hints of NodeResourcesFit."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kubesched.api import DeviceClass, DeviceClassSpec, Node, Pod
from kubesched.framework import EventResource, HintFunction, QueueingHint
from kubesched.scheduler.config.args import NodeResourcesFitArgs
from kubesched.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kubesched.testing import FakeHandle, make_meta, make_node, make_pod

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def hint(plugin: NodeResourcesFit, resource: str) -> HintFunction:
    [found] = [each for each in plugin.events_to_register() if each.event.resource == resource]
    assert found.hint is not None
    return found.hint


def pod(name: str = "p", where: str = "", **requests: Any) -> Pod:
    return make_pod(name, requests=requests, node_name=where)


class PodCase(NamedTuple):
    old: Pod
    new: Pod | None
    want: QueueingHint


POD_CASES = {
    "an assigned pod went away": PodCase(pod("q", "n"), None, QUEUE),
    "a nominated pod went away": PodCase(make_pod("q", nominated_node_name="n"), None, QUEUE),
    "a waiting pod went away": PodCase(pod("q"), None, SKIP),
    "the pod itself asks for less": PodCase(pod("p", cpu=2), pod("p", cpu=1), QUEUE),
    "a waiting pod asks for less": PodCase(pod("q", cpu=2), pod("q", cpu=1), SKIP),
    "an assigned pod asks for less of what the pod wants": PodCase(
        pod("q", "n", cpu=2), pod("q", "n", cpu=1), QUEUE
    ),
    "an assigned pod asks for less of something else": PodCase(
        pod("q", "n", memory=2), pod("q", "n", memory=1), SKIP
    ),
    "an assigned pod asks for more": PodCase(pod("q", "n", cpu=1), pod("q", "n", cpu=2), SKIP),
}


@pytest.mark.parametrize("case", POD_CASES.values(), ids=POD_CASES)
def test_pod_hint(case: PodCase) -> None:
    waiting = pod("p", cpu=1, memory=0)
    assert hint(NodeResourcesFit(), EventResource.POD)(waiting, case.old, case.new) is case.want


class NodeCase(NamedTuple):
    pod: Pod
    old: dict[str, Any] | None
    new: dict[str, Any]
    want: QueueingHint


A, B = "x.com/a", "x.com/b"
ONE = {"cpu": 1, "memory": 1, "pods": 9}
NODE_CASES = {
    "a node appeared that is large enough": NodeCase(pod(cpu=1), None, ONE, QUEUE),
    "a node appeared that is too small": NodeCase(pod(cpu=2), None, ONE, SKIP),
    "a node appeared that takes no pods": NodeCase(pod(cpu=1), None, ONE | {"pods": 0}, SKIP),
    "a node grew enough": NodeCase(pod(memory=2), ONE, ONE | {"memory": 4}, QUEUE),
    "a node grew too little": NodeCase(pod(memory=5), ONE, ONE | {"memory": 4}, SKIP),
    "a node grew in something else": NodeCase(pod(cpu=1), ONE, ONE | {"memory": 4}, SKIP),
    "a node has less of an extended resource and another one": NodeCase(
        pod(**{A: 1}), ONE | {A: 2}, ONE | {A: 1, B: 5}, SKIP
    ),
    "a node has more of an extended resource": NodeCase(
        pod(**{A: 1}), ONE | {A: 1}, ONE | {A: 2}, QUEUE
    ),
    "more cpu does not help a pod that asks for nothing": NodeCase(
        pod(), ONE, ONE | {"cpu": 2}, SKIP
    ),
    "room for more pods does": NodeCase(pod(), ONE, ONE | {"pods": 10}, QUEUE),
}


def node(allocatable: dict[str, Any] | None) -> Node | None:
    return None if allocatable is None else make_node("n", allocatable=allocatable)


@pytest.mark.parametrize("case", NODE_CASES.values(), ids=NODE_CASES)
def test_node_hint(case: NodeCase) -> None:
    answer = hint(NodeResourcesFit(), EventResource.NODE)(case.pod, node(case.old), node(case.new))
    assert answer is case.want


def test_node_hint_does_not_ignore_resources() -> None:
    plugin = NodeResourcesFit(NodeResourcesFitArgs(ignored_resources=(A,)))
    assert hint(plugin, EventResource.NODE)(pod(**{A: 1}), None, node(ONE)) is SKIP


def device_class(name: str, explicit: str | None = None) -> DeviceClass:
    return DeviceClass(
        metadata=make_meta("DeviceClass", name),
        spec=DeviceClassSpec(extended_resource_name=explicit),
    )


@pytest.mark.parametrize(("ignored", "want"), [((), SKIP), (("x.io",), QUEUE)])
def test_hints_count_only_resources_that_are_not_ignored(
    ignored: tuple[str, ...], want: QueueingHint
) -> None:
    """PreFilter rejects a pod with more than 128 resources that it does not ignore."""
    amounts = {f"x.io/r{number}": 1 for number in range(200)}
    plugin = NodeResourcesFit(NodeResourcesFitArgs(ignored_resource_groups=ignored))
    waiting = make_pod("p", requests={"cpu": 1, **amounts})
    larger = node({"cpu": "1", "pods": "9"} | dict.fromkeys(amounts, "1"))
    assert hint(plugin, EventResource.NODE)(waiting, None, larger) is want
    assert hint(plugin, EventResource.POD)(waiting, pod("q", "n", cpu=1), None) is want


def test_node_hint_when_devices_serve_a_requested_resource() -> None:
    plugin = NodeResourcesFit(handle=FakeHandle([device_class("gpus", A)]))
    assert hint(plugin, EventResource.NODE)(pod(**{A: 1}), node(ONE), node(ONE)) is QUEUE


class ClassCase(NamedTuple):
    wanted: str
    old: DeviceClass | None
    new: DeviceClass
    want: QueueingHint


IMPLICIT = "deviceclass.resource.kubernetes.io/gpus"
CLASS_CASES = {
    "a class with the implicit name appeared": ClassCase(
        IMPLICIT, None, device_class("gpus"), QUEUE
    ),
    "a class with another name appeared": ClassCase(IMPLICIT, None, device_class("tpus"), SKIP),
    "a class with the explicit name appeared": ClassCase(A, None, device_class("gpus", A), QUEUE),
    "a class got the explicit name": ClassCase(
        B, device_class("gpus", A), device_class("gpus", B), QUEUE
    ),
    "a class lost the explicit name": ClassCase(
        A, device_class("gpus", A), device_class("gpus"), SKIP
    ),
    "a class kept its explicit name": ClassCase(
        A, device_class("gpus", A), device_class("gpus", A), SKIP
    ),
    "no name and an empty name are the same": ClassCase(
        A, device_class("gpus"), device_class("gpus", ""), SKIP
    ),
    "the implicit name is not looked at in updates": ClassCase(
        IMPLICIT, device_class("gpus"), device_class("gpus", A), SKIP
    ),
}


@pytest.mark.parametrize("case", CLASS_CASES.values(), ids=CLASS_CASES)
@pytest.mark.parametrize("amount", [0, 1])
def test_device_class_hint(case: ClassCase, amount: int) -> None:
    answer = hint(NodeResourcesFit(), EventResource.DEVICE_CLASS)(
        pod(**{case.wanted: amount}), case.old, case.new
    )
    assert answer is case.want


def test_device_classes_are_watched_only_with_their_gate() -> None:
    handle = FakeHandle(feature_gates={"DRAExtendedResource": False})
    resources = {
        each.event.resource for each in NodeResourcesFit(handle=handle).events_to_register()
    }
    assert resources == {EventResource.POD, EventResource.NODE}
