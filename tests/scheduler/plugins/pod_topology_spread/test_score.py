"""Soft constraints and default constraints (docs/reference/06 §5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from kubesched.api import LabelSelector, Node, OwnerReference, Pod, TopologySpreadConstraint
from kubesched.api.base import ApiObject
from kubesched.framework import Code, CycleState, NodeView, PodInfo
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.config.args import LIST_DEFAULTING, PodTopologySpreadArgs
from kubesched.scheduler.plugins.pod_topology_spread import PodTopologySpread
from kubesched.testing import (
    HOSTNAME,
    ZONE,
    FakeHandle,
    make_node,
    make_owner,
    make_pod,
    make_replica_set,
    make_replication_controller,
    make_selector,
    make_service,
    make_spread,
    make_stateful_set,
    make_view,
)
from kubesched.testing.objects.views import score_each, score_together

FOO = {"foo": ""}


def node(name: str, *, hostname_label: bool = True, **labels: str) -> Node:
    given = {"zone": "z1" if name in "ab" else "z2", "node": name, **labels}
    return make_node(name, labels=given, hostname_label=hostname_label)


A, B, X, Y = (node(name) for name in "abxy")


def on(counts: Mapping[str, int], labels: Mapping[str, str] = FOO) -> list[Pod]:
    return [
        make_pod(f"{name}-{number}", labels=labels, node_name=name)
        for name, count in counts.items()
        for number in range(count)
    ]


def spread(
    key: str, skew: int = 1, labels: object = FOO, **more: object
) -> TopologySpreadConstraint:
    return make_spread(key, max_skew=skew, labels=labels, when="ScheduleAnyway", **more)  # type: ignore[arg-type]


def incoming(*constraints: TopologySpreadConstraint) -> Pod:
    return make_pod("p", labels=FOO, spread=constraints)


def scores(
    plugin: PodTopologySpread, pod: Pod, view: NodeView, candidates: str = ""
) -> dict[str, int]:
    """Return the normalized scores of the candidates, from both forms."""
    if candidates:
        view = view.at_rows(view.table.rows_of(candidates))
    state = CycleState()
    plugin.pre_filter(state, PodInfo(pod), view)
    assert plugin.pre_score(state, PodInfo(pod), view).is_success
    raw = score_together(plugin, state, pod, view)
    assert raw.tolist() == score_each(plugin, state, pod, view).tolist()
    normalized = plugin.normalize_score(state, pod, view, raw)
    return dict(zip(view.names, normalized.tolist(), strict=True))


class Case(NamedTuple):
    pod: Pod
    want: dict[str, int]
    counts: Mapping[str, int]
    nodes: Sequence[Node] = (A, B, X, Y)
    candidates: str = ""


UNEVEN = {"a": 2, "b": 1, "x": 0, "y": 3}
DISK = {"disk": "ssd"}
ON_SSD = (node("a", **DISK), node("b", **DISK), X)


def wants_disk(**policy: str) -> Pod:
    return make_pod(
        "p",
        labels=FOO,
        node_selector=DISK,
        spread=[spread("node", **policy)],  # type: ignore[arg-type]
    )


CASES = {
    "hostname, skew 1": Case(
        incoming(spread(HOSTNAME)), {"a": 20, "b": 60, "x": 100, "y": 0}, UNEVEN
    ),
    "hostname, skew 2": Case(
        incoming(spread(HOSTNAME, 2)), {"a": 33, "b": 66, "x": 100, "y": 16}, UNEVEN
    ),
    "a node that was filtered out does not take part": Case(
        incoming(spread(HOSTNAME)),
        {"a": 33, "b": 83, "x": 100},
        {"a": 4, "b": 2, "x": 1, "y": 3},
        candidates="abx",
    ),
    "a node without the label gets nothing": Case(
        incoming(spread(HOSTNAME)),
        {"a": 16, "b": 0, "x": 100},
        {"a": 4, "b": 2, "x": 1, "y": 3},
        (A, node("b", hostname_label=False), X, Y),
        candidates="abx",
    ),
    "zones count pods on nodes that were filtered out": Case(
        incoming(spread("zone")),
        {"a": 75, "b": 75, "x": 100},
        {"a": 4, "b": 2, "x": 1, "y": 3},
        candidates="abx",
    ),
    "zone and hostname add up": Case(
        incoming(spread("zone"), spread(HOSTNAME)),
        {"a": 100, "x": 63},
        {"a": 2, "x": 2, "b": 1, "y": 4},
        candidates="ax",
    ),
    "all equal": Case(incoming(spread("zone")), {"a": 100, "x": 100}, {}, (A, X)),
    "a single candidate": Case(incoming(spread("zone")), {"a": 100}, {"a": 3}, candidates="a"),
    "no selector": Case(incoming(spread("zone", labels=None)), dict.fromkeys("abxy", 100), UNEVEN),
    "nodes outside the node selector do not count": Case(
        wants_disk(), {"a": 0, "b": 33, "x": 100}, {"a": 2, "b": 1, "x": 1}, ON_SSD
    ),
    "unless the policy says to ignore it": Case(
        wants_disk(node_affinity_policy="Ignore"),
        {"a": 66, "b": 100, "x": 100},
        {"a": 2, "b": 1, "x": 1},
        ON_SSD,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_score(case: Case) -> None:
    view = make_view(*case.nodes, pods=on(case.counts))
    assert scores(PodTopologySpread(), case.pod, view, case.candidates) == case.want


def test_halves_are_rounded_up() -> None:
    import numpy as np

    from kubesched.scheduler.plugins.pod_topology_spread.scoring import _rounded

    values = np.array([0.0, 1.5, 2.5, 2.4999999999999996, 1.4999999999999998, 8.5])
    assert _rounded(values).tolist() == [0, 2, 3, 2, 1, 9]


def with_objects(*objects: ApiObject) -> PodTopologySpread:
    return PodTopologySpread(PodTopologySpreadArgs(), FakeHandle(objects))


def owned(kind: str, api_version: str = "apps/v1") -> Pod:
    return make_pod("p", labels=FOO, owner=make_owner(kind, "o", api_version=api_version))


DOWNHILL = {"a": 4, "b": 3, "x": 2, "y": 1}
DOWNHILL_SCORES = {"a": 44, "b": 66, "x": 77, "y": 100}

DEFAULTED = {
    "a service": (make_pod("p", labels=FOO), [make_service("s", selector=FOO)]),
    "two services that agree": (
        make_pod("p", labels={**FOO, "bar": ""}),
        [make_service("s", selector=FOO), make_service("all", selector={})],
    ),
    "a replica set": (owned("ReplicaSet"), [make_replica_set("o", selector=FOO)]),
    "a stateful set": (owned("StatefulSet"), [make_stateful_set("o", selector=FOO)]),
    "a replication controller": (
        owned("ReplicationController", "v1"),
        [make_replication_controller("o", selector=FOO)],
    ),
    "a replica set with expressions": (
        owned("ReplicaSet"),
        [make_replica_set("o", selector=make_selector(None, ("foo", "Exists")))],
    ),
}


@pytest.mark.parametrize(("pod", "objects"), DEFAULTED.values(), ids=DEFAULTED)
def test_system_defaults_spread_the_pods_of_a_service_or_controller(
    pod: Pod, objects: Sequence[ApiObject]
) -> None:
    view = make_view(A, B, X, Y, pods=on(DOWNHILL))
    assert scores(with_objects(*objects), pod, view) == DOWNHILL_SCORES


def test_both_service_and_controller_must_select_the_pod() -> None:
    pod = make_pod("p", labels={**FOO, "bar": "1"}, owner=make_owner("ReplicaSet", "o"))
    objects = [make_service("s", selector=FOO), make_replica_set("o", selector={"bar": "1"})]
    pods = [*on(DOWNHILL), make_pod("both", labels={**FOO, "bar": "1"}, node_name="y")]
    # Only one pod has both labels: raw 2, 2, 2 and 2 + ln 6 + a zone each.
    assert scores(with_objects(*objects), pod, make_view(A, B, X, Y, pods=pods)) == {
        "a": 100,
        "b": 100,
        "x": 100,
        "y": 50,
    }


def test_nodes_without_a_zone_get_scores_with_system_defaults() -> None:
    """Their score lacks the zone's part; they count as one more zone."""
    zoned = [make_node(name, zone="z") for name in "ab"]
    bare = make_node("x")
    pod = make_pod("p", labels=FOO)
    view = make_view(*zoned, bare, pods=on({"a": 1, "x": 1}))
    # hostname: ln(3+2) a pod + 2; zone: two domains, ln(2+2) a pod + 4.
    # a: 1.609 + 2 + 1.386 + 4 = 8.996, b: 2 + 5.386 = 7.386, x: 3.609.
    assert scores(with_objects(make_service("s", selector=FOO)), pod, view) == {
        "a": 100 * (9 + 4 - 9) // 9,
        "b": 100 * (9 + 4 - 7) // 9,
        "x": 100,
    }


def test_an_empty_and_an_absent_zone_are_one_zone_in_system_defaults() -> None:
    nodes = [make_node("a", zone="z"), make_node("b", labels={ZONE: ""}), make_node("x")]
    pod = make_pod("p", labels=FOO)
    view = make_view(*nodes, pods=on({"x": 10}))
    # hostname: ln 5 a pod + 2; zone: two domains, ln 4 a pod + 4; b's zone holds x's pods.
    # a: 2 + 4 = 6, b: 2 + 10 * 1.386 + 4 = 19.863, x: 10 * 1.609 + 2 = 18.094.
    assert scores(with_objects(make_service("s", selector=FOO)), pod, view) == {
        "a": 100,
        "b": 100 * (20 + 6 - 20) // 20,
        "x": 100 * (20 + 6 - 18) // 20,
    }


def test_a_node_without_labels_that_is_added_later_is_not_counted() -> None:
    """It is in the empty zone, but the pod's node selector excludes it."""
    disk = {"disk": "ssd"}
    nodes = [make_node("a", labels={ZONE: "", **disk}), make_node("b", labels=disk)]
    cache = Cache()
    for each in nodes:
        cache.add_node(each)
    plugin = with_objects(make_service("s", selector=FOO))
    pod = make_pod("p", labels=FOO, node_selector=disk)
    assert scores(plugin, pod, cache.update_snapshot().nodes, "ab") == {"a": 33, "b": 100}
    cache.add_node(make_node("c"))
    for other in on({"c": 10}):
        cache.add_pod(other)
    # hostname: 2 each; zone: 4 for a, whose zone must not count the pods on c.
    assert scores(plugin, pod, cache.update_snapshot().nodes, "ab") == {"a": 33, "b": 100}


def test_list_defaults_ignore_nodes_without_a_label() -> None:
    args = PodTopologySpreadArgs(
        defaulting_type=LIST_DEFAULTING,
        default_constraints=(
            TopologySpreadConstraint(
                max_skew=1, topology_key="rack", when_unsatisfiable="ScheduleAnyway"
            ),
        ),
    )
    plugin = PodTopologySpread(args, FakeHandle([make_service("s", selector=FOO)]))
    view = make_view(node("a", rack="1"), node("b", rack="2"), X, pods=on({"a": 1, "x": 3}))
    assert scores(plugin, make_pod("p", labels=FOO), view) == {"a": 0, "b": 100, "x": 0}


def test_services_with_very_many_labels_add_no_constraint() -> None:
    """The limit for a pod's own constraints; otherwise each attempt compiles all labels."""
    labels = {f"k{number}": "v" for number in range(1_000)}
    few = dict(list(labels.items())[:512])
    pod = make_pod("p", labels=labels)
    view = make_view(A, X, pods=on({"a": 1}, labels))
    assert scores(with_objects(make_service("s", selector=few)), pod, view)["x"] == 100
    large = with_objects(make_service("s", selector=labels))
    assert large.pre_score(CycleState(), PodInfo(pod), view).is_skip
    parts = [dict(list(labels.items())[start : start + 400]) for start in (0, 400)]
    both = with_objects(*(make_service(f"s{i}", selector=each) for i, each in enumerate(parts)))
    assert both.pre_score(CycleState(), PodInfo(pod), view).is_skip


def test_the_number_of_domains_is_that_of_the_candidates() -> None:
    """With one zone among the candidates a pod weighs ln 3, with three zones ln 5."""
    nodes = [node("a", zone="z1"), node("b", zone="z1", node="b2"), *(X, Y)]
    plugin, state = PodTopologySpread(), CycleState()
    pod = incoming(spread("zone"))
    view = make_view(*nodes, pods=on({"a": 10}))
    narrow = view.at_rows(view.table.rows_of("ab"))
    plugin.pre_score(state, PodInfo(pod), narrow)
    assert plugin.score_nodes(state, pod, narrow).tolist() == [11, 11]  # 10 ln 3 = 10.99
    plugin.pre_score(state, PodInfo(pod), view)
    assert plugin.score_nodes(state, pod, view).tolist() == [14, 14, 0, 0]  # 10 ln 4 = 13.86


SKIPPED = {
    "no constraints and no defaults": (
        PodTopologySpread(PodTopologySpreadArgs(defaulting_type=LIST_DEFAULTING)),
        make_pod("p", labels=FOO),
    ),
    "only hard constraints": (
        PodTopologySpread(),
        make_pod("p", labels=FOO, spread=[make_spread("zone", labels=FOO)]),
    ),
    "a replica set that is not there": (with_objects(), owned("ReplicaSet")),
    "an owner of another version": (
        with_objects(make_replica_set("o", selector=FOO)),
        owned("ReplicaSet", "apps/v1beta1"),
    ),
    "an owner of another kind": (
        with_objects(make_replica_set("o", selector=FOO)),
        owned("Deployment"),
    ),
    "a replica set with a broken selector": (
        with_objects(make_replica_set("o", selector={"foo": "{{bad}}"})),
        owned("ReplicaSet"),
    ),
    "an owner that does not control": (
        with_objects(make_replica_set("o", selector=FOO)),
        make_pod(
            "p",
            labels=FOO,
            owner=OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="o"),
        ),
    ),
    "a service of another namespace": (
        with_objects(make_service("s", namespace="other", selector=FOO)),
        make_pod("p", labels=FOO),
    ),
    "a service without a selector": (
        with_objects(make_service("s", selector=None)),
        make_pod("p", labels=FOO),
    ),
}


@pytest.mark.parametrize(("plugin", "pod"), SKIPPED.values(), ids=SKIPPED)
def test_pre_score_skips(plugin: PodTopologySpread, pod: Pod) -> None:
    assert plugin.pre_score(CycleState(), PodInfo(pod), make_view(A, B)).code is Code.SKIP


def test_pre_score_skips_without_nodes() -> None:
    answer = PodTopologySpread().pre_score(
        CycleState(), PodInfo(incoming(spread("zone"))), make_view()
    )
    assert answer.code is Code.SKIP


def test_an_invalid_selector_is_an_error() -> None:
    broken = LabelSelector(match_labels={"foo": "{{bad}}"})
    answer = PodTopologySpread().pre_score(
        CycleState(), PodInfo(incoming(spread("zone", labels=broken))), make_view(A)
    )
    assert answer.code is Code.ERROR
    assert answer.message.startswith(
        "calculating preScoreState: "
        "obtaining pod's soft topology spread constraints: values[0][foo]"
    )
