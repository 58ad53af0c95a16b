"""On random clusters every suggestion works, and none exceeds the smallest single change.

Suggestions are carried out on a cluster that is built anew from the changed objects. The smallest
single change is found by trying all of them, with code of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import Node, Pod, Toleration
from kubesched.api.kinds import by_api_version_kind
from kubesched.explain import Snapshot
from kubesched.explain.explanation import Edit, Suggestion
from kubesched.foundation.util.clock import ManualClock
from kubesched.testing import make_node, make_pod

TAINTS = ("gpu=yes:NoSchedule", "old:NoExecute")
Objects = dict[tuple[type[Any], str, str], Any]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node | Pod], Pod]:
    objects: list[Node | Pod] = []
    for number in range(draw(st.integers(1, 4))):
        cpu = draw(st.sampled_from([1, 2, 4]))
        objects.append(
            make_node(
                f"n{number}",
                allocatable={"cpu": str(cpu), "memory": "4Gi", "pods": "3"},
                labels={"disk": draw(st.sampled_from(["ssd", "hdd"]))},
                taints=draw(st.lists(st.sampled_from(TAINTS), unique=True, max_size=2)),
                unschedulable=draw(st.booleans()),
            )
        )
        objects += [
            make_pod(
                f"r{number}-{place}",
                node_name=f"n{number}",
                requests={"cpu": f"{draw(st.sampled_from([250, 500, 1000]))}m"},
                priority=9,
                phase="Running",
            )
            for place in range(draw(st.integers(0, 2)))
        ]
    pod = make_pod(
        "p",
        requests={
            "cpu": f"{draw(st.sampled_from([500, 1500, 3000, 9000]))}m",
            "memory": draw(st.sampled_from(["1Gi", "6Gi"])),
        },
        node_selector=draw(st.sampled_from([None, {"disk": "ssd"}])),
        tolerations=draw(st.lists(st.sampled_from(TAINTS), unique=True, max_size=1)),
    )
    return objects, pod


def node_for(objects: Objects, pod: Pod) -> str:
    others = {key: each for key, each in objects.items() if key[2] != "p"}
    snapshot = Snapshot([*others.values(), pod], clock=ManualClock())
    return snapshot.explain(pod, suggest=False).node


def keyed(objects: list[Node | Pod]) -> Objects:
    return {(type(e), e.metadata.namespace, e.metadata.name): e for e in objects}


def carried_out(objects: Objects, pod: Pod, edits: tuple[Edit, ...]) -> tuple[Objects, Pod]:
    objects = dict(objects)
    for edit in edits:
        kind = by_api_version_kind(edit.api_version, edit.kind)
        assert kind is not None
        key = (kind.type, edit.namespace, edit.name)
        if edit.action == "delete":
            del objects[key]
            continue
        changed = msgspec.convert(edit.document, kind.type)
        if isinstance(changed, Pod) and edit.name == "p":
            pod = changed
        else:
            objects[key] = changed
    return objects, pod


def single_changes(objects: Objects, pod: Pod) -> Iterator[tuple[float, Objects, Pod]]:
    """All single changes of some kinds with their sizes."""
    for text in TAINTS:
        head, _, effect = text.rpartition(":")
        key, _, value = head.partition("=")
        operator = "Equal" if value else "Exists"
        toleration = Toleration(key=key, operator=operator, value=value, effect=effect)
        spec = replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration))
        yield 1.0, objects, replace(pod, spec=spec)
    if pod.spec.node_selector:
        yield 1.0, objects, replace(pod, spec=replace(pod.spec, node_selector=None))
    for milli in range(250, 9000, 250):
        (container,) = pod.spec.containers
        asked = int(str(container.resources.requests["cpu"]).removesuffix("m"))
        if milli < asked:
            requests = {**container.resources.requests, "cpu": f"{milli}m"}
            lowered = replace(container, resources=replace(container.resources, requests=requests))
            spec = replace(pod.spec, containers=(lowered,))
            yield (asked - milli) / asked, objects, replace(pod, spec=spec)
    for key, node in objects.items():
        if not isinstance(node, Node):
            continue
        if node.spec.unschedulable:
            changed = replace(node, spec=replace(node.spec, unschedulable=False))
            yield 1.0, {**objects, key: changed}, pod
        for taint in node.spec.taints:
            left = tuple(each for each in node.spec.taints if each != taint)
            changed = replace(node, spec=replace(node.spec, taints=left))
            yield 1.1, {**objects, key: changed}, pod


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_suggestions_are_valid_and_minimal(cluster: tuple[list[Any], Pod]) -> None:
    given_objects, pod = cluster
    objects = keyed(given_objects)
    answer = Snapshot([*given_objects, pod], clock=ManualClock()).explain(pod)
    if answer.verdict == "fits":
        return
    for suggestion in answer.suggestions:
        changed, another = carried_out(objects, pod, suggestion.edits)
        if suggestion.kind == "preemption":
            again = Snapshot([*changed.values(), another], clock=ManualClock()).explain(another)
            assert again.preemption is not None
            assert again.preemption.possible
            continue
        assert node_for(changed, another), suggestion.change
    helping = [
        size
        for size, changed, another in single_changes(objects, pod)
        if node_for(changed, another)
    ]
    if helping:
        assert smallest(answer.suggestions) <= min(helping) + 0.001


def smallest(suggestions: tuple[Suggestion, ...]) -> float:
    assert suggestions, "a single change helps, and none was suggested"
    return min(each.size for each in suggestions)


@pytest.mark.parametrize(
    ("key", "is_proposed"), [("kubernetes.io/arch", False), ("example.com/pool", True)]
)
def test_labels_that_describe_a_machine_are_not_changed(key: str, is_proposed: bool) -> None:
    nodes = [make_node("n", labels={key: "arm64"})]
    found = Snapshot([*nodes], clock=ManualClock()).explain(
        make_pod("p", node_selector={key: "amd64"})
    )
    changes = [each.change for each in found.suggestions]
    assert f"drop nodeSelector {key}=amd64" in changes
    assert (f"label n {key}=amd64" in changes) == is_proposed
