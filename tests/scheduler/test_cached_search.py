"""The cached search decides as the full search, after any history of changes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import DeviceClass, DeviceClassSpec, ObjectMeta, Pod
from kubesched.errors import CacheError, PluginError
from kubesched.framework import (
    SUCCESS,
    CycleState,
    FitError,
    NodeInfo,
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
from kubesched.scheduler.config.args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from kubesched.scheduler.config.plugin_names import (
    NODE_RESOURCES_BALANCED_ALLOCATION,
    NODE_RESOURCES_FIT,
)
from kubesched.scheduler.config.types import KubeSchedulerProfile, PluginRef
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_set import Registry
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.scheduler.search.full_search import FullSearch
from kubesched.testing import FakeHandle, make_node, make_pod
from kubesched.testing.objects.random_clusters import (
    RandomCluster,
    random_cluster,
    random_node,
    random_pod,
)

NEEDED = ("PrioritySort", "DefaultBinder")


class ReadsPodsOfNode(Plugin):
    """An out-of-tree plugin that reads the pods on the node and the pod's annotations."""

    name = "ReadsPodsOfNode"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        limit = int(pod.metadata.annotations.get("limit", "99"))
        return SUCCESS if len(node.pods) <= limit else Status.unschedulable("crowded")

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        app = pod.metadata.labels.get("app")
        alike = sum(other.pod.metadata.labels.get("app") == app for other in node.pods)
        return max(0, 100 - 10 * alike)


class Racks(Plugin):
    """An out-of-tree plugin that reads the node only, and no pods on it."""

    name = "Racks"
    reads = Reads(pod=PodPart.TEMPLATE, pods_on_node=PodsOnNode.NOTHING, other_nodes=False)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        is_closed = node.labels.get("disk") == "ssd" and "limit" in pod.metadata.annotations
        return Status.unschedulable("rack is closed") if is_closed else SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 10 * len(node.labels.get("disk", "")) + len(node.labels)


def with_plugins(
    profile: KubeSchedulerProfile, enabled: tuple[PluginRef, ...]
) -> KubeSchedulerProfile:
    multi_point = replace(profile.plugins.multi_point, enabled=enabled)
    return replace(profile, plugins=replace(profile.plugins, multi_point=multi_point))


def random_profile(rng: random.Random) -> KubeSchedulerProfile:
    """The default plugins with other weights, some of them left out, and another strategy."""
    profile = default_configuration().profiles[0]
    enabled = tuple(
        replace(ref, weight=rng.randrange(1, 5))
        for ref in profile.plugins.multi_point.enabled
        if ref.name in NEEDED or rng.random() < 0.8
    )
    resources = tuple(
        ResourceSpec(name, rng.randrange(1, 4))
        for name in ("cpu", "memory", "example.com/gpu")
        if name == "cpu" or rng.random() < 0.7
    )
    strategy = ScoringStrategy(rng.choice((LEAST_ALLOCATED, MOST_ALLOCATED)), resources)
    args = {
        NODE_RESOURCES_FIT: NodeResourcesFitArgs(scoring_strategy=strategy),
        NODE_RESOURCES_BALANCED_ALLOCATION: NodeResourcesBalancedAllocationArgs(resources),
    }
    config = tuple(
        replace(each, args=args.get(each.name, each.args)) for each in profile.plugin_config
    )
    return with_plugins(replace(profile, plugin_config=config), enabled)


class Pair:
    """The same cluster searched with and without the cache."""

    def __init__(
        self,
        cluster: RandomCluster,
        registry: Registry,
        extra: tuple[PluginRef, ...],
        profile: KubeSchedulerProfile | None = None,
    ) -> None:
        self.cache = Cache()
        for node in cluster.nodes:
            self.cache.add_node(node)
        for pod in cluster.pods:
            self.cache.add_pod(pod)
        self.handle = FakeHandle(cluster.others, snapshot=self.cache.snapshot)
        self.services = self.handle.services()
        profile = profile or default_configuration().profiles[0]
        profile = with_plugins(profile, (*extra, *profile.plugins.multi_point.enabled))
        self.framework = Framework(profile, registry, self.services)

    def outcome(self, kind: type[CachedSearch | FullSearch], pod: Pod) -> dict[str, Any]:
        search = kind(self.cache.snapshot, random.Random(0))
        try:
            result = search.schedule_pod(self.framework, CycleState(), PodInfo(pod))
        except FitError as error:
            return {"error": str(error), **diagnosed(error.diagnosis)}
        except PluginError as error:
            return {"error": str(error)}
        scores, names = result.scores, list(result.feasible.names)
        totals = [0] * len(names) if scores is None else scores.total.tolist()
        best = {name for name, total in zip(names, totals, strict=True) if total == max(totals)}
        assert result.node_name in best
        return {
            "feasible": names,
            "total": totals,
            "best": sorted(best),
            "by plugin": scores and {n: s.tolist() for n, s in scores.by_plugin.items()},
            "evaluated": result.evaluated_nodes,
            **diagnosed(result.diagnosis),
        }


def diagnosed(diagnosis: Any) -> dict[str, Any]:
    return {
        "statuses": diagnosis.node_statuses(),
        "plugins": diagnosis.unschedulable_plugins,
        "pending": diagnosis.pending_plugins,
    }


def change_something(rng: random.Random, pair: Pair, running: dict[str, Pod]) -> None:
    cache = pair.cache
    name = f"node-{rng.randrange(10)}"
    kind = rng.randrange(5)
    try:
        if kind == 0:
            cache.update_node(random_node(rng, name))
        elif kind == 1:
            cache.remove_node(make_node(name))
        elif kind == 2 and running:
            gone = running.pop(rng.choice(sorted(running)))
            cache.remove_pod(gone)
        elif kind == 3 and running:
            uid = rng.choice(sorted(running))
            old = running[uid]
            labels = {**old.metadata.labels, "app": rng.choice(("web", "db"))}
            new = replace(old, metadata=replace(old.metadata, labels=labels))
            cache.update_pod(old, new)
            running[uid] = new
        elif kind == 4:
            spec = DeviceClassSpec(extended_resource_name="example.com/gpu")
            added = DeviceClass(metadata=ObjectMeta(name="gpu", uid="gpu"), spec=spec)
            pair.handle.objects.put(added)
            pair.services.object_versions.changed(DeviceClass)
    except CacheError:
        pass


@pytest.mark.parametrize("with_user_plugin", [False, True], ids=["in-tree", "and a user's plugin"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_cached_search_equals_the_full_search(with_user_plugin: bool, seed: int) -> None:
    rng = random.Random(seed)
    registry: dict[str, type[Plugin]] = dict(IN_TREE_PLUGINS)
    extra: tuple[PluginRef, ...] = ()
    if with_user_plugin:
        registry.update({ReadsPodsOfNode.name: ReadsPodsOfNode, Racks.name: Racks})
        extra = (PluginRef(Racks.name), PluginRef(ReadsPodsOfNode.name))
    cluster = random_cluster(rng, nodes=8, pods=12)
    profile = random_profile(rng) if rng.random() < 0.5 else None
    pair = Pair(cluster, registry, extra, profile)
    running = {pod.metadata.uid: pod for pod in cluster.pods}
    shapes = [random_pod(rng, f"shape-{number}") for number in range(3)]
    shape = shapes[0]
    for number in range(24):
        for _ in range(rng.choice((0, 0, 1, 2))):
            change_something(rng, pair, running)
        # The index is made for sequences of equal pods.
        shape = rng.choice(shapes) if rng.random() < 0.3 else shape
        metadata = replace(
            shape.metadata,
            name=f"p{number}",
            uid=f"uid-{number}",
            annotations={"limit": str(rng.randrange(1, 4))} if rng.random() < 0.3 else {},
        )
        pod = replace(shape, metadata=metadata)
        if not len(pair.cache.update_snapshot()):
            continue
        kept, full = pair.outcome(CachedSearch, pod), pair.outcome(FullSearch, pod)
        assert kept == full
        if kept.get("best"):
            placed = assigned_to(pod, rng.choice(kept["best"]))
            pair.cache.assume_pod(PodInfo(placed))
            running[placed.metadata.uid] = placed


def test_a_second_pod_of_the_same_shape_evaluates_the_changed_node_only() -> None:
    asked: list[str] = []

    class Noting(ReadsPodsOfNode):
        name = "Noting"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            asked.append(node.name)
            return SUCCESS

    nodes = tuple(make_node(f"node-{number}") for number in range(6))
    registry = {**IN_TREE_PLUGINS, Noting.name: Noting}
    pair = Pair(RandomCluster(nodes, (), ()), registry, (PluginRef(Noting.name),))
    pair.cache.update_snapshot()
    first = pair.outcome(CachedSearch, make_pod("a"))
    assert sorted(asked) == [node.metadata.name for node in nodes]
    for number in range(4):
        chosen = first["best"][number]
        pair.cache.assume_pod(PodInfo(make_pod(f"a{number}", node_name=chosen)))
        pair.cache.update_snapshot()
        asked.clear()
        search = CachedSearch(pair.cache.snapshot, random.Random(0))
        search.schedule_pod(pair.framework, CycleState(), PodInfo(make_pod("b")))
        assert asked == [chosen]


def test_filters_that_read_other_nodes_evaluate_the_best_nodes_only() -> None:
    asked: list[str] = []

    class ReadsWholeCluster(Plugin):
        """Reads the whole cluster, so that its verdicts cannot be cached."""

        name = "ReadsWholeCluster"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            asked.append(node.name)
            return Status.unschedulable("odd") if int(node.name[5:]) % 2 else SUCCESS

    nodes = tuple(make_node(f"node-{number}") for number in range(200))
    registry = {**IN_TREE_PLUGINS, ReadsWholeCluster.name: ReadsWholeCluster}
    pair = Pair(RandomCluster(nodes, (), ()), registry, (PluginRef(ReadsWholeCluster.name),))
    search = CachedSearch(pair.cache.snapshot, random.Random(0))
    for number in range(20):
        pair.cache.update_snapshot()
        asked.clear()
        pod = make_pod(f"p{number}", requests={"cpu": "100m"})
        result = search.schedule_pod(pair.framework, CycleState(), PodInfo(pod))
        assert int(result.node_name[5:]) % 2 == 0
        pair.cache.assume_pod(PodInfo(assigned_to(pod, result.node_name)))
    assert len(asked) < 30


def test_the_least_recently_used_shapes_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubesched.scheduler.runtime.answer_cache.MOST_BYTES", 1_000)
    pair = Pair(RandomCluster((make_node("n"),), (), ()), IN_TREE_PLUGINS, ())
    pair.cache.update_snapshot()
    for number in range(50):
        pair.outcome(CachedSearch, make_pod("p", requests={"cpu": f"{number}m"}))
    assert 1 <= len(pair.framework.answer_cache._entries) < 10
