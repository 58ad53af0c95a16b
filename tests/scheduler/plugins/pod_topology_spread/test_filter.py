"""Hard constraints, in the one-node and the many-node form.

docs/reference/06 §5.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pytest

from kubesched.api import LabelSelector, Node, Pod, TopologySpreadConstraint
from kubesched.api.base import ApiObject
from kubesched.framework import SUCCESS, Code, CycleState, PodInfo, Status
from kubesched.framework.causes import TopologyLabelMissing, TopologySkewExceeded
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.config.args import LIST_DEFAULTING, PodTopologySpreadArgs
from kubesched.scheduler.plugins.pod_topology_spread import PodTopologySpread
from kubesched.testing import (
    FakeHandle,
    make_node,
    make_pod,
    make_selector,
    make_service,
    make_spread,
    make_view,
    run_filter,
)

SKEWED = Status.unschedulable(
    "node(s) didn't match pod topology spread constraints", causes=(TopologySkewExceeded(),)
)
MISSING = Status.unresolvable(
    "node(s) didn't match pod topology spread constraints (missing required label)",
    causes=(TopologyLabelMissing(),),
)
OK, U, UU = SUCCESS, SKEWED, MISSING

FOO = {"foo": ""}


def node(
    name: str, *, without: Iterable[str] = (), taints: Sequence[str] = (), **labels: str
) -> Node:
    """a and b are in zone z1, x and y in z2; each is alone in its `node` domain."""
    given = {"zone": "z1" if name in "ab" else "z2", "node": name, **labels}
    return make_node(
        name,
        labels={key: value for key, value in given.items() if key not in without},
        taints=taints,
    )


A, B, X, Y = (node(name) for name in "abxy")


def on(counts: Mapping[str, int], labels: Mapping[str, str] = FOO, **more: str) -> list[Pod]:
    """Return this many matching pods on each node."""
    return [
        make_pod(f"{name}-{number}-{'-'.join(labels)}", labels=labels, node_name=name, **more)  # type: ignore[arg-type]
        for name, count in counts.items()
        for number in range(count)
    ]


def incoming(*spread: TopologySpreadConstraint, labels: Mapping[str, str] = FOO) -> Pod:
    return make_pod("p", labels=labels, spread=spread)


def spread(
    key: str, skew: int = 1, labels: object = FOO, **more: object
) -> TopologySpreadConstraint:
    return make_spread(key, max_skew=skew, labels=labels, **more)  # type: ignore[arg-type]


ONE_EACH = {"a": 1, "b": 1, "x": 1, "y": 1}
UNEVEN = {"a": 2, "b": 1, "x": 0, "y": 3}


class Case(NamedTuple):
    pod: Pod
    want: list[Status]
    pods: Sequence[Pod] = ()
    nodes: Sequence[Node] = (A, B, X, Y)


FOO_NODES = (node("a", foo=""), node("b", foo=""), node("x", foo=""), Y)


def wants_foo(**policy: str) -> Pod:
    return make_pod(
        "p",
        labels=FOO,
        node_selector=FOO,
        spread=[spread("node", **policy)],  # type: ignore[arg-type]
    )


CASES = {
    "no existing pods: all nodes fit": Case(incoming(spread("zone")), [OK] * 4),
    "skew 1 per node leaves only the empty node": Case(
        incoming(spread("node")), [U, U, OK, U], on(UNEVEN)
    ),
    "skew 2 per node lets one more in": Case(
        incoming(spread("node", 2)), [U, OK, OK, U], on(UNEVEN)
    ),
    "a pod outside its own selector does not count itself": Case(
        incoming(spread("node"), labels={"bar": ""}), [U, OK, OK, U], on(UNEVEN)
    ),
    "pods of other namespaces do not count": Case(
        incoming(spread("zone")),
        [OK, OK, U, U],
        [*on({"a": 1}, namespace="ns1"), *on({"b": 2}, namespace="ns2"), *on({"x": 1, "y": 1})],
    ),
    "a node without the label is out, and does not count": Case(
        incoming(spread("zone")),
        [OK, UU, U, U],
        on(ONE_EACH),
        (A, node("b", without=["zone"]), X, Y),
    ),
    "no node has the key": Case(incoming(spread("rack")), [UU] * 4),
    "a node must have all keys to count for any": Case(
        incoming(spread("zone"), spread("node")),
        [U, OK, UU, U],
        on({"a": 1, "y": 1, "x": 3}),
        (A, B, node("x", without=["node"]), Y),
    ),
    "terminating pods do not count": Case(
        incoming(spread("node")),
        [OK, U],
        [
            *on({"b": 1}),
            make_pod("t", labels=FOO, node_name="a", deletion_timestamp="2026-01-01T00:00:00Z"),
        ],
        (A, B),
    ),
    "too few domains: the minimum is zero": Case(
        incoming(spread("node", 2, min_domains=4)),
        [U, U, OK],
        on({"a": 2, "b": 2, "x": 1}),
        (A, B, X),
    ),
    "enough domains: the minimum is the emptiest": Case(
        incoming(spread("node", 2, min_domains=2)),
        [OK] * 3,
        on({"a": 2, "b": 2, "x": 1}),
        (A, B, X),
    ),
    "no selector selects nothing": Case(
        incoming(spread("node", labels=None)), [OK] * 4, on(UNEVEN)
    ),
    "an empty selector counts nothing": Case(
        incoming(spread("node", labels=make_selector())), [OK] * 4, on(UNEVEN)
    ),
    "nodes outside the pod's node selector do not count": Case(
        wants_foo(), [U, U, OK, OK], on({"a": 1, "b": 1, "y": 1}), FOO_NODES
    ),
    "unless the affinity policy says to ignore it": Case(
        wants_foo(node_affinity_policy="Ignore"),
        [U, U, OK, U],
        on({"a": 1, "b": 1, "y": 1}),
        FOO_NODES,
    ),
    "untolerated taints matter with the policy Honor": Case(
        incoming(spread("node", node_taints_policy="Honor")),
        [U, U, OK, OK],
        on({"a": 1, "b": 1, "y": 1}),
        (A, B, X, node("y", taints=["k=v:NoSchedule"])),
    ),
    "and do not without": Case(
        incoming(spread("node")),
        [U, U, OK, U],
        on({"a": 1, "b": 1, "y": 1}),
        (A, B, X, node("y", taints=["k=v:NoSchedule"])),
    ),
    "matchLabelKeys narrow the selector": Case(
        incoming(
            spread("zone", labels=make_selector(None, ("foo", "Exists")), match_label_keys=["bar"]),
            labels={"foo": "", "bar": "a"},
        ),
        [OK, OK, U, U],
        [*on({"a": 2}, {"foo": "", "bar": "b"}), *on({"x": 1}, {"foo": "", "bar": "a"})],
    ),
    "matchLabelKeys that the pod lacks are ignored": Case(
        incoming(
            spread("zone", labels=make_selector(None, ("foo", "Exists")), match_label_keys=["bar"])
        ),
        [U, U, OK, OK],
        [*on({"a": 2}, {"foo": "", "bar": "b"}), *on({"x": 1}, {"foo": "", "bar": "a"})],
    ),
    "matchLabelKeys do not make a selector of none": Case(
        incoming(
            spread("zone", labels=None, match_label_keys=["foo"]),
        ),
        [OK] * 4,
        on(UNEVEN),
    ),
    "two constraints on one key count for themselves": Case(
        incoming(
            spread("zone", labels={"foo": ""}),
            spread("zone", labels={"bar": ""}),
            labels={"foo": "", "bar": ""},
        ),
        [U, U, U, U],
        [*on({"a": 1}, {"foo": ""}), *on({"x": 1}, {"bar": ""})],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_filter(case: Case) -> None:
    view = make_view(*case.nodes, pods=case.pods)
    assert run_filter(PodTopologySpread(), case.pod, view) == case.want


def test_a_taint_that_is_added_later_counts() -> None:
    cache = Cache()
    for each in (A, B, X):
        cache.add_node(each)
    for pod in on({"a": 1, "b": 1}):
        cache.add_pod(pod)
    plugin, pod = PodTopologySpread(), incoming(spread("node", node_taints_policy="Honor"))
    assert run_filter(plugin, pod, cache.update_snapshot().nodes) == [U, U, OK]
    cache.update_node(node("x", taints=["k=v:NoSchedule"]))
    # The empty node no longer counts, so the minimum is one pod.
    assert run_filter(plugin, pod, cache.update_snapshot().nodes) == [OK, OK, OK]
    tolerant = make_pod(
        "q", labels=FOO, tolerations=["k"], spread=[spread("node", node_taints_policy="Honor")]
    )
    assert run_filter(plugin, tolerant, cache.update_snapshot().nodes) == [U, U, OK]


LIST_ARGS = PodTopologySpreadArgs(
    defaulting_type=LIST_DEFAULTING,
    default_constraints=(
        TopologySpreadConstraint(
            max_skew=1, topology_key="node", when_unsatisfiable="DoNotSchedule"
        ),
        TopologySpreadConstraint(
            max_skew=2, topology_key="node", when_unsatisfiable="ScheduleAnyway"
        ),
        TopologySpreadConstraint(
            max_skew=2, topology_key="zone", when_unsatisfiable="DoNotSchedule"
        ),
    ),
)


def plugin_with(*objects: ApiObject, args: PodTopologySpreadArgs = LIST_ARGS) -> PodTopologySpread:
    return PodTopologySpread(args, FakeHandle(objects))


def test_hard_defaults_use_the_selector_of_the_service() -> None:
    plugin = plugin_with(make_service("s", selector=FOO))
    view = make_view(A, B, X, Y, pods=on({"a": 1, "b": 1, "y": 1}))
    # Per node, the minimum is 0, so a second pod does not fit; per zone, 2 and 1 are in skew 2.
    assert run_filter(plugin, incoming(), view) == [U, U, OK, U]
    view = make_view(A, B, X, Y, pods=on({"a": 3, "x": 1, "y": 1}))
    assert run_filter(plugin, incoming(), view) == [U, OK, U, U]


SKIPPED = {
    "only soft constraints": (PodTopologySpread(), incoming(spread("zone", when="ScheduleAnyway"))),
    "System defaults are soft": (
        plugin_with(make_service("s", selector=FOO), args=PodTopologySpreadArgs()),
        incoming(),
    ),
    "defaults with nothing that selects the pod": (
        plugin_with(make_service("s", selector={"other": ""})),
        incoming(),
    ),
    "a service that selects every pod says nothing": (
        plugin_with(make_service("s", selector={})),
        incoming(),
    ),
    "own constraints, even soft ones, turn defaults off": (
        plugin_with(make_service("s", selector=FOO)),
        incoming(spread("zone", when="ScheduleAnyway")),
    ),
    "an empty list of defaults": (
        plugin_with(
            make_service("s", selector=FOO),
            args=PodTopologySpreadArgs(defaulting_type=LIST_DEFAULTING),
        ),
        incoming(),
    ),
}


@pytest.mark.parametrize(("plugin", "pod"), SKIPPED.values(), ids=SKIPPED)
def test_pre_filter_skips(plugin: PodTopologySpread, pod: Pod) -> None:
    answer = plugin.pre_filter(CycleState(), PodInfo(pod), make_view(A, B, X, Y))
    assert answer.code is Code.SKIP


def test_an_invalid_selector_is_an_error() -> None:
    broken = LabelSelector(match_labels={"foo": "{{bad}}"})
    answer = PodTopologySpread().pre_filter(
        CycleState(), PodInfo(incoming(spread("zone", labels=broken))), make_view(A)
    )
    assert answer.code is Code.ERROR
    assert answer.message.startswith(
        "get constraints from pod: obtaining pod's hard topology spread constraints: "
        'values[0][foo]: Invalid value: "{{bad}}"'
    )


def test_filter_without_pre_filter_is_an_error() -> None:
    view = make_view(A)
    want = 'reading "PreFilterPodTopologySpread" from cycleState: not found'
    plugin, pod = PodTopologySpread(), incoming(spread("zone"))
    assert plugin.filter(CycleState(), pod, view.info(0)).message == want
    rejection = plugin.filter_nodes(CycleState(), pod, view).status(0)
    assert rejection is not None
    assert (rejection.code, rejection.message) == (Code.ERROR, want)


class TestDryRun:
    """Filter after a dry run added or removed pods."""

    pod = incoming(spread("zone"))

    def started(self, *pods: Pod) -> tuple[PodTopologySpread, CycleState, list[Status]]:
        plugin, state = PodTopologySpread(), CycleState()
        self.view = make_view(A, B, X, Y, pods=pods)
        before = run_filter(plugin, self.pod, self.view, state)
        return plugin, state, before

    def verdicts(self, plugin: PodTopologySpread, state: CycleState) -> list[Status]:
        each = [plugin.filter(state, self.pod, info) for info in self.view]
        together = plugin.filter_nodes(state, self.pod, self.view)
        assert each == [together.status(i) or SUCCESS for i in range(len(self.view))]
        return each

    def test_removing_a_pod_lowers_the_minimum_and_adding_it_back_restores_it(self) -> None:
        victim, *others = on({"a": 2, "x": 2})
        plugin, state, before = self.started(victim, *others)
        assert before == [OK] * 4
        changed = state.clone()
        plugin.remove_pod(changed, self.pod, PodInfo(victim), self.view.info(0))
        assert self.verdicts(plugin, changed) == [OK, OK, U, U]
        plugin.add_pod(changed, self.pod, PodInfo(victim), self.view.info(0))
        assert self.verdicts(plugin, changed) == [OK] * 4
        assert self.verdicts(plugin, state) == [OK] * 4

    def test_adding_a_pod_raises_the_count_of_its_domain(self) -> None:
        plugin, state, _ = self.started()
        plugin.add_pod(state, self.pod, PodInfo(make_pod("q", labels=FOO)), self.view.info(2))
        assert self.verdicts(plugin, state) == [OK, OK, U, U]

    def test_pods_of_other_namespaces_and_other_labels_change_nothing(self) -> None:
        plugin, state, _ = self.started()
        stranger = make_pod("q", labels=FOO, namespace="other")
        unlike = make_pod("q", labels={"bar": ""})
        for other in (stranger, unlike):
            plugin.add_pod(state, self.pod, PodInfo(other), self.view.info(2))
        assert self.verdicts(plugin, state) == [OK] * 4

    def test_removing_a_terminating_victim_lowers_a_count_that_excluded_it(self) -> None:
        gone = make_pod("t", labels=FOO, node_name="a", deletion_timestamp="2026-01-01T00:00:00Z")
        plugin, state, before = self.started(gone)
        assert before == [OK] * 4
        plugin.remove_pod(state, self.pod, PodInfo(gone), self.view.info(0))
        # The minimum is now -1, so a domain with 0 is already one above it.
        assert self.verdicts(plugin, state) == [OK, OK, U, U]

    def test_nodes_that_do_not_count_change_nothing(self) -> None:
        self.pod = make_pod("p", labels=FOO, node_selector={"zone": "z1"}, spread=[spread("zone")])
        plugin, state, _ = self.started()
        plugin.add_pod(state, self.pod, PodInfo(make_pod("q", labels=FOO)), self.view.info(2))
        assert self.verdicts(plugin, state) == [OK] * 4

    @pytest.mark.parametrize("filled", [1, 15, 16, 17, 25, 30])
    def test_the_minimum_is_found_however_many_domains_changed(self, filled: int) -> None:
        """30 nodes are empty, 10 have a pod; the minimum rises with the last empty one."""
        names = [f"n{number:02}" for number in range(40)]
        nodes = [make_node(name, labels={"node": name}) for name in names]
        self.pod = incoming(spread("node"))
        self.view = make_view(*nodes, pods=on(dict.fromkeys(names[30:], 1)))
        plugin, state = PodTopologySpread(), CycleState()
        assert run_filter(plugin, self.pod, self.view, state) == [OK] * 30 + [U] * 10
        for index in range(filled):
            plugin.add_pod(
                state, self.pod, PodInfo(make_pod("q", labels=FOO)), self.view.info(index)
            )
        some_are_empty = [U] * filled + [OK] * (30 - filled) + [U] * 10
        assert self.verdicts(plugin, state) == (some_are_empty if filled < 30 else [OK] * 40)
