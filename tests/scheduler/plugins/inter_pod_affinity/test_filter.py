"""Required affinity and anti-affinity, in the one-node and the many-node form.

docs/reference/06 §5.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from kubesched.api import Affinity, Namespace, Node, Pod, PodAffinityTerm
from kubesched.framework import SUCCESS, Code, CycleState, NodeView, PodInfo, Status
from kubesched.framework.causes import (
    ExistingPodAntiAffinityViolated,
    PodAffinityUnmet,
    PodAntiAffinityViolated,
)
from kubesched.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from kubesched.testing import (
    FakeHandle,
    make_affinity,
    make_namespace,
    make_node,
    make_pod,
    make_pod_term,
    make_selector,
    make_view,
    run_filter,
)

OK = SUCCESS
FAR = Status.unresolvable("node(s) didn't match pod affinity rules", causes=(PodAffinityUnmet(),))
NEAR = Status.unschedulable(
    "node(s) didn't match pod anti-affinity rules", causes=(PodAntiAffinityViolated(),)
)
UNWANTED = Status.unschedulable(
    "node(s) didn't satisfy existing pods anti-affinity rules",
    causes=(ExistingPodAntiAffinityViolated(),),
)

WEB = {"app": "web"}
DB = {"app": "db"}


def node(name: str, **labels: str) -> Node:
    return make_node(name, labels=labels, hostname_label=False)


# Two regions; zone z1 is in the first, z2 in the second; n4 has neither.
N1, N2 = node("n1", region="r1", zone="z1"), node("n2", region="r1", zone="z1")
N3, N4 = node("n3", region="r2", zone="z2"), node("n4")


def near(*terms: PodAffinityTerm) -> Affinity:
    return make_affinity(near=terms)


def apart(*terms: PodAffinityTerm) -> Affinity:
    return make_affinity(apart=terms)


def running(
    name: str,
    node_name: str,
    labels: Mapping[str, str] = WEB,
    affinity: Affinity | None = None,
    namespace: str = "default",
    deletion_timestamp: str | None = None,
) -> Pod:
    return make_pod(
        name,
        labels=labels,
        node_name=node_name,
        affinity=affinity,
        namespace=namespace,
        deletion_timestamp=deletion_timestamp,
    )


def incoming(affinity: Affinity | None = None, labels: Mapping[str, str] = DB) -> Pod:
    return make_pod("p", labels=labels, affinity=affinity)


class Case(NamedTuple):
    pod: Pod
    pods: Sequence[Pod]
    want: list[Status]
    nodes: Sequence[Node] = (N1, N2, N3, N4)
    namespaces: Sequence[Namespace] = ()


TEAMS = [make_namespace("t1", labels={"team": "t1"}), make_namespace("t2", labels={"team": "t2"})]
IN_REGION = make_pod_term("region", WEB)
IN_ZONE = make_pod_term("zone", WEB)

BOTH = {"app": "web", "tier": "front"}
TWO_TERMS = (make_pod_term("region", WEB), make_pod_term("region", {"tier": "front"}))


CASES = {
    "affinity holds in the whole domain of a match": Case(
        incoming(near(IN_REGION)), [running("w", "n1")], [OK, OK, FAR, FAR]
    ),
    "terminating pods still attract": Case(
        incoming(near(IN_REGION)),
        [running("w", "n1", deletion_timestamp="2026-01-01T00:00:00Z")],
        [OK, OK, FAR, FAR],
    ),
    "one pod must satisfy all affinity terms": Case(
        incoming(near(*TWO_TERMS)),
        [running("w", "n1"), running("f", "n1", {"tier": "front"})],
        [FAR] * 4,
    ),
    "affinity terms with different keys need all of them": Case(
        incoming(near(IN_REGION, IN_ZONE)),
        [running("w", "n1")],
        [OK, FAR, FAR],
        (N1, node("n2", region="r1", zone="zx"), N3),
    ),
    "a pod of another namespace does not attract": Case(
        incoming(near(IN_REGION)), [running("w", "n1", namespace="other")], [FAR] * 4
    ),
    "the first of its kind may go anywhere with the key": Case(
        incoming(near(*TWO_TERMS), BOTH), [running("w", "n1")], [OK, OK, OK, FAR]
    ),
    "but not if it does not satisfy itself": Case(
        incoming(near(*TWO_TERMS), WEB), [running("w", "n1")], [FAR] * 4
    ),
    "nor if another of its kind is there": Case(
        incoming(near(*TWO_TERMS), BOTH), [running("b", "n3", BOTH)], [FAR, FAR, OK, FAR]
    ),
    "one on a node without any of the keys does not count as there": Case(
        incoming(near(IN_REGION), WEB), [running("w", "n4")], [OK, OK, OK, FAR]
    ),
    "one on a node with some of the keys does": Case(
        incoming(near(IN_REGION, IN_ZONE), WEB),
        [running("w", "n2")],
        [FAR, FAR, FAR],
        (N1, node("n2", region="r1"), N3),
    ),
    "anti-affinity rules out the domains of each term": Case(
        incoming(apart(make_pod_term("region", WEB), make_pod_term("zone", {"tier": "front"}))),
        [running("b", "n1", BOTH)],
        [NEAR, NEAR, NEAR, OK],
        (N1, node("n2", region="r1"), node("n3", zone="z1"), N4),
    ),
    "any anti-affinity term is enough": Case(
        incoming(apart(make_pod_term("region", WEB), make_pod_term("zone", DB))),
        [running("w", "n1"), running("d", "n3", DB)],
        [NEAR, NEAR, NEAR, OK],
    ),
    "a node without the key passes anti-affinity": Case(
        incoming(apart(make_pod_term("zone", WEB))),
        [running("w", "n4"), running("v", "n1")],
        [NEAR, NEAR, OK, OK],
    ),
    "existing anti-affinity rules out pods without terms": Case(
        incoming(labels=WEB),
        [running("x", "n1", {}, apart(make_pod_term("zone", WEB)))],
        [UNWANTED, UNWANTED, OK, OK],
    ),
    "existing anti-affinity about others does not": Case(
        incoming(labels=DB),
        [running("x", "n1", {}, apart(make_pod_term("zone", WEB)))],
        [OK] * 4,
    ),
    "affinity comes first, then own anti-affinity, then that of others": Case(
        make_pod(
            "p",
            labels=WEB,
            affinity=make_affinity(
                near=[make_pod_term("region", {"tier": "front"})], apart=[IN_ZONE]
            ),
        ),
        [
            running("b", "n1", BOTH, apart(make_pod_term("zone", WEB))),
            running("x", "n2", {}, apart(make_pod_term("host", WEB))),
        ],
        [NEAR, UNWANTED, FAR, OK],
        (
            N1,
            node("n2", region="r1", host="n2"),
            N3,
            node("n5", region="r1", zone="z9"),
        ),
    ),
    "an empty namespace selector means all namespaces": Case(
        incoming(apart(make_pod_term("zone", WEB, namespace_selector={}))),
        [running("w", "n1", namespace="elsewhere")],
        [NEAR, NEAR, OK, OK],
    ),
    "a namespace selector means the namespaces with such labels": Case(
        incoming(apart(make_pod_term("zone", WEB, namespace_selector={"team": "t1"}))),
        [running("w", "n1", namespace="t1"), running("v", "n3", namespace="t2")],
        [NEAR, NEAR, OK, OK],
        namespaces=TEAMS,
    ),
    "listed namespaces replace the pod's own": Case(
        incoming(apart(make_pod_term("zone", WEB, namespaces=["t2"]))),
        [running("w", "n1"), running("v", "n3", namespace="t2")],
        [OK, OK, NEAR, OK],
    ),
    "a selector that holds for no labels reaches every namespace": Case(
        incoming(
            apart(
                make_pod_term(
                    "zone",
                    WEB,
                    namespace_selector=make_selector(None, ("team", "NotIn", "t1")),
                )
            )
        ),
        [running("w", "n1", namespace="t1")],
        [NEAR, NEAR, OK, OK],
        namespaces=TEAMS,
    ),
    "existing terms look at the labels of the pod's namespace": Case(
        make_pod("p", namespace="t1", labels=WEB),
        [
            running(
                "x", "n1", {}, apart(make_pod_term("zone", WEB, namespace_selector={"team": "t1"}))
            ),
            running(
                "y", "n3", {}, apart(make_pod_term("zone", WEB, namespace_selector={"team": "t2"}))
            ),
        ],
        [UNWANTED, UNWANTED, OK, OK],
        namespaces=TEAMS,
    ),
    "an existing NotIn namespace selector is held against real labels": Case(
        make_pod("p", namespace="t1", labels=WEB),
        [
            running(
                "x",
                "n1",
                {},
                apart(
                    make_pod_term(
                        "zone",
                        WEB,
                        namespace_selector=make_selector(None, ("team", "NotIn", "t1")),
                    )
                ),
            )
        ],
        [OK] * 4,
        namespaces=TEAMS,
    ),
    "a term without a selector is about no pod": Case(
        incoming(apart(make_pod_term("zone"))), [running("w", "n1")], [OK] * 4
    ),
}


def run(case: Case) -> list[Status]:
    plugin = InterPodAffinity(handle=FakeHandle(case.namespaces))
    return run_filter(plugin, case.pod, make_view(*case.nodes, pods=case.pods))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_filter(case: Case) -> None:
    assert run(case) == case.want


SKIPPED: dict[str, tuple[Pod, Sequence[Pod]]] = {
    "no terms anywhere": (incoming(), [running("w", "n1")]),
    "only preferences": (
        incoming(make_affinity(near_preferred=[(1, IN_ZONE)])),
        [running("w", "n1", {}, make_affinity(apart_preferred=[(1, make_pod_term("zone", DB))]))],
    ),
    "an existing term whose node lacks the key": (
        incoming(),
        [running("x", "n4", {}, apart(make_pod_term("zone", DB)))],
    ),
    "an existing term about other pods": (
        incoming(),
        [running("x", "n1", {}, apart(make_pod_term("zone", WEB)))],
    ),
}


@pytest.mark.parametrize(("pod", "pods"), SKIPPED.values(), ids=SKIPPED)
def test_pre_filter_skips(pod: Pod, pods: Sequence[Pod]) -> None:
    view = make_view(N1, N2, N3, N4, pods=pods)
    assert InterPodAffinity().pre_filter(CycleState(), PodInfo(pod), view).code is Code.SKIP


BROKEN = make_pod_term("zone", {"app": "{{bad}}"})
BAD_VALUE = 'values[0][app]: Invalid value: "{{bad}}": a valid label must be an empty string or'


def test_an_invalid_term_rejects_the_pod() -> None:
    pod = incoming(make_affinity(near_preferred=[(1, BROKEN)]))
    answer = InterPodAffinity().pre_filter(CycleState(), PodInfo(pod), make_view(N1))
    assert answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert answer.message.startswith(f"parsing pod: preferredAffinityTerms: {BAD_VALUE}")


def test_several_errors_are_listed_in_brackets() -> None:
    pod = incoming(make_affinity(near=[BROKEN], apart=[BROKEN]))
    answer = InterPodAffinity().pre_filter(CycleState(), PodInfo(pod), make_view(N1))
    assert answer.message.startswith(f"parsing pod: [requiredAffinityTerms: {BAD_VALUE}")
    assert f", requiredAntiAffinityTerms: {BAD_VALUE}" in answer.message
    assert answer.message.endswith("]")


def test_invalid_terms_of_an_existing_pod_are_ignored() -> None:
    view = make_view(N1, pods=[running("x", "n1", {}, apart(BROKEN, make_pod_term("zone", DB)))])
    answer = InterPodAffinity().pre_filter(CycleState(), PodInfo(incoming()), view)
    assert answer.code is Code.SKIP


def test_filter_without_pre_filter_is_an_error() -> None:
    view = make_view(N1)
    want = 'error reading "PreFilterInterPodAffinity" from cycleState: not found'
    plugin, pod = InterPodAffinity(), incoming(near(IN_ZONE))
    assert plugin.filter(CycleState(), pod, view.info(0)).message == want
    rejection = plugin.filter_nodes(CycleState(), pod, view).status(0)
    assert rejection is not None
    assert (rejection.code, rejection.message) == (Code.ERROR, want)


class TestDryRun:
    """Filter after a dry run added or removed pods."""

    def verdicts(
        self, plugin: InterPodAffinity, state: CycleState, pod: Pod, view: NodeView
    ) -> list[Status]:
        each = [plugin.filter(state, pod, info) for info in view]
        together = plugin.filter_nodes(state, pod, view)
        assert each == [together.status(i) or SUCCESS for i in range(len(view))]
        return each

    def test_removing_the_last_match_admits_a_pod_that_matches_itself(self) -> None:
        pod, other = incoming(near(IN_REGION), WEB), running("w", "n1")
        view = make_view(N1, N2, N3, N4, pods=[other])
        plugin, state = InterPodAffinity(), CycleState()
        assert run_filter(plugin, pod, view, state) == [OK, OK, FAR, FAR]
        changed = state.clone()
        plugin.remove_pod(changed, pod, PodInfo(other), view.info(0))
        assert self.verdicts(plugin, changed, pod, view) == [OK, OK, OK, FAR]
        plugin.add_pod(changed, pod, PodInfo(other), view.info(0))
        assert self.verdicts(plugin, changed, pod, view) == [OK, OK, FAR, FAR]
        assert self.verdicts(plugin, state, pod, view) == [OK, OK, FAR, FAR]

    def test_removing_pods_removes_anti_affinity_in_both_directions(self) -> None:
        pod = incoming(apart(IN_ZONE), DB)
        mine = running("w", "n1")
        theirs = running("x", "n3", {}, apart(make_pod_term("zone", DB)))
        view = make_view(N1, N2, N3, N4, pods=[mine, theirs])
        plugin, state = InterPodAffinity(), CycleState()
        assert run_filter(plugin, pod, view, state) == [NEAR, NEAR, UNWANTED, OK]
        plugin.remove_pod(state, pod, PodInfo(mine), view.info(0))
        assert self.verdicts(plugin, state, pod, view) == [OK, OK, UNWANTED, OK]
        plugin.remove_pod(state, pod, PodInfo(theirs), view.info(2))
        assert self.verdicts(plugin, state, pod, view) == [OK] * 4

    def test_anti_affinity_of_an_added_pod_counts(self) -> None:
        pod = incoming(apart(IN_ZONE), DB)
        view = make_view(N1, N2, N3, N4)
        plugin, state = InterPodAffinity(), CycleState()
        assert run_filter(plugin, pod, view, state) == [OK] * 4
        added = make_pod("x", affinity=apart(make_pod_term("region", DB)))
        plugin.add_pod(state, pod, PodInfo(added), view.info(0))
        assert self.verdicts(plugin, state, pod, view) == [UNWANTED, UNWANTED, OK, OK]
        plugin.add_pod(state, pod, PodInfo(make_pod("w", labels=WEB)), view.info(3))
        assert self.verdicts(plugin, state, pod, view) == [UNWANTED, UNWANTED, OK, OK]
