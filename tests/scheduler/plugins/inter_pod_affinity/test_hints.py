"""Queueing hints of InterPodAffinity (docs/reference/06 §2.8 and §5.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from kubesched.api import Affinity, Node, Pod
from kubesched.errors import SelectorError
from kubesched.framework import ActionType, EventResource, QueueingHint
from kubesched.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from kubesched.testing import make_affinity, make_node, make_pod, make_pod_term

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
WEB = {"app": "web"}
BOTH = {"app": "web", "tier": "x"}

NEAR = make_affinity(near=[make_pod_term("zone", WEB)])
NEAR_TWO = make_affinity(near=[make_pod_term("zone", WEB), make_pod_term("zone", {"tier": "x"})])
APART = make_affinity(apart=[make_pod_term("zone", WEB)])
APART_TWO = make_affinity(apart=[make_pod_term("zone", WEB), make_pod_term("zone", {"tier": "x"})])
ABOUT_P = make_affinity(apart=[make_pod_term("zone", {"name": "p"})])
ABOUT_P_BY_NAMESPACE = make_affinity(
    apart=[make_pod_term("zone", {"name": "p"}, namespace_selector={"team": "a"})]
)


def waiting(affinity: Affinity | None = None) -> Pod:
    return make_pod("p", labels={"name": "p"}, affinity=affinity)


def other(
    labels: Mapping[str, str] = WEB,
    affinity: Affinity | None = None,
    node_name: str = "n",
    namespace: str = "default",
) -> Pod:
    return make_pod("q", labels=labels, affinity=affinity, node_name=node_name, namespace=namespace)


class PodCase(NamedTuple):
    pod: Pod
    old: Pod | None
    new: Pod | None
    want: QueueingHint


POD_CASES = {
    "the pod's own labels changed": PodCase(waiting(), waiting(), waiting(), QUEUE),
    "a pod it wants to be near was placed": PodCase(waiting(NEAR), None, other(), QUEUE),
    "one that satisfies only one of two terms": PodCase(waiting(NEAR_TWO), None, other(), SKIP),
    "one that satisfies both": PodCase(waiting(NEAR_TWO), None, other(BOTH), QUEUE),
    "one that is nowhere": PodCase(waiting(NEAR), None, other(node_name=""), SKIP),
    "one of another namespace": PodCase(waiting(NEAR), None, other(namespace="x"), SKIP),
    "a pod it wants to be apart from was placed": PodCase(waiting(APART), None, other(), SKIP),
    "a pod it wants to be apart from is gone": PodCase(waiting(APART), other(), None, QUEUE),
    "one that violates one of two terms is gone": PodCase(waiting(APART_TWO), other(), None, SKIP),
    "one that violates both is gone": PodCase(waiting(APART_TWO), other(BOTH), None, QUEUE),
    "a pod that kept it away is gone": PodCase(waiting(), other({}, ABOUT_P), None, QUEUE),
    "a pod that meant nothing is gone": PodCase(waiting(), other(), None, SKIP),
    "a pod came to match affinity": PodCase(waiting(NEAR), other({}), other(), QUEUE),
    "a pod ceased to match affinity": PodCase(waiting(NEAR), other(), other({}), SKIP),
    "a pod ceased to match anti-affinity": PodCase(waiting(APART), other(), other({}), QUEUE),
    "a pod came to match anti-affinity": PodCase(waiting(APART), other({}), other(), SKIP),
    "a namespace selector may select the namespace": PodCase(
        waiting(make_affinity(near=[make_pod_term("zone", WEB, namespace_selector={"a": "b"})])),
        None,
        other(namespace="x"),
        QUEUE,
    ),
    "one of other labels in a namespace that may be selected": PodCase(
        waiting(make_affinity(near=[make_pod_term("zone", WEB, namespace_selector={"a": "b"})])),
        None,
        other({}, namespace="x"),
        SKIP,
    ),
    "a pod with a namespace selector that kept it away is gone": PodCase(
        waiting(), other({}, ABOUT_P_BY_NAMESPACE), None, QUEUE
    ),
    "an empty namespace selector matches": PodCase(
        waiting(make_affinity(near=[make_pod_term("zone", WEB, namespace_selector={})])),
        None,
        other(namespace="x"),
        QUEUE,
    ),
}


def hint_for(resource: str) -> object:
    (hint,) = [
        each.hint
        for each in InterPodAffinity().events_to_register()
        if each.event.resource == resource
    ]
    return hint


@pytest.mark.parametrize("case", POD_CASES.values(), ids=POD_CASES)
def test_after_a_pod_changed(case: PodCase) -> None:
    assert hint_for(EventResource.POD)(case.pod, case.old, case.new) is case.want  # type: ignore[operator]


def node(**labels: str) -> Node:
    return make_node("n", labels=labels)


class NodeCase(NamedTuple):
    pod: Pod
    old: Node | None
    new: Node
    want: QueueingHint


NODE_CASES = {
    "affinity: a node with the key": NodeCase(waiting(NEAR), None, node(zone="z"), QUEUE),
    "affinity: a node without": NodeCase(waiting(NEAR), None, node(), SKIP),
    "affinity: a node got the key": NodeCase(waiting(NEAR), node(), node(zone="z"), QUEUE),
    "affinity: a node moved": NodeCase(waiting(NEAR), node(zone="y"), node(zone="z"), QUEUE),
    "affinity: a node lost the key": NodeCase(waiting(NEAR), node(zone="z"), node(), SKIP),
    "affinity: another label": NodeCase(waiting(NEAR), node(zone="z"), node(zone="z", x="y"), SKIP),
    "anti-affinity: a node without the key": NodeCase(waiting(APART), None, node(), QUEUE),
    "anti-affinity: a node got the key": NodeCase(waiting(APART), node(), node(zone="z"), SKIP),
    "anti-affinity: a node lost the key": NodeCase(waiting(APART), node(zone="z"), node(), QUEUE),
    "anti-affinity: a node moved": NodeCase(waiting(APART), node(zone="y"), node(zone="z"), QUEUE),
    "no terms of its own: a new node has no pods with any": NodeCase(
        waiting(), None, node(zone="z"), QUEUE
    ),
    "no terms of its own: a label of a node": NodeCase(waiting(), node(), node(zone="z"), SKIP),
}


@pytest.mark.parametrize("case", NODE_CASES.values(), ids=NODE_CASES)
def test_after_a_node_changed(case: NodeCase) -> None:
    assert hint_for(EventResource.NODE)(case.pod, case.old, case.new) is case.want  # type: ignore[operator]


def test_invalid_terms_raise_an_error_which_requeues_the_pod() -> None:
    pod = waiting(make_affinity(near=[make_pod_term("zone", {"app": "{{bad}}"})]))
    with pytest.raises(SelectorError):
        hint_for(EventResource.POD)(pod, None, other())  # type: ignore[operator]


def test_registered_events() -> None:
    actions = {
        each.event.resource: each.event.action for each in InterPodAffinity().events_to_register()
    }
    assert actions == {
        EventResource.POD: ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE,
        EventResource.NODE: ActionType.ADD | ActionType.UPDATE_NODE_LABEL,
    }
