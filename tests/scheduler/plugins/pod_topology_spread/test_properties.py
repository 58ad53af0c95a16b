"""PodTopologySpread on random clusters: both forms against an oracle."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import Pod, TopologySpreadConstraint
from kubesched.api.labels import Selector
from kubesched.api.node_selector import RequiredNodeAffinity
from kubesched.api.taints import first_untolerated
from kubesched.framework import Code, CycleState, NodeInfo, NodeView, PodInfo
from kubesched.scheduler.config.args import LIST_DEFAULTING, PodTopologySpreadArgs
from kubesched.scheduler.plugins.pod_topology_spread import PodTopologySpread
from kubesched.scheduler.plugins.pod_topology_spread.plugin import SYSTEM_DEFAULTS
from kubesched.testing import HOSTNAME, FakeHandle, check_plugin, make_spread
from kubesched.testing.objects.random_clusters import RandomCluster, random_cluster, random_pod
from kubesched.testing.objects.views import (
    filter_each,
    filter_together,
    make_snapshot,
    score_each,
    score_together,
)
from tests.framework.churn import Churn

SEEDS = st.integers(0, 2**32)

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
LIST_ARGS = PodTopologySpreadArgs(
    defaulting_type=LIST_DEFAULTING,
    default_constraints=(
        TopologySpreadConstraint(max_skew=1, topology_key=HOSTNAME, when_unsatisfiable=HARD),
        TopologySpreadConstraint(max_skew=1, topology_key="disk", when_unsatisfiable=SOFT),
    ),
)


def test_the_plugin_fulfils_the_contract() -> None:
    check_plugin(PodTopologySpread)
    check_plugin(PodTopologySpread, args=LIST_ARGS)


class Oracle:
    """The rules of docs/reference/06 §1.4 to §1.7, implemented literally, pod by pod."""

    def __init__(self, pod: Pod, given: list[TopologySpreadConstraint], all_keys: bool) -> None:
        self.pod = pod
        self.given = given
        self.all_keys = all_keys

    def selector(self, constraint: TopologySpreadConstraint) -> Selector:
        selector = Selector.from_label_selector(constraint.label_selector)
        labels = self.pod.metadata.labels
        same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
        if same and not selector.is_nothing:
            return Selector.from_map(same).add(*selector.requirements)
        return selector

    def complete(self, node: NodeInfo) -> bool:
        return not self.all_keys or all(each.topology_key in node.labels for each in self.given)

    def included(self, constraint: TopologySpreadConstraint, node: NodeInfo) -> bool:
        assert node.node is not None
        affinity = RequiredNodeAffinity.of(self.pod)
        if constraint.node_affinity_policy != "Ignore" and not affinity.matches_node(node.node):
            return False
        return (
            constraint.node_taints_policy != "Honor"
            or first_untolerated(node.node.spec.taints, self.pod.spec.tolerations) is None
        )

    def matching(self, constraint: TopologySpreadConstraint, node: NodeInfo) -> int:
        selector = self.selector(constraint)
        if selector.is_empty:
            return 0
        return sum(
            other.pod.metadata.namespace == self.pod.metadata.namespace
            and other.pod.metadata.deletion_timestamp is None
            and selector.matches(other.pod.metadata.labels)
            for other in node.pods
        )

    def hard_verdicts(self, nodes: NodeView) -> list[str]:
        found: list[dict[str, int]] = [{} for _ in self.given]
        for node in nodes:
            if not self.complete(node):
                continue
            for constraint, counts in zip(self.given, found, strict=True):
                if self.included(constraint, node):
                    value = node.labels[constraint.topology_key]
                    counts[value] = counts.get(value, 0) + self.matching(constraint, node)
        return [self.hard_verdict(node, found) for node in nodes]

    def hard_verdict(self, node: NodeInfo, found: list[dict[str, int]]) -> str:
        for constraint, counts in zip(self.given, found, strict=True):
            value = node.labels.get(constraint.topology_key)
            if value is None:
                return "missing"
            lowest = min(counts.values(), default=0)
            if len(counts) < (1 if constraint.min_domains is None else constraint.min_domains):
                lowest = 0
            itself = self.selector(constraint).matches(self.pod.metadata.labels)
            if counts.get(value, 0) + itself - lowest > constraint.max_skew:
                return "skewed"
        return ""

    def soft_scores(self, nodes: NodeView, candidates: NodeView) -> list[int]:
        taking_part = [node for node in candidates if self.complete(node)]
        found: list[dict[str, int]] = []
        weights = []
        for constraint in self.given:
            key = constraint.topology_key
            values = {} if key == HOSTNAME else {n.labels.get(key, ""): 0 for n in taking_part}
            size = len(taking_part) if key == HOSTNAME else len(values)
            weights.append(math.log(size + 2))
            for node in nodes:
                value = node.labels.get(key, "")
                if self.complete(node) and self.included(constraint, node) and value in values:
                    values[value] += self.matching(constraint, node)
            found.append(values)
        return [
            self.soft_score(node, found, weights) if self.complete(node) else 0
            for node in candidates
        ]

    def soft_score(self, node: NodeInfo, found: list[dict[str, int]], weights: list[float]) -> int:
        total = 0.0
        for constraint, counts, weight in zip(self.given, found, weights, strict=True):
            key = constraint.topology_key
            if key in node.labels:
                on_node = self.matching(constraint, node)
                count = on_node if key == HOSTNAME else counts[node.labels[key]]
                total += count * weight + (constraint.max_skew - 1)
        return int(math.floor(total) + (total - math.floor(total) >= 0.5))

    def normalized(self, scores: list[int], candidates: NodeView) -> list[int]:
        counted = [
            score for score, node in zip(scores, candidates, strict=True) if self.complete(node)
        ]
        lowest, highest = min(counted, default=0), max(counted, default=0)
        return [
            0
            if not self.complete(node)
            else 100
            if highest == 0
            else 100 * (highest + lowest - score) // highest
            for score, node in zip(scores, candidates, strict=True)
        ]


def spread_pod(rng: random.Random, cluster: RandomCluster) -> Pod:
    """Return a pod with constraints; some pods of the generator have none."""
    while True:
        pod = random_pod(rng, "incoming", claims=cluster.claims)
        if pod.spec.topology_spread_constraints:
            return pod


def own(pod: Pod, action: str) -> list[TopologySpreadConstraint]:
    return [
        each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == action
    ]


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_filter_follows_the_rules(seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, nodes=rng.choice((1, 4, 9)))
    nodes = make_snapshot(cluster.nodes, cluster.pods).nodes
    plugin = PodTopologySpread(handle=FakeHandle(cluster.others))
    for _ in range(4):
        pod, state = spread_pod(rng, cluster), CycleState()
        answer = plugin.pre_filter(state, PodInfo(pod), nodes)
        hard = own(pod, HARD)
        assert answer.is_skip == (not hard)
        if not hard:
            continue
        each = filter_each(plugin, state, pod, nodes)
        assert each == filter_together(plugin, state, pod, nodes)
        words = {(): "", ("missing",): "missing", ("skewed",): "skewed"}
        got = [
            words[tuple("missing" if "missing" in text else "skewed" for text in status.reasons)]
            for status in each
        ]
        assert got == Oracle(pod, hard, all_keys=True).hard_verdicts(nodes)


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_scores_follow_the_rules(seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, nodes=rng.choice((1, 4, 9)))
    nodes = make_snapshot(cluster.nodes, cluster.pods).nodes
    plugin = PodTopologySpread(handle=FakeHandle(cluster.others))
    for _ in range(4):
        pod = spread_pod(rng, cluster)
        soft = own(pod, SOFT)
        check_scores(plugin, pod, nodes, some_of(rng, nodes), soft, all_keys=True)


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_system_defaults_follow_the_rules(seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, nodes=rng.choice((1, 4, 9)), pods=40)
    nodes = make_snapshot(cluster.nodes, cluster.pods).nodes
    plugin = PodTopologySpread(handle=FakeHandle(cluster.others))
    for _ in range(4):
        pod = random_pod(rng, "incoming", claims=cluster.claims)
        if pod.spec.topology_spread_constraints:
            continue
        derived = plugin._constraints(pod, SOFT)
        soft = []
        if derived:
            selector = derived[0].selector
            soft = [with_selector(each, selector) for each in SYSTEM_DEFAULTS]
        check_scores(plugin, pod, nodes, some_of(rng, nodes), soft, all_keys=False)


def with_selector(
    constraint: TopologySpreadConstraint, selector: Selector
) -> TopologySpreadConstraint:
    labels = {each.key: each.values[0] for each in selector.requirements}
    return make_spread(
        constraint.topology_key, max_skew=constraint.max_skew, when=SOFT, labels=labels
    )


def some_of(rng: random.Random, nodes: NodeView) -> NodeView:
    """Return all nodes, or a subset as after the filters of other plugins."""
    if rng.random() < 0.4:
        return nodes
    rows = nodes.rows
    return nodes.at_rows(rows[[i for i in range(len(rows)) if rng.random() < 0.6]])


def check_scores(
    plugin: PodTopologySpread,
    pod: Pod,
    nodes: NodeView,
    candidates: NodeView,
    soft: list[TopologySpreadConstraint],
    all_keys: bool,
) -> None:
    state = CycleState()
    assert plugin.pre_score(state, PodInfo(pod), candidates).is_skip == (not soft)
    if not soft:
        return
    naive = Oracle(pod, soft, all_keys)
    want = naive.soft_scores(nodes, candidates)
    scores = score_together(plugin, state, pod, candidates)
    assert scores.tolist() == score_each(plugin, state, pod, candidates).tolist() == want
    normalized = plugin.normalize_score(state, pod, candidates, scores)
    assert normalized.tolist() == naive.normalized(want, candidates)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_a_dry_run_equals_a_real_change_of_the_cluster(seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, nodes=6, pods=25)
    running = [pod for pod in cluster.pods if pod.metadata.deletion_timestamp is None]
    gone = rng.sample(running, rng.randint(0, len(running)))
    come = [
        random_pod(rng, f"new-{n}", node_name=rng.choice(cluster.nodes).metadata.name)
        for n in range(rng.randint(0, 4))
    ]
    come = [pod for pod in come if pod.metadata.deletion_timestamp is None]
    before = make_snapshot(cluster.nodes, running)
    after = make_snapshot(cluster.nodes, [pod for pod in running if pod not in gone] + come)
    pod = spread_pod(rng, cluster)
    if not own(pod, HARD):
        return
    plugin, state, other = PodTopologySpread(), CycleState(), CycleState()
    plugin.pre_filter(state, PodInfo(pod), before.nodes)
    original = filter_each(plugin, state, pod, before.nodes)
    changed = state.clone()
    for victim in gone:
        node = before.get(victim.spec.node_name)
        assert node is not None
        plugin.remove_pod(changed, pod, PodInfo(victim), node)
    for added in come:
        node = before.get(added.spec.node_name)
        assert node is not None
        plugin.add_pod(changed, pod, PodInfo(added), node)
    plugin.pre_filter(other, PodInfo(pod), after.nodes)
    want = filter_each(plugin, other, pod, after.nodes)
    # An empty selector counts no pods, but a dry run counts the pods that it adds.
    empty = any(
        Selector.from_label_selector(each.label_selector).is_empty for each in own(pod, HARD)
    )
    if not empty:
        assert filter_each(plugin, changed, pod, before.nodes) == want
    assert filter_together(plugin, changed, pod, before.nodes) == filter_each(
        plugin, changed, pod, before.nodes
    )
    assert filter_each(plugin, state, pod, before.nodes) == original


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_results_do_not_depend_on_the_history_of_the_cluster(seed: int) -> None:
    churn = Churn(seed)
    rng = churn.rng
    plugin = PodTopologySpread(handle=FakeHandle())
    pods = [random_pod(rng, "incoming") for _ in range(6)]
    for _ in range(15):
        for _ in range(rng.randint(1, 8)):
            churn.step()
        nodes, fresh = churn.cache.update_snapshot().nodes, churn.fresh()
        for pod in pods:
            assert results(plugin, pod, nodes) == results(
                PodTopologySpread(handle=FakeHandle()), pod, fresh
            )


def results(plugin: PodTopologySpread, pod: Pod, nodes: NodeView) -> list[object]:
    """Return all results of the plugin for a pod."""
    state, pod_info = CycleState(), PodInfo(pod)
    said: list[object] = [plugin.pre_filter(state, pod_info, nodes).code]
    if said[0] is Code.SUCCESS:
        said.append(filter_together(plugin, state, pod, nodes))
    said.append(plugin.pre_score(state, pod_info, nodes).code)
    if said[-1] is Code.SUCCESS:
        scores = score_together(plugin, state, pod, nodes)
        said += [scores.tolist(), plugin.normalize_score(state, pod, nodes, scores).tolist()]
    return said
