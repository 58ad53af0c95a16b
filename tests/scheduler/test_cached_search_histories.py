"""Cached answers after unusual histories.

Full nodes that change, pods of one shape that differ in the plugins that skip them, plugins that
fail, and nominations in between.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.api import DeviceClass, DeviceClassSpec, ObjectMeta, Pod
from kubesched.errors import PluginError
from kubesched.framework import (
    SKIP,
    SUCCESS,
    CycleState,
    FitError,
    NodeInfo,
    NodeView,
    Nominating,
    NominatingMode,
    OnlyNodes,
    Plugin,
    PodInfo,
    PodPart,
    PodsOnNode,
    Reads,
    Status,
)
from kubesched.framework.pod_info import assigned_to
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.config import default_configuration
from kubesched.scheduler.config.types import PluginRef
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.scheduler.search.full_search import FullSearch
from kubesched.testing import FakeHandle, make_node, make_pod
from kubesched.testing.objects.builders import make_owner


class Crowd(Plugin):
    """Reads pods and runs first. It skips some of the pods with the same key."""

    name = "Crowd"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        return SKIP if pod_info.pod.metadata.name.endswith("skip") else SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if len(node.pods) < 2 else Status.unschedulable("crowded")

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        return SKIP if pod_info.pod.metadata.name.endswith("unscored") else SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return max(0, 50 - 10 * len(node.pods))


class Closed(Plugin):
    """Reads the node only, and runs after a plugin that reads pods."""

    name = "Closed"
    reads = Reads(pod=PodPart.TEMPLATE, pods_on_node=PodsOnNode.NOTHING, other_nodes=False)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        is_closed = node.labels.get("door") == "closed"
        return Status.unschedulable("closed") if is_closed else SUCCESS

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        return SKIP if pod_info.pod.metadata.name.endswith("worthless") else SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(node.labels.get("value", "0"))


class Ranks(Plugin):
    """Scores that need normalising and have nothing to do with pods."""

    name = "Ranks"
    reads = Reads(pod=PodPart.TEMPLATE, pods_on_node=PodsOnNode.NOTHING, other_nodes=False)

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        return SKIP if pod_info.pod.metadata.name.endswith("worthless") else SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(node.labels.get("rank", "0"))

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        highest = int(scores.max(initial=0))
        return scores * 100 // highest if highest else scores


class InPlace(Ranks):
    """Normalises the scores in place."""

    name = "InPlace"

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        highest = int(scores.max(initial=0))
        scores *= -100
        scores //= max(highest, 1)
        scores += 100
        return scores


class Fractions(Plugin):
    """Returns numbers that are not 64-bit integers."""

    name = "Fractions"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        value: Any = int(node.labels.get("value", "0")) / 2
        return value if len(node.pods) % 2 else np.uint8(value)  # type: ignore[no-any-return]


class Percent(Ranks):
    """Normalises scores with NumPy."""

    name = "Percent"

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        percent: Any = 100 * scores / max(int(scores.max(initial=0)), 1)
        return percent  # type: ignore[no-any-return]


class Moody(Ranks):
    """Like Ranks, but fails at random."""

    name = "Moody"
    fails = False

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        if Moody.fails:
            raise ValueError("not today")
        return super().score(state, pod, node)


class Neighbours(Plugin):
    """Reads more than specs: of the pod, and of the pods on the node."""

    name = "Neighbours"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        owners = {owner.name for owner in pod.metadata.owner_references}
        if any(other.pod.metadata.annotations.get("refuses") in owners for other in node.pods):
            return Status.unschedulable("unwanted")
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 10 * sum(other.pod.status.phase == "Running" for other in node.pods)


class Picky(Plugin):
    """Reads the whole cluster, so that its verdicts are not cached."""

    name = "Picky"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        is_odd = node.labels.get("odd") == "yes"
        return Status.unschedulable("odd") if is_odd else SUCCESS


class Narrow(Plugin):
    """Leaves only a few nodes to some pods."""

    name = "Narrow"

    def pre_filter(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView
    ) -> Status | OnlyNodes:
        is_meant = pod_info.pod.metadata.name.endswith("only")
        return OnlyNodes(frozenset({"n0", "n1", "n2"})) if is_meant else SUCCESS


class Fragile(Plugin):
    """Fails on nodes that another filter rejects."""

    name = "Fragile"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        max(node.name for node in nodes)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 1000 if node.labels.get("odd") == "yes" else 1


USERS: tuple[type[Plugin], ...] = (
    Crowd,
    Closed,
    Ranks,
    InPlace,
    Fractions,
    Percent,
    Moody,
    Neighbours,
    Picky,
    Narrow,
    Fragile,
)
OWN = tuple(PluginRef(each.name) for each in USERS)
REGISTRY = {**IN_TREE_PLUGINS, **{each.name: each for each in USERS}}


def node_of(name: str, *, cpu: str = "4", **labels: str) -> Any:
    return make_node(name, labels=labels, cpu=cpu)


class SearchHistoryHarness:
    """One cluster with the same profile twice: searched with and without the cache."""

    def __init__(self, *own: PluginRef, weight: int = 1) -> None:
        self.cache = Cache()
        self.handle = FakeHandle((), snapshot=self.cache.snapshot)
        services = self.services = self.handle.services()
        profile = default_configuration().profiles[0]
        multi_point = profile.plugins.multi_point
        enabled = (*(replace(ref, weight=weight) for ref in own), *multi_point.enabled)
        plugins = replace(profile.plugins, multi_point=replace(multi_point, enabled=enabled))
        profile = replace(profile, plugins=plugins)
        self.framework = Framework(profile, REGISTRY, services)

    def check(self, pod: Pod, *, in_depth: bool = True) -> list[str]:
        """Return the best nodes by a full evaluation; the cached search must agree."""
        self.cache.update_snapshot()
        if not in_depth:
            # As an attempt does: scores that are not needed are not read.
            self.outcome(CachedSearch, pod, in_depth=False)
            return []
        kept = self.outcome(CachedSearch, pod)
        full = self.outcome(FullSearch, pod)
        assert kept == full
        best: list[str] = full.get("best", [])
        return best

    def outcome(
        self, kind: type[CachedSearch | FullSearch], pod: Pod, *, in_depth: bool = True
    ) -> dict[str, Any]:
        search = kind(self.cache.snapshot, random.Random(0))
        try:
            result = search.schedule_pod(self.framework, CycleState(), PodInfo(pod))
        except FitError as error:
            return {"error": str(error), "statuses": error.diagnosis.node_statuses()}
        except PluginError as error:
            return {"error": str(error)}
        if not in_depth:
            return {}
        names, scores = list(result.feasible.names), result.scores
        totals = [0] * len(names) if scores is None else scores.total.tolist()
        best = [name for name, total in zip(names, totals, strict=True) if total == max(totals)]
        assert result.node_name in best
        return {
            "totals": dict(zip(names, totals, strict=True)),
            "best": best,
            "statuses": result.diagnosis.node_statuses(),
        }

    def place(self, name: str, node: str, cpu: str = "100m") -> Pod:
        pod = make_pod(name, requests={"cpu": cpu}, node_name=node)
        self.cache.add_pod(pod)
        return pod


def small(name: str) -> Pod:
    return make_pod(name, requests={"cpu": "1"})


@pytest.mark.parametrize("nodes", [3, 24], ids=["row by row", "many rows at once"])
@pytest.mark.parametrize("own", [Closed, Ranks], ids=["summed", "normalised"])
@pytest.mark.parametrize("steady", [1, 4], ids=["without an index", "with an index"])
def test_a_node_that_changed_while_it_was_full_is_scored_again(
    nodes: int, own: type[Plugin], steady: int
) -> None:
    harness = SearchHistoryHarness(PluginRef(own.name))
    names = [f"n{number}" for number in range(nodes)]
    for name in names:
        harness.cache.add_node(node_of(name, value="10", rank="10"))
    for number in range(steady):
        harness.check(small(f"p{number}"))
    filling = harness.place("filling", "n0", "4")
    harness.cache.update_node(node_of("n0", value="90", rank="90"))
    harness.check(small("q"))
    harness.cache.remove_pod(filling)
    for name in names[1:]:
        harness.place(f"on-{name}", name)
    assert harness.check(small("r")) == ["n0"]


@pytest.mark.parametrize("nodes", [3, 24], ids=["row by row", "many rows at once"])
def test_scores_are_computed_again_after_a_failure(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = SearchHistoryHarness(PluginRef("Moody"))
    names = [f"n{number}" for number in range(nodes)]
    filling = []
    for name in names:
        harness.cache.add_node(node_of(name, rank="10"))
    harness.check(small("p"))
    for name in names[2:]:
        filling.append(harness.place(f"filling-{name}", name, "4"))
        harness.cache.update_node(node_of(name, rank="90" if name == "n2" else "20"))
    harness.check(small("q"))
    for pod in filling:
        harness.cache.remove_pod(pod)
    with monkeypatch.context() as patch:
        patch.setattr(Moody, "fails", True)
        harness.check(small("r"))
    assert harness.check(small("s")) == ["n2"]


@pytest.mark.parametrize("nodes", [3, 24], ids=["row by row", "many rows at once"])
@pytest.mark.parametrize("own", [Closed, Ranks], ids=["summed", "normalised"])
def test_cached_answers_that_read_no_pods_survive_changes_of_pods(
    nodes: int, own: type[Plugin]
) -> None:
    harness = SearchHistoryHarness(PluginRef(own.name))
    names = [f"n{number}" for number in range(nodes)]
    for name in names:
        harness.cache.add_node(node_of(name, value="10", rank="10"))
    harness.cache.update_node(node_of("n1", value="90", rank="90"))
    for turn in range(3):
        assert harness.check(small(f"p{turn}")) == ["n1"]
        for name in names:
            harness.place(f"on-{name}-{turn}", name)


def test_normalising_in_place_does_not_change_cached_scores() -> None:
    harness = SearchHistoryHarness(PluginRef("InPlace"))
    for name, rank in (("n0", "7"), ("n1", "3"), ("n2", "9")):
        harness.cache.add_node(node_of(name, rank=rank))
    for number in range(4):
        assert harness.check(small(f"p{number}")) == ["n1"]


@pytest.mark.parametrize("steady", [1, 4], ids=["without an index", "with an index"])
def test_a_cluster_that_outgrows_the_table_is_cached_correctly(steady: int) -> None:
    harness = SearchHistoryHarness(PluginRef("Ranks"), PluginRef("Closed"))
    capacity = harness.cache.snapshot.table.capacity
    for number in range(capacity):
        harness.cache.add_node(node_of(f"n{number}", rank="1", value="1"))
    for number in range(steady):
        harness.check(small(f"p{number}"))
    for turn in range(3):
        harness.cache.add_node(node_of(f"late-{turn}", rank="9", value=str(turn)))
        assert harness.check(small(f"q{turn}")) == [f"late-{turn}"]
    assert harness.cache.snapshot.table.capacity > capacity


@pytest.mark.parametrize("own", [Fractions, Percent])
def test_fractional_scores_are_truncated_in_both_forms(own: type[Plugin]) -> None:
    harness = SearchHistoryHarness(PluginRef(own.name), weight=7)
    for number in range(8):
        harness.cache.add_node(node_of(f"n{number}", value=str(90 + number), rank=str(number)))
    for number in range(8):
        harness.place(f"on-{number}", harness.check(small(f"p{number}"))[0])
    assert "error" not in harness.outcome(FullSearch, small("q"))


@pytest.mark.parametrize("nodes", [3, 24], ids=["row by row", "many rows at once"])
@pytest.mark.parametrize("own", [Crowd, Closed, Ranks])
def test_the_scoring_plugins_may_differ_between_pods_of_a_shape(
    nodes: int, own: type[Plugin]
) -> None:
    harness = SearchHistoryHarness(PluginRef(own.name))
    for number in range(nodes):
        harness.cache.add_node(node_of(f"n{number}", value=str(number), rank=str(number)))
    for suffix in ("", "-unscored", "", "-worthless", "-worthless", "", "-worthless"):
        harness.check(small(f"p{suffix}"))


def test_a_search_of_some_nodes_does_not_count_as_a_search_of_all() -> None:
    harness = SearchHistoryHarness(PluginRef("Narrow"))
    for number in range(12):
        harness.cache.add_node(node_of(f"n{number}", cpu="4" if number % 2 else "500m"))
    for suffix in ("-only", "", "-only", ""):
        assert ("n11" in harness.check(small(f"p{suffix}"))) == (not suffix)
        harness.cache.update_node(node_of("n0", cpu="4"))


@pytest.mark.parametrize("percentage", [None, 5, 50])
def test_a_share_of_the_nodes_is_evaluated_again(percentage: int | None) -> None:
    harness = SearchHistoryHarness()
    for number in range(250):
        harness.cache.add_node(node_of(f"n{number}", cpu="4" if number % 3 else "500m"))
    harness.cache.update_snapshot()
    search = CachedSearch(harness.cache.snapshot, random.Random(0), percentage)
    seen: set[str] = set()
    for number in range(6):
        result = search.schedule_pod(harness.framework, CycleState(), PodInfo(small(f"p{number}")))
        names = set(result.feasible.names)
        assert all(int(name[1:]) % 3 for name in names)
        assert (len(names) < 166) == (percentage is not None)
        seen |= names
    assert len(seen) == 166


def test_changes_of_other_objects_invalidate_cached_answers() -> None:
    harness = SearchHistoryHarness()
    names = ("example.com/a", "example.com/b")
    for number in range(3):
        harness.cache.add_node(make_node(f"n{number}"))
    pod = make_pod("p", requests=dict.fromkeys(names, 1))
    for name in names:
        spec = DeviceClassSpec(extended_resource_name=name)
        class_name = name.replace("/", ".")
        harness.handle.objects.put(
            DeviceClass(metadata=ObjectMeta(name=class_name, uid=name), spec=spec)
        )
        harness.services.object_versions.changed(DeviceClass)
        harness.check(pod)


def test_newer_versions_of_pods_on_a_node_are_evaluated() -> None:
    harness = SearchHistoryHarness(PluginRef("Neighbours"))
    for name in ("n0", "n1", "n2"):
        harness.cache.add_node(node_of(name))
    versions = [harness.place("there", "n0")]
    owned = make_pod("owned", owner=make_owner("ReplicaSet", "web"))
    for pod in (small("a"), owned):
        harness.check(pod)

    def change(**fields: Any) -> None:
        versions.append(replace(versions[-1], **fields))
        harness.cache.update_pod(*versions[-2:])

    change(status=replace(versions[-1].status, phase="Running"))
    assert "n0" in harness.check(owned)
    change(metadata=replace(versions[-1].metadata, annotations={"refuses": "web"}))
    assert "n0" not in harness.check(owned)
    assert "n0" in harness.check(make_pod("owned", owner=make_owner("ReplicaSet", "db")))
    change(metadata=replace(versions[-1].metadata, annotations={}))
    assert "n0" in harness.check(owned)


def test_rows_that_changed_while_pods_were_nominated_are_scored_again() -> None:
    harness = SearchHistoryHarness(PluginRef("Crowd"))
    for name in ("n0", "n1", "n2"):
        harness.cache.add_node(node_of(name))
    for number in range(4):
        harness.check(small(f"p{number}"))
    waiting = make_pod("waiting", requests={"cpu": "1"}, priority=10)
    harness.handle.objects.put(waiting)
    nominating = Nominating(NominatingMode.OVERRIDE, "n2")
    harness.handle.nominator.add_nominated_pod(PodInfo(waiting), nominating)
    harness.place("on-n0", "n0", "2")
    assert harness.check(small("q")) == ["n1", "n2"]
    harness.handle.nominator.delete_nominated_pod(waiting)
    assert harness.check(small("r")) == ["n1", "n2"]


def test_the_order_of_filters_may_differ_between_pods_of_a_shape() -> None:
    harness = SearchHistoryHarness(PluginRef("Crowd"), PluginRef("Closed"))
    for name in ("n0", "n1", "n2"):
        harness.cache.add_node(node_of(name))
    harness.cache.add_node(node_of("closed", door="closed"))
    harness.check(small("a"))
    harness.check(small("a-skip"))
    harness.place("on-closed", "closed")
    assert "closed" not in harness.check(small("b-skip"))
    harness.check(small("c"))
    harness.place("also-on-closed", "closed")
    harness.check(small("d"))


def test_no_feasible_node_is_a_fit_error_whatever_pre_score_makes_of_it() -> None:
    harness = SearchHistoryHarness(PluginRef("Picky"), PluginRef("Fragile"))
    names = ("n0", "n1", "n2")
    for name in names:
        harness.cache.add_node(node_of(name))
    for number in range(4):
        harness.check(small(f"p{number}"))
    for name in names:
        harness.cache.update_node(node_of(name, odd="yes"))
    harness.check(small("q"))
    with pytest.raises(FitError):
        CachedSearch(harness.cache.snapshot, random.Random(0)).schedule_pod(
            harness.framework, CycleState(), PodInfo(small("r"))
        )


def test_a_score_out_of_range_on_a_node_that_does_not_fit_is_no_error() -> None:
    harness = SearchHistoryHarness(PluginRef("Picky"), PluginRef("Fragile"))
    for name in ("n0", "n1", "n2"):
        harness.cache.add_node(node_of(name))
    harness.cache.add_node(node_of("odd", odd="yes"))
    for number in range(4):
        assert harness.check(small(f"p{number}")) == ["n0", "n1", "n2"]


def test_verdicts_that_are_worded_differently_every_time_do_not_pile_up() -> None:
    class Wordy(Plugin):
        name = "Wordy"
        reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)
        asked = 0

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            Wordy.asked += 1
            return Status.unschedulable(f"no, for the time no. {Wordy.asked}")

    cache = Cache()
    cache.add_node(make_node("n0"))
    services = FakeHandle((), snapshot=cache.snapshot).services()
    profile = default_configuration().profiles[0]
    multi_point = profile.plugins.multi_point
    enabled = (PluginRef(Wordy.name), *multi_point.enabled)
    plugins = replace(profile.plugins, multi_point=replace(multi_point, enabled=enabled))
    framework = Framework(
        replace(profile, plugins=plugins), {**IN_TREE_PLUGINS, Wordy.name: Wordy}, services
    )
    search = CachedSearch(cache.snapshot, random.Random(0))
    for number in range(1000):
        cache.update_node(make_node("n0"))
        cache.update_snapshot()
        with pytest.raises(FitError) as caught:
            search.schedule_pod(framework, CycleState(), PodInfo(small(f"p{number}")))
        statuses = caught.value.diagnosis.node_statuses()
        assert statuses["n0"].reasons == (f"no, for the time no. {Wordy.asked}",)
    [known] = framework.answer_cache._entries.values()
    assert len(known.statuses) < 500


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_decisions_equal_a_full_evaluation_after_random_histories(seed: int) -> None:
    rng = random.Random(seed)
    own = [ref for ref in OWN if rng.random() < 0.6]
    rng.shuffle(own)
    harness = SearchHistoryHarness(*own, weight=rng.choice((1, 1, 3, 1000)))
    count = rng.choice((3, 6, 14, 30))
    names = [f"n{number}" for number in range(count)]
    present: set[str] = set()
    running: dict[str, Pod] = {}
    nominated: Pod | None = None
    shape = rng.choice(("1", "500m"))

    def fresh(name: str) -> Any:
        values = {"value": rng.choice("0259"), "rank": rng.choice("0037")}
        if rng.random() < 0.2:
            values["odd"] = "yes"
        if rng.random() < 0.2:
            values["door"] = "closed"
        return node_of(name, cpu=rng.choice(("1", "2", "4")), **values)

    for name in names:
        harness.cache.add_node(fresh(name))
        present.add(name)
    for number in range(40):
        for _ in range(rng.choice((0, 0, 1, 1, 2, 6, count))):
            name, kind = rng.choice(names), rng.random()
            if kind < 0.3:
                harness.cache.update_node(fresh(name))
                present.add(name)
            elif kind < 0.4 and name in present:
                harness.cache.remove_node(make_node(name))
                present.discard(name)
            elif kind < 0.7:
                uid = f"other-{number}-{len(running)}-{rng.randrange(10**9)}"
                running[uid] = harness.place(uid, name, rng.choice(("100m", "1", "4")))
            elif running:
                harness.cache.remove_pod(running.pop(rng.choice(sorted(running))))
        if rng.random() < 0.1:
            if nominated is None:
                nominated = make_pod(f"nominated-{number}", requests={"cpu": "1"}, priority=10)
                harness.handle.objects.put(nominated)
                where = Nominating(NominatingMode.OVERRIDE, rng.choice(names))
                harness.handle.nominator.add_nominated_pod(PodInfo(nominated), where)
            else:
                harness.handle.nominator.delete_nominated_pod(nominated)
                nominated = None
        if rng.random() < 0.2:
            shape = rng.choice(("1", "500m"))
        Moody.fails = rng.random() < 0.1
        suffix = rng.choice(("", "", "", "", "-skip", "-unscored", "-worthless", "-only"))
        pod = make_pod(f"p{number}{suffix}", requests={"cpu": shape})
        if not len(harness.cache.update_snapshot()):
            continue
        # Cached plugins are not called again, so a failure may go unnoticed.
        best = harness.check(pod, in_depth=not Moody.fails and rng.random() < 0.7)
        Moody.fails = False
        if best and rng.random() < 0.8:
            placed = assigned_to(pod, rng.choice(best))
            harness.cache.assume_pod(PodInfo(placed))
            running[placed.metadata.uid] = placed
