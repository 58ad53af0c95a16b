"""Pods that wait: the sentence that matters, groups with amounts and names, what would help."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kubesched.api import Node, Pod
from kubesched.explain import Explanation, Snapshot
from kubesched.testing import make_affinity, make_node, make_pod, make_pod_term, make_spread
from kubesched.util.clock import ManualClock

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "10"}
ZONE = "topology.kubernetes.io/zone"


def nodes(*names: str, **options: object) -> list[Node]:
    return [make_node(name, allocatable=ROOM, **options) for name in names]  # type: ignore[arg-type]


def running(name: str, node: str, **options: object) -> Pod:
    return make_pod(name, node_name=node, phase="Running", **options)  # type: ignore[arg-type]


def explained(objects: list[Node | Pod], pod: Pod) -> Explanation:
    return Snapshot([*objects, pod], clock=ManualClock()).explain(pod)


class Case(NamedTuple):
    objects: list[Node | Pod]
    pod: Pod
    says: tuple[str, ...]  # all of it in the summary
    helps: str  # the first suggestion begins with it


CASES = {
    "too much cpu asked for": Case(
        [*nodes("a", "b"), running("r", "a", requests={"cpu": "3"})],
        make_pod("p", requests={"cpu": "6"}),
        ("Insufficient cpu", "asks 6", "4 on b"),
        "request cpu <= 4",
    ),
    "memory is used up": Case(
        [*nodes("a"), running("r", "a", requests={"memory": "7Gi"}, priority=5)],
        make_pod("p", requests={"memory": "2Gi"}),
        ("Insufficient memory", "asks 2Gi", "1Gi on a"),
        "request memory <= 1Gi",
    ),
    "a taint nobody tolerates": Case(
        nodes("a", taints=["gpu=yes:NoSchedule"]),
        make_pod("p"),
        ("untolerated taint", "gpu=yes:NoSchedule"),
        "tolerate gpu=yes:NoSchedule",
    ),
    "a cordoned node": Case(
        nodes("a", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"]),
        make_pod("p"),
        ("unschedulable", "cordoned: a"),
        "uncordon a",
    ),
    "a node that is not ready": Case(
        nodes("a", taints=["node.kubernetes.io/not-ready:NoSchedule"]),
        make_pod("p"),
        ("untolerated taint", "not-ready"),
        "a becomes healthy",
    ),
    "a selector that no node matches": Case(
        nodes("a", labels={"disk": "hdd"}),
        make_pod("p", node_selector={"disk": "ssd"}),
        ("didn't match Pod's node affinity/selector", "disk=ssd (is 'hdd')"),
        "drop nodeSelector disk=ssd",
    ),
    "a host port that is taken": Case(
        [*nodes("a"), running("r", "a", host_ports=[80])],
        make_pod("p", host_ports=[80]),
        ("free ports", "TCP 80 by default/r"),
        "give up host port TCP 80",
    ),
    "zones too uneven": Case(
        [
            *nodes("a", labels={ZONE: "z1"}),
            *nodes("b", labels={ZONE: "z2"}, taints=["x=y:NoSchedule"]),
            running("r", "a", labels={"app": "web"}),
        ],
        make_pod("p", labels={"app": "web"}, spread=[make_spread(ZONE, labels={"app": "web"})]),
        ("topology spread", "maxSkew 1"),
        "raise maxSkew",
    ),
    "another pod keeps it away": Case(
        [
            *nodes("a", labels={"kubernetes.io/hostname": "a"}),
            running("r", "a", labels={"app": "web"}),
        ],
        make_pod(
            "p",
            labels={"app": "web"},
            affinity=make_affinity(apart=[make_pod_term("kubernetes.io/hostname", {"app": "web"})]),
        ),
        ("anti-affinity", "default/r"),
        "drop the required pod anti-affinity",
    ),
    "as many pods as the node takes": Case(
        [make_node("a", allocatable={"cpu": "4", "pods": "1"}), running("r", "a", priority=9)],
        make_pod("p"),
        ("Too many pods", "0 of 1 on a"),
        "free a place for a pod on a",
    ),
    "no nodes at all": Case([], make_pod("p"), ("There are no nodes",), ""),
    "a gate holds it back": Case(
        nodes("a"), make_pod("p", gates=["example.com/wait"]), ("example.com/wait",), ""
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_first_lines_answer_the_question(case: Case) -> None:
    answer = explained(case.objects, case.pod)
    assert answer.verdict == "pending"
    for part in case.says:
        assert part in answer.summary
    if case.helps:
        assert answer.suggestions[0].change.startswith(case.helps)
        assert answer.suggestions[0].verified
    else:
        assert answer.suggestions == ()


def test_every_rule_that_rejects_a_node_is_named() -> None:
    objects = [
        *nodes("a", taints=["gpu=yes:NoSchedule"], labels={"disk": "hdd"}),
        running("r", "a", requests={"cpu": "3"}),
    ]
    answer = explained(objects, make_pod("p", requests={"cpu": "2"}, node_selector={"disk": "ssd"}))
    (group,) = answer.groups
    assert {each.plugin for each in group.rejections} == {
        "NodeAffinity",
        "NodeResourcesFit",
        "TaintToleration",
    }


def test_two_changes_where_one_is_not_enough() -> None:
    answer = explained(
        [
            *nodes("a", taints=["gpu=yes:NoSchedule"]),
            make_node("small", allocatable={"cpu": "1", "pods": "0"}),
        ],
        make_pod("p", requests={"cpu": "5"}),
    )
    pair = next(each for each in answer.suggestions if len(each.parts) == 2)
    assert "tolerate gpu=yes:NoSchedule" in pair.parts
    assert any(part.startswith("request cpu <= 4") for part in pair.parts)
    assert pair.node == "a"


def test_preemption_names_the_victims() -> None:
    objects = [*nodes("a"), running("low", "a", requests={"cpu": "3"}, priority=1)]
    answer = explained(objects, make_pod("p", requests={"cpu": "2"}, priority=10))
    assert answer.preemption is not None
    assert answer.preemption.possible
    assert answer.preemption.node == "a"
    assert answer.preemption.victims == ("default/low",)


def test_preemption_says_which_priority_would_do() -> None:
    objects = [*nodes("a"), running("equal", "a", requests={"cpu": "3"}, priority=10)]
    answer = explained(objects, make_pod("p", requests={"cpu": "2"}, priority=10))
    assert answer.preemption is not None
    assert not answer.preemption.possible
    assert answer.preemption.priority_needed == 11


def test_nothing_is_left_changed_by_asking() -> None:
    objects = [*nodes("a", "b"), running("low", "a", requests={"cpu": "3"}, priority=1)]
    pod = make_pod("p", requests={"cpu": "5"}, priority=10)
    snapshot = Snapshot([*objects, pod], clock=ManualClock())
    before = {type(each): each for each in snapshot.model.objects}
    first = snapshot.explain(pod)
    assert snapshot.explain(pod) == first
    assert {type(each): each for each in snapshot.model.objects} == before
    snapshot.model.cache.check_invariants()
