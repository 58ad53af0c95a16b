"""Choosing a node: docs/reference/04 §8.3, §11, §12 with plugins written for these tests."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import Node, Pod, Service
from kubesched.errors import PluginError
from kubesched.framework import (
    SKIP,
    SUCCESS,
    CycleState,
    FitError,
    NodeInfo,
    OnlyNodes,
    Plugin,
    PodInfo,
    PodPart,
    Reads,
    Status,
)
from kubesched.scheduler.search.node_filtering import nodes_to_find
from kubesched.scheduler.search.schedule_result import NoNodesError
from kubesched.testing import make_node, make_pod
from tests.support import PluginHarness, plugin_class


def nodes(*names: str) -> list[Node]:
    return [make_node(name) for name in names]


def reject_all(reason: str, *names: str) -> type[Plugin]:
    """Return a filter that rejects the named nodes, or all if none is named."""

    def filter_node(state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        rejected = not names or node.name in names
        return Status.unschedulable(reason) if rejected else SUCCESS

    return plugin_class("F", filter=filter_node)


def narrow(plugin: str, *names: str) -> type[Plugin]:
    return plugin_class(plugin, pre_filter=lambda *_: OnlyNodes(frozenset(names)))


def answer(plugin: str, status: Status, **more: Any) -> type[Plugin]:
    return plugin_class(plugin, pre_filter=lambda *_: status, **more)


def fit_error(harness: PluginHarness) -> FitError:
    with pytest.raises(FitError) as refusal:
        harness.schedule(make_pod("p"))
    return refusal.value


def test_a_cluster_without_nodes_is_a_separate_error() -> None:
    with pytest.raises(NoNodesError, match="no nodes available to schedule pods"):
        PluginHarness().schedule(make_pod("p"))


def broken_filter(*_: object) -> Status:
    raise ValueError("no idea")


ROOM: dict[str, tuple[PluginHarness, bool]] = {
    "no node at all": (PluginHarness(), False),
    "a node that no filter rejects": (PluginHarness(nodes=nodes("a", "b")), True),
    "one node is left": (PluginHarness(reject_all("no", "a"), nodes=nodes("a", "b")), True),
    "every node is rejected": (PluginHarness(reject_all("no"), nodes=nodes("a", "b")), False),
    "a filter fails": (
        PluginHarness(plugin_class("F", filter=broken_filter), nodes=nodes("a")),
        False,
    ),
}


@pytest.mark.parametrize(("harness", "want"), ROOM.values(), ids=ROOM)
def test_fits_now(harness: PluginHarness, want: bool) -> None:
    since = harness.framework.dry_run.version
    harness.cache.update_snapshot()
    assert harness.fit_checks.fits_now(harness.framework, PodInfo(make_pod("p")), since) is want


LABELLED = plugin_class(
    "F",
    filter=lambda _state, _pod, node: SUCCESS if node.labels else Status.unschedulable("no"),
    reads=Reads(pod=PodPart.TEMPLATE, other_nodes=False),
)


def test_room_is_searched_on_changed_nodes_only() -> None:
    harness = PluginHarness(LABELLED, nodes=nodes("a", "b"))
    harness.cache.update_snapshot()
    pod_info, since = PodInfo(make_pod("p")), harness.framework.dry_run.version
    assert not harness.fit_checks.fits_now(harness.framework, pod_info, since)
    harness.cache.update_node(make_node("b", labels={"x": "y"}))
    harness.cache.update_snapshot()
    assert harness.fit_checks.fits_now(harness.framework, pod_info, since)
    # Nothing has changed since this version, so the pod still fits no node.
    assert not harness.fit_checks.fits_now(
        harness.framework, pod_info, harness.framework.dry_run.version
    )


def test_a_filter_that_reads_other_nodes_is_called_for_all_nodes() -> None:
    def enough(state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        is_good = len(harness.cache.snapshot) > 2 and node.name != "c"
        return SUCCESS if is_good else Status.unschedulable("no")

    harness = PluginHarness(plugin_class("F", filter=enough), nodes=nodes("a", "b"))
    harness.cache.update_snapshot()
    since = harness.framework.dry_run.version
    harness.cache.add_node(make_node("c"))
    harness.cache.update_snapshot()
    assert harness.fit_checks.fits_now(harness.framework, PodInfo(make_pod("p")), since)


def test_changes_of_other_objects_require_a_new_search() -> None:
    open_now: set[str] = set()
    filtering = plugin_class(
        "F",
        filter=lambda *_: SUCCESS if open_now else Status.unschedulable("no"),
        reads=Reads(pod=PodPart.TEMPLATE, other_nodes=False),
    )
    harness = PluginHarness(filtering, nodes=nodes("a", "b"))
    harness.cache.update_snapshot()
    since = harness.framework.dry_run.version
    open_now.add("now")
    pod_info = PodInfo(make_pod("p"))
    assert not harness.fit_checks.fits_now(harness.framework, pod_info, since)
    harness.services.object_versions.changed(Service)
    assert harness.fit_checks.fits_now(harness.framework, pod_info, since)


FIT_MESSAGES: dict[str, tuple[PluginHarness, str, set[str]]] = {
    "two narrowings that have no node in common": (
        PluginHarness(narrow("P2", "n2"), narrow("P3", "n1"), nodes=nodes("n1", "n2", "n3")),
        "0/3 nodes are available: node(s) didn't satisfy plugin(s) [P2 P3] simultaneously.",
        {"P2", "P3"},
    ),
    "a narrowing and a filter that rejects the rest": (
        PluginHarness(narrow("P", "n2"), reject_all("r"), nodes=nodes("n1", "n2")),
        "0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [P], 1 r.",
        {"P", "F"},
    ),
    "a narrowing to a node that does not exist": (
        PluginHarness(narrow("P", "n9"), nodes=nodes("n1", "n2")),
        "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [P].",
        {"P"},
    ),
    "a narrowing to nothing": (
        PluginHarness(narrow("P"), nodes=nodes("n1", "n2")),
        "0/2 nodes are available: node(s) didn't satisfy plugin P.",
        {"P"},
    ),
    "reasons are sorted as text": (
        PluginHarness(
            plugin_class(
                "A",
                filter=lambda s, p, n: Status.unschedulable("a") if n.name < "k" else SUCCESS,
            ),
            plugin_class("B", filter=lambda *_: Status.unschedulable("b")),
            nodes=nodes(*"abcdefghij", "x", "y"),
        ),
        "0/12 nodes are available: 10 a, 2 b.",
        {"A", "B"},
    ),
    "a node with two reasons counts for both": (
        PluginHarness(
            plugin_class("F", filter=lambda *_: Status.unresolvable("y", "x")),
            nodes=nodes("n1", "n2"),
        ),
        "0/2 nodes are available: 2 x, 2 y.",
        {"F"},
    ),
    "a later unschedulable PreFilter replaces an earlier one": (
        PluginHarness(
            answer("A", Status.unschedulable("x")),
            answer("B", Status.unschedulable("y")),
            nodes=nodes("n1"),
        ),
        "0/1 nodes are available: y.",
        {"B"},
    ),
}


@pytest.mark.parametrize(("harness", "message", "plugins"), FIT_MESSAGES.values(), ids=FIT_MESSAGES)
def test_fit_error_text(harness: PluginHarness, message: str, plugins: set[str]) -> None:
    error = fit_error(harness)
    assert str(error) == message
    assert error.diagnosis.unschedulable_plugins == plugins


def test_an_unresolvable_pre_filter_stops_the_others() -> None:
    called = []
    later = plugin_class("B", pre_filter=lambda *_: called.append("B") or SUCCESS)
    error = fit_error(PluginHarness(answer("A", Status.unresolvable("x")), later, nodes=nodes("n")))
    assert error.diagnosis.unschedulable_plugins == {"A"}
    assert called == []


def test_an_unresolvable_pre_filter_clears_the_plugins_that_narrowed_the_nodes() -> None:
    harness = PluginHarness(
        narrow("N", "n1"), answer("A", Status.unresolvable("x")), nodes=nodes("n1", "n2")
    )
    error = fit_error(harness)
    assert str(error) == "0/2 nodes are available: x."
    assert error.diagnosis.unschedulable_plugins == {"A"}


def test_an_unschedulable_pre_filter_leaves_the_plugins_that_narrowed_the_nodes() -> None:
    harness = PluginHarness(
        narrow("N", "n1"), answer("A", Status.unschedulable("x")), nodes=nodes("n1", "n2")
    )
    assert fit_error(harness).diagnosis.unschedulable_plugins == {"A", "N"}


def test_an_unschedulable_pre_filter_lets_the_others_run() -> None:
    called = []
    later = plugin_class("B", pre_filter=lambda *_: called.append("B") or SKIP)
    error = fit_error(
        PluginHarness(answer("A", Status.unschedulable("x")), later, nodes=nodes("n"))
    )
    assert error.diagnosis.unschedulable_plugins == {"A"}
    assert called == ["B"]


def test_a_skipped_pre_filter_skips_the_filter() -> None:
    never = answer("P", SKIP, filter=lambda *_: Status.unschedulable("never asked"))
    assert PluginHarness(never, nodes=nodes("n")).schedule(make_pod("p")).node_name == "n"


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (
            answer("P", Status.pending("later")),
            'running PreFilter plugin "P": later',
        ),
        (
            answer("P", Status.failure("broken")),
            'running PreFilter plugin "P": broken',
        ),
        (
            plugin_class("P", filter=lambda s, p, n: Status.failure("broken")),
            'running "P" filter plugin: broken',
        ),
        (
            plugin_class("P", filter=lambda *_: {}["missing"]),
            "running \"P\" filter plugin: 'missing'",
        ),
        (
            plugin_class("P", pre_score=lambda *_: Status.unschedulable("no"), score=lambda *_: 0),
            'running PreScore plugin "P": no',
        ),
        (
            plugin_class("P", score=lambda *_: [][0]),
            'running Score plugins: plugin "P" failed with: list index out of range',
        ),
        (
            plugin_class("P", score=lambda *_: 101),
            'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score '
            "101, it should in the range of [0, 100] after normalizing",
        ),
    ],
    ids=[
        "pending from PreFilter",
        "error from PreFilter",
        "error from Filter",
        "exception in Filter",
        "rejection from PreScore",
        "exception in Score",
        "score out of range",
    ],
)
def test_a_plugin_that_fails_ends_the_attempt_in_an_error(
    plugin: type[Plugin], message: str
) -> None:
    with pytest.raises(PluginError) as failure:
        PluginHarness(plugin, nodes=nodes("n1", "n2")).schedule(make_pod("p"))
    assert str(failure.value) == message


def test_a_filter_error_on_one_node_ends_the_attempt_even_if_others_fit() -> None:
    def filter_node(state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.failure("broken") if node.name == "n1" else SUCCESS

    with pytest.raises(PluginError):
        PluginHarness(plugin_class("F", filter=filter_node), nodes=nodes("n1", "n2")).schedule(
            make_pod("p")
        )


def test_a_pending_filter_is_noted_as_pending_and_unschedulable() -> None:
    harness = PluginHarness(
        plugin_class("F", filter=lambda *_: Status.pending("w")), nodes=nodes("n")
    )
    diagnosis = fit_error(harness).diagnosis
    assert diagnosis.pending_plugins == diagnosis.unschedulable_plugins == {"F"}


# -- how many nodes --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "percentage", "want"),
    [
        (99, 10, 99),
        (1000, 40, 400),
        (1000, 1, 100),
        (5000, 0, 5000),
        (5000, None, 5000),
        (500, 30, 150),
    ],
    ids=[
        "few nodes are all looked at",
        "a percentage",
        "but at least a hundred",
        "zero means all",
        "unset means all",
        "thirty per cent of five hundred",
    ],
)
def test_nodes_to_find(count: int, percentage: int | None, want: int) -> None:
    assert nodes_to_find(count, percentage) == want


def test_the_search_rotates_through_the_nodes() -> None:
    like_all = plugin_class("S", score=lambda *_: 0)
    many = nodes(*(f"n{number:03d}" for number in range(500)))
    harness = PluginHarness(like_all, nodes=many, percentage=30)
    starts = []
    for number in range(4):
        result = harness.schedule(make_pod(f"p{number}"))
        assert len(result.feasible) == 150
        assert result.evaluated_nodes == 150
        starts.append(
            min(result.feasible.names) if number != 3 else harness.search.sampling.start_index
        )
    assert starts == ["n000", "n150", "n300", 100]


def test_the_profile_overrides_the_global_percentage() -> None:
    like_all = plugin_class("S", score=lambda *_: 0)
    many = nodes(*(f"n{number:04d}" for number in range(1000)))
    harness = PluginHarness(like_all, nodes=many, percentage=100, profile_percentage=40)
    assert len(harness.schedule(make_pod("p")).feasible) == 400


def test_rejections_after_the_last_wanted_node_are_not_recorded() -> None:
    def filter_node(state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if int(node.name[1:]) % 2 == 0 else Status.unschedulable("odd")

    like_all = plugin_class("S", score=lambda *_: 0)
    many = nodes(*(f"n{number:03d}" for number in range(300)))
    harness = PluginHarness(
        plugin_class("F", filter=filter_node), like_all, nodes=many, percentage=1
    )
    result = harness.schedule(make_pod("p"))
    assert len(result.feasible) == 100
    # n000 .. n199 hold a hundred even nodes; the search stops at the next one, n200.
    assert result.evaluated_nodes == 200


def test_sampling_calls_a_filter_once_for_every_node() -> None:
    called: list[str] = []

    def judge(state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        called.append(node.name)
        return SUCCESS

    like_all = plugin_class("S", score=lambda *_: 0)
    many = nodes(*(f"n{number:03d}" for number in range(200)))
    harness = PluginHarness(plugin_class("F", filter=judge), like_all, nodes=many, percentage=50)
    assert len(harness.schedule(make_pod("p")).feasible) == 100
    # The search ends at the 101st feasible node.
    assert called == [f"n{number:03d}" for number in range(101)]


def test_without_score_plugins_the_first_fitting_node_is_enough() -> None:
    result = PluginHarness(nodes=nodes("a", "b", "c")).schedule(make_pod("p"))
    assert (result.node_name, len(result.feasible), result.evaluated_nodes) == ("a", 1, 1)


# -- choosing --------------------------------------------------------------------------


def test_the_highest_weighted_sum_wins() -> None:
    one = plugin_class("One", score=lambda s, p, n: {"a": 60, "b": 10}[n.name])
    two = plugin_class("Two", score=lambda s, p, n: {"a": 10, "b": 40}[n.name])
    plain = PluginHarness(one, two, nodes=nodes("a", "b")).schedule(make_pod("p"))
    assert plain.node_name == "a"
    weighted = PluginHarness(one, two, nodes=nodes("a", "b"), weights={"Two": 2}).schedule(
        make_pod("p")
    )
    assert weighted.node_name == "b"
    assert dict(zip(weighted.feasible.names, weighted.scores.total.tolist(), strict=True)) == {
        "a": 80,
        "b": 90,
    }


def test_ties_are_broken_by_chance_among_all_best_nodes() -> None:
    score = plugin_class("S", score=lambda s, p, n: 1 if n.name == "worse" else 5)
    harness = PluginHarness(score, nodes=nodes("x", "worse", "y", "z"))
    chosen = {harness.schedule(make_pod(f"p{number}")).node_name for number in range(64)}
    assert chosen == {"x", "y", "z"}


def test_a_skipped_pre_score_leaves_the_score_out() -> None:
    silent = plugin_class("S", pre_score=lambda *_: SKIP, score=lambda *_: 1 / 0)
    other = plugin_class("T", score=lambda s, p, n: 7 if n.name == "b" else 0)
    result = PluginHarness(silent, other, nodes=nodes("a", "b")).schedule(make_pod("p"))
    assert result.node_name == "b"
    assert set(result.scores.by_plugin) == {"T"}


# -- nominated nodes and pods ----------------------------------------------------------


class CountingFilter(Plugin):
    name = "Counting"
    calls: list[tuple[str, int]] = []

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self.calls.append((node.name, len(node.pods)))
        rejected = "bad" in node.labels
        return Status.unschedulable("bad") if rejected else SUCCESS


def counting_harness(*extra: Node) -> PluginHarness:
    CountingFilter.calls = []
    like_all = plugin_class("S", score=lambda *_: 0)
    return PluginHarness(CountingFilter, like_all, nodes=[*nodes("a", "b"), *extra])


def test_a_nominated_node_that_fits_is_the_only_one_filtered() -> None:
    harness = counting_harness()
    result = harness.schedule(make_pod("p", nominated_node_name="b"))
    assert result.node_name == "b"
    assert [name for name, _ in CountingFilter.calls] == ["b"]
    assert harness.search.sampling.start_index == 0


def test_a_nominated_node_that_does_not_fit_is_filtered_once() -> None:
    harness = counting_harness(make_node("c", labels={"bad": "yes"}))
    result = harness.schedule(make_pod("p", nominated_node_name="c"))
    assert result.node_name in "ab"
    assert len(CountingFilter.calls) == 4


def test_plugins_that_reject_the_nominated_node_are_listed_with_those_that_narrow() -> None:
    harness = PluginHarness(narrow("N", "a"), reject_all("no"), nodes=nodes("a", "b", "c"))
    with pytest.raises(FitError) as refusal:
        harness.schedule(make_pod("p", nominated_node_name="c"))
    assert str(refusal.value) == (
        "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [F N], 2 no."
    )


def test_a_deleted_nominated_node_leads_to_a_full_search() -> None:
    harness = counting_harness()
    assert harness.schedule(make_pod("p", nominated_node_name="gone")).node_name in "ab"


@pytest.mark.parametrize(
    ("priority", "looks"),
    [(10, [("a", 1), ("a", 0)]), (9, [("a", 0)]), (11, [("a", 1), ("a", 0)])],
    ids=["an equal counts", "a lower one does not", "a higher one counts"],
)
def test_pods_nominated_to_a_node_are_counted_there(
    priority: int, looks: list[tuple[str, int]]
) -> None:
    harness = counting_harness()
    harness.nominator.by_node["a"] = [PodInfo(make_pod("other", priority=priority))]
    harness.schedule(make_pod("p", priority=10))
    assert [call for call in CountingFilter.calls if call[0] == "a"] == looks


def test_a_failing_add_pod_ends_the_attempt_in_an_error() -> None:
    stuck = plugin_class(
        "Stuck", pre_filter=lambda *_: SUCCESS, add_pod=lambda *_: Status.unschedulable("stuck")
    )
    harness = PluginHarness(stuck, nodes=nodes("a", "b"))
    harness.nominator.by_node["a"] = [PodInfo(make_pod("other"))]
    with pytest.raises(PluginError, match='running AddPod on PreFilter plugin "Stuck": stuck'):
        harness.schedule(make_pod("p"))
