"""NodeAffinity: node selectors and required node affinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from kubesched.api import Affinity, NodeSelector
from kubesched.api import NodeAffinity as NodeAffinitySpec
from kubesched.errors import ConfigError
from kubesched.framework import SKIP, SUCCESS, CycleState, OnlyNodes, PodInfo, Status
from kubesched.framework.causes import NodeSelectorMismatch
from kubesched.scheduler.config.args import NodeAffinityArgs
from kubesched.scheduler.plugins.node_affinity import NodeAffinity
from kubesched.testing import (
    check_plugin,
    make_affinity,
    make_node,
    make_node_selector,
    make_node_term,
    make_pod,
    make_view,
)
from kubesched.testing.objects.views import filter_each, filter_together

MISMATCH = Status.unresolvable(
    "node(s) didn't match Pod's node affinity/selector", causes=(NodeSelectorMismatch(),)
)
ENFORCED = Status.unresolvable(
    "node(s) didn't match scheduler-enforced node affinity", causes=(NodeSelectorMismatch(),)
)

NODES = make_view(
    make_node("n1", labels={"disk": "ssd", "rank": "0300"}),
    make_node("n2", labels={"disk": "hdd", "rank": "abc"}),
    make_node("n3", labels={"disk": ""}),
    make_node("n4"),
)


class Case(NamedTuple):
    matching: str  # names of the nodes that pass
    affinity: Affinity | None = None
    node_selector: Mapping[str, str] | None = None


def required(*terms: object) -> Affinity:
    return make_affinity(node=make_node_selector(*terms))


CASES = {
    "a node selector": Case("n1", node_selector={"disk": "ssd"}),
    "a node selector on several labels": Case("", node_selector={"disk": "ssd", "rank": "1"}),
    "an empty node selector matches all": Case("n1 n2 n3 n4", node_selector={}),
    "an empty value is not an absent label": Case("n3", node_selector={"disk": ""}),
    "In one value": Case("n1", required(("disk", "In", "ssd"))),
    "In several values": Case("n1 n2", required(("disk", "In", "ssd", "hdd", "tape"))),
    "In a value that no node has": Case("", required(("disk", "In", "tape"))),
    "NotIn matches nodes without the label": Case("n2 n3 n4", required(("disk", "NotIn", "ssd"))),
    "NotIn a value that no node has": Case("n1 n2 n3 n4", required(("disk", "NotIn", "tape"))),
    "Exists": Case("n1 n2 n3", required(("disk", "Exists"))),
    "DoesNotExist": Case("n4", required(("disk", "DoesNotExist"))),
    "Gt reads both sides as numbers": Case("n1", required(("rank", "Gt", "0206"))),
    "Lt is strict": Case("", required(("rank", "Lt", "300"))),
    "a negative bound cannot be parsed": Case("", required(("rank", "Gt", "-5"))),
    "expressions of a term must all hold": Case(
        "n1", required(make_node_term(("disk", "Exists"), ("rank", "Gt", "1")))
    ),
    "terms are alternatives": Case(
        "n2 n4", required(("disk", "In", "hdd"), ("disk", "DoesNotExist"))
    ),
    "no terms match nothing": Case("", required()),
    "an empty term matches nothing": Case("", required(make_node_term())),
    "an empty term beside another is dropped": Case(
        "n1", required(make_node_term(), ("disk", "In", "ssd"))
    ),
    "selector and affinity must both hold": Case(
        "n1", required(("rank", "Exists")), node_selector={"disk": "ssd"}
    ),
    "a broken term beside one that matches": Case(
        "n2",
        required(
            make_node_term(fields=[("metadata.name", "In", "n1", "n4")]), ("disk", "In", "hdd")
        ),
    ),
    "a field and an expression": Case(
        "n2", required(make_node_term(("disk", "Exists"), fields=[("metadata.name", "In", "n2")]))
    ),
    "a field that must differ": Case(
        "n2 n3 n4", required(make_node_term(fields=[("metadata.name", "NotIn", "n1")]))
    ),
    "an unknown field reads as empty": Case(
        "n1 n2 n3 n4", required(make_node_term(fields=[("metadata.uid", "NotIn", "x")]))
    ),
    "an unknown operator matches nothing": Case("", required(("disk", "Near", "ssd"))),
    "a key that no label can have": Case("", required(("not a key", "Exists"))),
    "preferences do not filter": Case(
        "n1 n2 n3 n4", make_affinity(node_preferred=[(1, ("disk", "In", "ssd"))])
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("with_pre_filter", [True, False])
def test_filter(case: Case, with_pre_filter: bool) -> None:
    plugin, state = NodeAffinity(), CycleState()
    pod = make_pod("p", affinity=case.affinity, node_selector=case.node_selector)
    if with_pre_filter:
        plugin.pre_filter(state, PodInfo(pod), NODES)
    matching = case.matching.split()
    want = [SUCCESS if name in matching else MISMATCH for name in NODES.names]
    assert filter_each(plugin, state, pod, NODES) == want
    assert filter_together(plugin, state, pod, NODES) == want


N1 = make_node_term(fields=[("metadata.name", "In", "n1")])
N2 = make_node_term(fields=[("metadata.name", "In", "n2")])
BOTH = make_node_term(fields=[("metadata.name", "In", "n1"), ("metadata.name", "In", "n2")])

PRE_FILTER_CASES: Mapping[str, tuple[Affinity | None, Mapping[str, str] | None, object]] = {
    "nothing required": (None, None, SKIP),
    "only preferences": (make_affinity(node_preferred=[(1, ("a", "Exists"))]), None, SKIP),
    "an empty node selector is not skipped": (None, {}, SUCCESS),
    "a node selector does not narrow": (None, {"a": "b"}, SUCCESS),
    "no terms are not skipped": (required(), None, SUCCESS),
    "labels do not narrow": (required(("a", "Exists")), None, SUCCESS),
    "alternatives by name": (required(N1, N2), None, OnlyNodes(frozenset({"n1", "n2"}))),
    "two names in one term": (
        required(BOTH),
        None,
        Status.unresolvable("pod affinity terms conflict", causes=(NodeSelectorMismatch(),)),
    ),
    "a conflict beside a name": (required(BOTH, N2), None, OnlyNodes(frozenset({"n2"}))),
    "a name or a label": (required(N1, ("a", "Exists")), None, SUCCESS),
    "a name to avoid does not narrow": (
        required(make_node_term(fields=[("metadata.name", "NotIn", "n1")])),
        None,
        SUCCESS,
    ),
    "several values, although they cannot be parsed": (
        required(make_node_term(fields=[("metadata.name", "In", "n1", "n2")])),
        None,
        OnlyNodes(frozenset({"n1", "n2"})),
    ),
}


@pytest.mark.parametrize(
    ("affinity", "node_selector", "want"), PRE_FILTER_CASES.values(), ids=PRE_FILTER_CASES
)
def test_pre_filter(
    affinity: Affinity | None, node_selector: Mapping[str, str] | None, want: object
) -> None:
    pod = make_pod("p", affinity=affinity, node_selector=node_selector)
    assert NodeAffinity().pre_filter(CycleState(), PodInfo(pod), NODES) == want


def adding(required_part: NodeSelector) -> NodeAffinity:
    added = NodeAffinitySpec(required_during_scheduling_ignored_during_execution=required_part)
    return NodeAffinity(NodeAffinityArgs(added_affinity=added))


def test_added_affinity_is_checked_first_and_is_never_skipped() -> None:
    plugin, state = adding(make_node_selector(("disk", "In", "ssd", "hdd"))), CycleState()
    pod = make_pod("p")
    assert plugin.pre_filter(state, PodInfo(pod), NODES) == SUCCESS
    want = [SUCCESS, SUCCESS, ENFORCED, ENFORCED]
    assert filter_each(plugin, state, pod, NODES) == want
    assert filter_together(plugin, state, pod, NODES) == want
    choosy = make_pod("p", node_selector={"disk": "hdd"})
    state = CycleState()
    plugin.pre_filter(state, PodInfo(choosy), NODES)
    want = [MISMATCH, SUCCESS, ENFORCED, ENFORCED]
    assert filter_each(plugin, state, choosy, NODES) == want
    assert filter_together(plugin, state, choosy, NODES) == want


def test_an_added_selector_without_terms_matches_no_node() -> None:
    plugin, pod = adding(make_node_selector()), make_pod("p")
    assert filter_together(plugin, CycleState(), pod, NODES) == [ENFORCED] * 4
    assert filter_each(plugin, CycleState(), pod, NODES) == [ENFORCED] * 4


def test_an_invalid_added_affinity_is_a_configuration_error() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^parsing addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: "
        r"nodeSelectorTerms\[0\].matchExpressions\[0\].operator: Unsupported value",
    ):
        adding(make_node_selector(("disk", "Near", "ssd")))


def test_contract() -> None:
    check_plugin(NodeAffinity)
    check_plugin(lambda _, __: adding(make_node_selector(("disk", "Exists"))), rounds=10)
