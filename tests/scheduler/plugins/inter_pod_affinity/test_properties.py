"""InterPodAffinity on random clusters: both forms against an oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import Namespace, Pod
from kubesched.framework import SUCCESS, AffinityTerm, Code, CycleState, NodeInfo, NodeView, PodInfo
from kubesched.scheduler.config.args import InterPodAffinityArgs
from kubesched.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from kubesched.testing import FakeHandle, check_plugin, make_namespace
from kubesched.testing.objects.random_clusters import (
    NAMESPACES,
    RandomCluster,
    random_cluster,
    random_pod,
)
from kubesched.testing.objects.views import (
    filter_each,
    filter_together,
    make_snapshot,
    score_each,
    score_together,
)
from tests.framework.churn import Churn

SEEDS = st.integers(0, 2**32)
ARGS = [
    InterPodAffinityArgs(),
    InterPodAffinityArgs(hard_pod_affinity_weight=0),
    InterPodAffinityArgs(hard_pod_affinity_weight=30),
    InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True),
]
Counts = Counter[tuple[str, str]]


def test_the_plugin_fulfils_the_contract() -> None:
    for args in ARGS:
        check_plugin(InterPodAffinity, args=args)


class Oracle:
    """The rules of docs/reference/06 §2.2 to §2.6, implemented literally, pod by pod."""

    def __init__(self, pod: Pod, namespaces: list[Namespace]) -> None:
        self.info = PodInfo(pod)
        self.pod = pod
        self.labels_of = {each.metadata.name: each.metadata.labels for each in namespaces}
        self.own_labels = self.labels_of.get(pod.metadata.namespace, {})

    def matches_mine(self, term: AffinityTerm, other: Pod) -> bool:
        """Whether a term of the incoming pod matches, with its namespaces resolved."""
        namespaces = set(term.namespaces)
        if not term.namespace_selector.is_empty:
            namespaces |= {
                name
                for name, labels in self.labels_of.items()
                if term.namespace_selector.matches(labels)
            }
        metadata = other.metadata
        return (
            metadata.namespace in namespaces or term.namespace_selector.matches({})
        ) and term.selector.matches(metadata.labels)

    def matches_all(self, other: Pod) -> bool:
        terms = self.info.required_affinity_terms
        return bool(terms) and all(self.matches_mine(term, other) for term in terms)

    def counts(self, nodes: NodeView) -> tuple[Counts, Counts, Counts]:
        existing, near, apart = Counter(), Counter(), Counter()  # type: ignore[var-annotated]
        for node in nodes:
            for other in node.pods:
                for term in other.required_anti_affinity_terms:
                    if term.matches(self.pod, self.own_labels):
                        _count(existing, term.topology_key, node.labels)
                if self.matches_all(other.pod):
                    for term in self.info.required_affinity_terms:
                        _count(near, term.topology_key, node.labels)
                for term in self.info.required_anti_affinity_terms:
                    if self.matches_mine(term, other.pod):
                        _count(apart, term.topology_key, node.labels)
        return existing, near, apart

    def verdicts(self, nodes: NodeView) -> list[str]:
        counts = self.counts(nodes)
        return [self.verdict(node, *counts) for node in nodes]

    def skips(self, nodes: NodeView) -> bool:
        existing, _, _ = self.counts(nodes)
        return not (
            existing or self.info.required_affinity_terms or self.info.required_anti_affinity_terms
        )

    def verdict(self, node: NodeInfo, existing: Counts, near: Counts, apart: Counts) -> str:
        labels = node.labels
        affinity_keys = [term.topology_key for term in self.info.required_affinity_terms]
        if not all(key in labels for key in affinity_keys):
            return "pod affinity"
        found_everywhere = all(near[key, labels[key]] > 0 for key in affinity_keys)
        if not found_everywhere and (near or not self.matches_all(self.pod)):
            return "pod affinity"
        for term in self.info.required_anti_affinity_terms:
            key = term.topology_key
            if key in labels and apart[key, labels[key]] > 0:
                return "pod anti-affinity"
        if any(existing[label] > 0 for label in labels.items()):
            return "existing pods anti-affinity"
        return ""

    def scores(self, nodes: NodeView, args: InterPodAffinityArgs) -> list[int] | None:
        info = self.info
        has_own = bool(info.preferred_affinity_terms or info.preferred_anti_affinity_terms)
        if args.ignore_preferred_terms_of_existing_pods and not has_own:
            return None
        topology: Counts = Counter()
        landed = False
        for node in nodes:
            for other in node.pods:
                for key, weight in self.contributions(other, args.hard_pod_affinity_weight):
                    if key in node.labels:
                        topology[key, node.labels[key]] += weight
                        landed = True
        if not landed:
            return None
        return [sum(topology[label] for label in node.labels.items()) for node in nodes]

    def contributions(self, other: PodInfo, hard_weight: int) -> list[tuple[str, int]]:
        info, pod, labels = self.info, self.pod, self.own_labels
        found: list[tuple[str, int]] = []
        for sign, mine, theirs in (
            (1, info.preferred_affinity_terms, other.preferred_affinity_terms),
            (-1, info.preferred_anti_affinity_terms, other.preferred_anti_affinity_terms),
        ):
            found += [
                (weighted.term.topology_key, sign * weighted.weight)
                for weighted in mine
                if self.matches_mine(weighted.term, other.pod)
            ]
            found += [
                (weighted.term.topology_key, sign * weighted.weight)
                for weighted in theirs
                if weighted.term.matches(pod, labels)
            ]
        if hard_weight:
            found += [
                (term.topology_key, hard_weight)
                for term in other.required_affinity_terms
                if term.matches(pod, labels)
            ]
        return found


def _count(counts: Counts, key: str, labels: Mapping[str, str]) -> None:
    if key in labels:
        counts[key, labels[key]] += 1


def normalized(scores: list[int]) -> list[int]:
    lowest = min(scores, default=0)
    spread = max(scores, default=0) - lowest
    if not spread:
        return [0] * len(scores)
    return [int(100.0 * (float(score - lowest) / float(spread))) for score in scores]


def namespaces(rng: random.Random) -> list[Namespace]:
    """Return random namespaces: some are missing, and few have labels."""
    return [
        make_namespace(name, labels={"team": rng.choice("ab")} if rng.random() < 0.6 else None)
        for name in NAMESPACES
        if rng.random() < 0.8
    ]


def affine_pod(rng: random.Random, cluster: RandomCluster, likely: float = 0.8) -> Pod:
    """Return a pod that probably has affinity, unlike most pods of the generator."""
    while True:
        pod = random_pod(rng, "incoming", claims=cluster.claims)
        if PodInfo(pod).has_affinity or rng.random() > likely:
            return pod


REASONS = {
    "node(s) didn't match pod affinity rules": "pod affinity",
    "node(s) didn't match pod anti-affinity rules": "pod anti-affinity",
    "node(s) didn't satisfy existing pods anti-affinity rules": "existing pods anti-affinity",
}


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_filter_follows_the_rules(seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, nodes=rng.choice((1, 4, 9)), pods=rng.choice((2, 10, 30)))
    nodes = make_snapshot(cluster.nodes, cluster.pods).nodes
    known = namespaces(rng)
    plugin = InterPodAffinity(handle=FakeHandle(known))
    for _ in range(4):
        pod, state = affine_pod(rng, cluster), CycleState()
        naive = Oracle(pod, known)
        assert plugin.pre_filter(state, PodInfo(pod), nodes).is_skip == naive.skips(nodes)
        if naive.skips(nodes):
            continue
        each = filter_each(plugin, state, pod, nodes)
        assert each == filter_together(plugin, state, pod, nodes)
        got = ["" if status is SUCCESS else REASONS[status.message] for status in each]
        assert got == naive.verdicts(nodes)


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_scores_follow_the_rules(seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, nodes=rng.choice((1, 4, 9)), pods=rng.choice((2, 10, 30)))
    nodes = make_snapshot(cluster.nodes, cluster.pods).nodes
    known = namespaces(rng)
    args = rng.choice(ARGS)
    plugin = InterPodAffinity(args, FakeHandle(known))
    for _ in range(4):
        pod, state = affine_pod(rng, cluster), CycleState()
        want = Oracle(pod, known).scores(nodes, args)
        answer = plugin.pre_score(state, PodInfo(pod), nodes)
        assert answer.is_skip == (want is None)
        if want is None:
            continue
        scores = score_together(plugin, state, pod, nodes)
        assert scores.tolist() == score_each(plugin, state, pod, nodes).tolist() == want
        final = plugin.normalize_score(state, pod, nodes, scores)
        assert final.tolist() == normalized(want)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_a_dry_run_equals_a_real_change_of_the_cluster(seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, nodes=6, pods=20)
    gone = rng.sample(cluster.pods, rng.randint(0, len(cluster.pods)))
    come = [
        random_pod(rng, f"new-{n}", node_name=rng.choice(cluster.nodes).metadata.name)
        for n in range(rng.randint(0, 4))
    ]
    before = make_snapshot(cluster.nodes, cluster.pods)
    after = make_snapshot(cluster.nodes, [pod for pod in cluster.pods if pod not in gone] + come)
    pod = affine_pod(rng, cluster, likely=1)
    known = namespaces(rng)
    plugin, state = InterPodAffinity(handle=FakeHandle(known)), CycleState()
    if plugin.pre_filter(state, PodInfo(pod), before.nodes).is_skip:
        return
    original = filter_each(plugin, state, pod, before.nodes)
    changed = state.clone()
    for others, change in ((gone, plugin.remove_pod), (come, plugin.add_pod)):
        for other in others:
            node = before.get(other.spec.node_name)
            assert node is not None
            change(changed, pod, PodInfo(other), node)
    each = filter_each(plugin, changed, pod, before.nodes)
    got = ["" if status is SUCCESS else REASONS[status.message] for status in each]
    assert got == Oracle(pod, known).verdicts(after.nodes)
    assert filter_together(plugin, changed, pod, before.nodes) == each
    assert filter_each(plugin, state, pod, before.nodes) == original


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_results_do_not_depend_on_the_history_of_the_cluster(seed: int) -> None:
    churn = Churn(seed)
    rng = churn.rng
    plugin = InterPodAffinity(handle=FakeHandle())
    pods = [random_pod(rng, "incoming") for _ in range(6)]
    for _ in range(15):
        for _ in range(rng.randint(1, 8)):
            churn.step()
        nodes, fresh = churn.cache.update_snapshot().nodes, churn.fresh()
        for pod in pods:
            assert results(plugin, pod, nodes) == results(
                InterPodAffinity(handle=FakeHandle()), pod, fresh
            )


def results(plugin: InterPodAffinity, pod: Pod, nodes: NodeView) -> list[object]:
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
