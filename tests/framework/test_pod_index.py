"""The index of pods on nodes by group: its counts equal a recount."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import Pod
from kubesched.api.labels import EVERYTHING, NOTHING, Selector
from kubesched.framework import NodeInfo, PodIndex, PodInfo, pod_index
from kubesched.framework.pod_index import TermKind
from kubesched.framework.pod_query import PodQuery
from kubesched.testing import (
    HOSTNAME,
    ZONE,
    make_affinity,
    make_node,
    make_pod,
    make_pod_term,
    make_view,
)
from kubesched.testing.objects.random_clusters import NAMESPACES, random_pod
from tests.framework.churn import Churn

WEB = Selector.from_map({"app": "web"})
DB = Selector.from_map({"app": "db"})
DEFAULT = frozenset({"default"})

QUERIES = [
    PodQuery([(DEFAULT, WEB)]),
    PodQuery([(DEFAULT, WEB)], with_terminating=False),
    PodQuery([(frozenset({"team-a", "team-b"}), DB)]),
    PodQuery([(None, Selector.from_map({"tier": "a"}))]),
    PodQuery([(None, EVERYTHING)], with_terminating=False),
    PodQuery([(None, NOTHING)]),
    PodQuery([(frozenset(), EVERYTHING)]),
    PodQuery([(frozenset({"default", "team-a"}), WEB), (None, Selector.from_map({"tier": "b"}))]),
    PodQuery([(DEFAULT, WEB), (frozenset({"team-a"}), WEB)]),
]
KEYS = (ZONE, HOSTNAME, "disk")


def test_equal_queries_share_an_answer() -> None:
    index = make_view(make_node("a")).pods
    again = PodQuery([(frozenset({"default"}), Selector.from_map({"app": "web"}))])
    assert index.count(QUERIES[0]) is index.count(again)
    assert index.count(QUERIES[0]) is not index.count(QUERIES[1])


def test_a_pod_is_removed_as_it_was_added() -> None:
    """The cache may replace the pod in the PodInfo by a newer version in between."""
    view = make_view(make_node("a"))
    index = view.pods
    pod_info = PodInfo(make_pod("p", labels={"app": "web"}))
    index.add(0, pod_info)
    assert index.count(QUERIES[0]).total == 1
    pod_info.pod = make_pod("p", labels={"app": "db"})
    index.remove(0, pod_info)
    assert index.count(QUERIES[0]).total == 0


def test_terms_are_found_by_the_pods_that_they_match() -> None:
    near = make_affinity(near=[make_pod_term(ZONE, {"app": "web"})])
    wide = make_affinity(
        apart_preferred=[(7, make_pod_term(ZONE, {"app": "web"}, namespace_selector={"a": "b"}))]
    )
    pods = [
        make_pod("one", affinity=near, node_name="a"),
        make_pod("two", affinity=near, labels={"x": "y"}, node_name="b"),
        make_pod("far", affinity=wide, node_name="b"),
    ]
    index = make_view(make_node("a", zone="z1"), make_node("b", zone="z2"), pods=pods).pods
    web = make_pod("p", labels={"app": "web"})
    terms = index.terms_about(web, {})
    (required,) = terms[TermKind.REQUIRED_AFFINITY]
    assert index.count(required).column[:2].tolist() == [1, 1]
    assert not terms[TermKind.PREFERRED_ANTI_AFFINITY]
    (preferred,) = index.terms_about(web, {"a": "b"})[TermKind.PREFERRED_ANTI_AFFINITY]
    assert preferred.weight == 7
    assert index.count(preferred).column[:2].tolist() == [0, 1]
    assert not index.terms_about(make_pod("p"), {})[TermKind.REQUIRED_AFFINITY]


def test_a_term_added_later_is_taken_into_account() -> None:
    index = make_view(make_node("a", zone="z1")).pods
    web = make_pod("p", labels={"app": "web"})
    assert not index.has_terms
    assert not index.terms_about(web, {})[TermKind.REQUIRED_ANTI_AFFINITY]
    for key in (ZONE, HOSTNAME):
        apart = make_affinity(apart=[make_pod_term(key, {"app": "web"})])
        index.add(0, PodInfo(make_pod(key, affinity=apart)))
        found = index.terms_about(web, {})[TermKind.REQUIRED_ANTI_AFFINITY]
        assert found[-1].term.topology_key == key


@pytest.mark.usefixtures("tiny_bounds")
def test_a_kind_of_terms_is_gone_with_the_last_pod_that_has_one() -> None:
    index = make_view(make_node("a", zone="z1")).pods
    term = make_pod_term(ZONE, {"app": "web"})
    near = PodInfo(make_pod("near", affinity=make_affinity(near=[term])))
    apart = [
        PodInfo(make_pod(name, labels={"x": name}, affinity=make_affinity(apart=[term])))
        for name in ("one", "two")
    ]
    index.add(0, near)
    assert index.has_terms_of(TermKind.REQUIRED_AFFINITY)
    assert not index.has_terms_of(TermKind.REQUIRED_ANTI_AFFINITY)
    for each in apart:
        index.add(0, each)
    for each in apart:
        assert index.has_terms_of(TermKind.REQUIRED_ANTI_AFFINITY)
        index.remove(0, each)
    assert index.has_terms_of(TermKind.REQUIRED_AFFINITY)
    assert not index.has_terms_of(TermKind.REQUIRED_ANTI_AFFINITY)


def test_the_same_term_twice_counts_twice() -> None:
    given = (5, make_pod_term(ZONE, {"app": "web"}))
    pod = make_pod("one", affinity=make_affinity(near_preferred=[given, given]))
    index = make_view(make_node("a", zone="z1")).pods
    index.add(0, PodInfo(pod))
    about = index.terms_about(make_pod("p", labels={"app": "web"}), {})
    (term,) = about[TermKind.PREFERRED_AFFINITY]
    assert index.count(term).total == 2
    index.add(0, PodInfo(make_pod("two", labels={"x": "y"}, affinity=pod.spec.affinity)))
    assert index.count(term).total == 4


@pytest.fixture
def tiny_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evict as early as possible, so that eviction is tested often."""
    monkeypatch.setattr(pod_index, "_ANSWERS_KEPT", 3)
    monkeypatch.setattr(pod_index, "_COLUMN_BYTES", 0)
    monkeypatch.setattr(pod_index, "_FEWEST_COLUMNS", 2)
    monkeypatch.setattr(pod_index, "_DOMAINS_KEPT", 2)
    monkeypatch.setattr(pod_index, "_SUBJECTS_KEPT", 2)
    monkeypatch.setattr(pod_index, "_EMPTY_SHAPES_KEPT", 1)


def infos(churn: Churn) -> Iterator[tuple[int, NodeInfo]]:
    view = churn.cache.update_snapshot().nodes
    yield from zip(view.rows.tolist(), view, strict=True)


def check_query(churn: Churn, index: PodIndex, query: PodQuery, key: str) -> None:
    """Compare a result with a loop over all pods."""
    counts = index.count(query)
    split = counts.by_domain(index.domains(key))
    per_value: dict[str, int] = {}
    total = 0
    for row, info in infos(churn):
        on_node = sum(query.matches_pod(pod_info.pod) for pod_info in info.pods)
        total += on_node
        assert counts.get(row) == counts.column[row] == on_node
        if key in info.labels:
            value = info.labels[key]
            per_value[value] = per_value.get(value, 0) + on_node
    assert counts.total == counts.column.sum() == total
    assert {value: split.of_value(value) for value in per_value} == per_value
    assert split.total == sum(per_value.values())
    if per_value:
        assert split.minimum() == min(per_value.values())


def check_terms(churn: Churn, index: PodIndex, subject: Pod) -> None:
    """Compare the terms about a pod with a loop over the terms of all pods."""
    labels = {"team": "a"} if churn.rng.random() < 0.5 else {}
    found = index.terms_about(subject, labels)
    got = {
        (kind, carried.term, carried.weight, row): int(count)
        for kind, terms in found.items()
        for carried in terms
        for row, count in enumerate(index.count(carried).column)
        if count
    }
    want: dict[object, int] = {}
    for row, info in infos(churn):
        for pod_info in info.pods:
            weighted = [
                *((TermKind.REQUIRED_AFFINITY, t, 0) for t in pod_info.required_affinity_terms),
                *(
                    (TermKind.REQUIRED_ANTI_AFFINITY, t, 0)
                    for t in pod_info.required_anti_affinity_terms
                ),
                *(
                    (TermKind.PREFERRED_AFFINITY, w.term, w.weight)
                    for w in pod_info.preferred_affinity_terms
                ),
                *(
                    (TermKind.PREFERRED_ANTI_AFFINITY, w.term, w.weight)
                    for w in pod_info.preferred_anti_affinity_terms
                ),
            ]
            for kind, term, weight in weighted:
                assert index.has_terms_of(kind)
                if term.matches(subject, labels):
                    name = (kind, term, weight, row)
                    want[name] = want.get(name, 0) + 1
    assert got == want


def run_churn(seed: int, steps: int) -> None:
    churn = Churn(seed)
    rng = churn.rng
    index = churn.cache.snapshot.pod_index
    for _ in range(steps):
        for _ in range(rng.randint(1, 4)):
            churn.step()
        churn.cache.update_snapshot()
        if rng.random() < 0.7:
            check_query(churn, index, rng.choice(QUERIES), rng.choice(KEYS))
        if rng.random() < 0.5:
            check_terms(churn, index, random_pod(rng, "subject"))
    for query in QUERIES:
        check_query(churn, index, query, rng.choice(KEYS))
    assert {pod.metadata.namespace for pod in churn.pods.values()} <= set(NAMESPACES)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_counts_equal_a_recount_after_any_changes(seed: int) -> None:
    run_churn(seed, steps=25)


@pytest.mark.usefixtures("tiny_bounds")
def test_forgetting_changes_no_answer() -> None:
    for seed in range(40):
        run_churn(seed, steps=25)


@pytest.mark.usefixtures("tiny_bounds")
def test_unused_query_results_are_evicted() -> None:
    churn = Churn(1)
    index = churn.cache.snapshot.pod_index
    churn.cache.add_node(make_node("node-0"))
    churn.cache.add_pod(make_pod("stays", node_name="node-0"))
    churn.cache.update_snapshot()
    for number in range(200):
        assert index.count(PodQuery([(None, Selector.parse(f"!unique-{number}"))])).column[0]
        pod = make_pod(f"p{number}", labels={"unique": str(number)}, node_name="node-0")
        churn.cache.add_pod(pod)
        churn.cache.update_snapshot()
        index.count(PodQuery([(DEFAULT, Selector.from_map({"unique": str(number)}))]))
        churn.cache.remove_pod(pod)
        churn.cache.update_snapshot()
    assert len(index._answers) <= 3
    assert len(index._columns) <= 2
    assert len(index._groups) <= 3
    assert len(index._queries_at) <= 3
    assert all(len(group.answers) <= 3 for group in index._groups.values())
