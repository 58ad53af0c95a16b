"""Queueing hints of PodTopologySpread (docs/reference/06 §1.9 and §5.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from kubesched.api import LabelSelector, Node, Pod
from kubesched.errors import SelectorError
from kubesched.framework import ActionType, EventResource, QueueingHint
from kubesched.scheduler.config.args import LIST_DEFAULTING, PodTopologySpreadArgs
from kubesched.scheduler.plugins.pod_topology_spread import PodTopologySpread
from kubesched.testing import (
    FakeHandle,
    make_node,
    make_pod,
    make_selector,
    make_service,
    make_spread,
)

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
FOO = {"foo": "a"}
EXISTS = make_selector(None, ("foo", "Exists"))


def waiting(*keys: str, taints: str | None = None, tolerations: tuple[str, ...] = ()) -> Pod:
    constraints = [
        make_spread(key, labels=EXISTS, node_taints_policy=taints) for key in keys or ("zone",)
    ]
    return make_pod("p", labels=FOO, spread=constraints, tolerations=tolerations)


def other(
    labels: Mapping[str, str] = FOO,
    node_name: str = "n",
    namespace: str = "default",
    nominated: str = "",
) -> Pod:
    return make_pod(
        "q",
        labels=labels,
        node_name=node_name,
        namespace=namespace,
        nominated_node_name=nominated,
    )


class PodCase(NamedTuple):
    pod: Pod
    old: Pod | None
    new: Pod | None
    want: QueueingHint


POD_CASES = {
    "a matching pod was placed": PodCase(waiting(), None, other(), QUEUE),
    "a matching pod that is nowhere": PodCase(waiting(), None, other(node_name=""), SKIP),
    "a matching pod of another namespace": PodCase(waiting(), None, other(namespace="x"), SKIP),
    "a pod that no constraint is about": PodCase(waiting(), None, other({"bar": ""}), SKIP),
    "a matching pod is gone": PodCase(waiting(), other(), None, QUEUE),
    "a matching pod that was only nominated is gone": PodCase(
        waiting(), other(node_name="", nominated="n"), None, QUEUE
    ),
    "another pod is gone": PodCase(waiting(), other({"bar": ""}), None, SKIP),
    "a label came that matters": PodCase(waiting(), other({}), other(), QUEUE),
    "a label went that matters": PodCase(waiting(), other(), other({}), QUEUE),
    "a label changed but matches as before": PodCase(waiting(), other(), other({"foo": "b"}), SKIP),
    "nothing changed": PodCase(waiting(), other(), other(), SKIP),
    "the pod itself tolerates more, and taints count": PodCase(
        waiting(taints="Honor"),
        waiting(taints="Honor"),
        waiting(taints="Honor", tolerations=("k",)),
        QUEUE,
    ),
    "the pod itself tolerates more, and taints do not count": PodCase(
        waiting(), waiting(), waiting(tolerations=("k",)), SKIP
    ),
    "another pod tolerates more": PodCase(
        waiting(taints="Honor"),
        other(),
        make_pod("q", labels=FOO, node_name="n", tolerations=["k"]),
        SKIP,
    ),
}


def hint_for(plugin: PodTopologySpread, resource: str) -> object:
    (hint,) = [each.hint for each in plugin.events_to_register() if each.event.resource == resource]
    return hint


@pytest.mark.parametrize("case", POD_CASES.values(), ids=POD_CASES)
def test_after_a_pod_changed(case: PodCase) -> None:
    hint = hint_for(PodTopologySpread(), EventResource.POD)
    assert hint(case.pod, case.old, case.new) is case.want  # type: ignore[operator]


def node(*, taints: tuple[str, ...] = (), **labels: str) -> Node:
    return make_node("n", labels=labels, taints=taints)


BOTH = waiting("zone", "rack")


class NodeCase(NamedTuple):
    pod: Pod
    old: Node | None
    new: Node | None
    want: QueueingHint


NODE_CASES = {
    "a node with one of two keys": NodeCase(BOTH, None, node(zone="z"), SKIP),
    "a node with both keys": NodeCase(BOTH, None, node(zone="z", rack="r"), QUEUE),
    "a node with both keys is gone": NodeCase(BOTH, node(zone="z", rack="r"), None, QUEUE),
    "a node with one key is gone": NodeCase(BOTH, node(zone="z"), None, SKIP),
    "a node got the missing key": NodeCase(BOTH, node(zone="z"), node(zone="z", rack="r"), QUEUE),
    "a node lost a key": NodeCase(BOTH, node(zone="z", rack="r"), node(zone="z"), QUEUE),
    "a node moved": NodeCase(BOTH, node(zone="z", rack="r"), node(zone="z", rack="s"), QUEUE),
    "a node without all keys moved": NodeCase(BOTH, node(zone="z"), node(zone="y"), SKIP),
    "another label changed": NodeCase(
        BOTH, node(zone="z", rack="r"), node(zone="z", rack="r", x="y"), SKIP
    ),
    "taints changed on a node with all keys": NodeCase(
        BOTH, node(zone="z", rack="r"), node(zone="z", rack="r", taints=("k:NoSchedule",)), QUEUE
    ),
    "taints changed on a node with one key": NodeCase(
        BOTH, node(zone="z"), node(zone="z", taints=("k:NoSchedule",)), SKIP
    ),
    "without constraints every node counts": NodeCase(make_pod("p"), None, node(), QUEUE),
}


@pytest.mark.parametrize("case", NODE_CASES.values(), ids=NODE_CASES)
def test_after_a_node_changed(case: NodeCase) -> None:
    hint = hint_for(PodTopologySpread(), EventResource.NODE)
    assert hint(case.pod, case.old, case.new) is case.want  # type: ignore[operator]


def test_hard_defaults_are_used_for_hints() -> None:
    args = PodTopologySpreadArgs(
        defaulting_type=LIST_DEFAULTING, default_constraints=(make_spread("zone"),)
    )
    plugin = PodTopologySpread(args, FakeHandle([make_service("s", selector=FOO)]))
    hint = hint_for(plugin, EventResource.POD)
    pod = make_pod("p", labels=FOO)
    assert hint(pod, None, other()) is QUEUE  # type: ignore[operator]
    assert hint(pod, None, other({"foo": "b"})) is SKIP  # type: ignore[operator]


def test_an_invalid_selector_raises_an_error_which_requeues_the_pod() -> None:
    broken = LabelSelector(match_labels={"foo": "{{bad}}"})
    pod = make_pod("p", spread=[make_spread("zone", labels=broken)])
    with pytest.raises(SelectorError):
        hint_for(PodTopologySpread(), EventResource.POD)(pod, None, other())  # type: ignore[operator]


def test_an_object_of_another_kind_raises() -> None:
    with pytest.raises(TypeError):
        hint_for(PodTopologySpread(), EventResource.POD)(waiting(), None, node())  # type: ignore[operator]


def test_registered_events() -> None:
    actions = {
        each.event.resource: each.event.action for each in PodTopologySpread().events_to_register()
    }
    assert actions == {
        EventResource.POD: ActionType.ADD
        | ActionType.UPDATE_POD_LABEL
        | ActionType.UPDATE_POD_TOLERATION
        | ActionType.DELETE,
        EventResource.NODE: ActionType.ADD
        | ActionType.DELETE
        | ActionType.UPDATE_NODE_LABEL
        | ActionType.UPDATE_NODE_TAINT,
    }
