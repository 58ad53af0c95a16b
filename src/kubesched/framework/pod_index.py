"""Index of the pods on nodes, grouped by everything that selectors and affinity terms read.

Pods with the same namespace, labels and affinity terms, and the same terminating state, form one
*group*. A query is matched against each group once, never against each pod. Its result is stored
per row of the node table and per topology domain, and updated by one when a pod is added or
removed. Results that have not been read for long are evicted.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.api import ObjectMeta, Pod
from kubesched.api.pod_facts import is_terminating
from kubesched.api.sized_caches import MOST_WEIGHT
from kubesched.framework.affinity_terms import AffinityTerm
from kubesched.framework.engine import NodeTable
from kubesched.framework.engine.domain_counts import Domains, Eligibility, RowCounts
from kubesched.framework.pod_info import PodInfo
from kubesched.framework.pod_query import Anchor, PodQuery, anchor_of

__all__ = ["CarriedTerm", "EligibilityRule", "PodIndex", "TermKind", "TermsByKind"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ANSWERS_KEPT = 2048
# Memory for columns of all rows; their largest number follows from the size of the table.
_COLUMN_BYTES = 128 * 2**20
_FEWEST_COLUMNS = 64
_DOMAINS_KEPT = 256
_SUBJECTS_KEPT = 1024
# Groups without pods are evicted once there are more of them than this and than other groups.
_EMPTY_SHAPES_KEPT = 256
# A group with more labels and values of selectors is evicted with its last pod.
_HEAVY_GROUP = 256
# Results of queries and domains of rules with a larger weight are stored for one attempt only.
_HEAVY_QUERY = MOST_WEIGHT
# The terms about a pod with more labels than this are not stored between attempts.
_MOST_SUBJECT_LABELS = 256
# A group with more labels is not registered for each of them: a pod can have 30,000.
_MOST_ANCHORS = 64
_MANY_LABELS: Anchor = ("", "")  # no label has an empty key


class EligibilityRule(Hashable, Protocol):
    """A rule that selects rows. Equal rules select the same rows of every table."""

    @property
    def weight(self) -> int:
        """A measure of the memory of the rule (`api/sized_caches.py`)."""
        ...

    def on(self, index: PodIndex) -> Eligibility: ...


class TermKind(enum.Enum):
    """The kinds of affinity terms of a pod."""

    REQUIRED_AFFINITY = enum.auto()
    REQUIRED_ANTI_AFFINITY = enum.auto()
    PREFERRED_AFFINITY = enum.auto()
    PREFERRED_ANTI_AFFINITY = enum.auto()


_TermKey = tuple[TermKind, AffinityTerm, int]


class CarriedTerm:
    """An affinity term of pods on nodes. `PodIndex.count` returns how many have it."""

    __slots__ = ("_groups", "kind", "term", "weight")

    def __init__(self, kind: TermKind, term: AffinityTerm, weight: int) -> None:
        self.kind = kind
        self.term = term
        self.weight = weight  # 0 for a required term
        # How many times each group has the term: a pod may repeat a term.
        self._groups: dict[_Group, int] = {}


TermsByKind = Mapping[TermKind, Sequence[CarriedTerm]]

_NO_TERMS: TermsByKind = dict.fromkeys(TermKind, ())


class _Group:
    """Pods that no selector or term distinguishes, by row."""

    __slots__ = (
        "answers",
        "is_terminating",
        "key",
        "labels",
        "namespace",
        "pod_count",
        "rows",
        "terms",
        "weight",
    )

    def __init__(self, key: Hashable, pod: Pod, terms: tuple[CarriedTerm, ...]) -> None:
        self.key = key
        self.namespace = pod.metadata.namespace
        self.labels = pod.metadata.labels
        self.is_terminating = is_terminating(pod)
        self.terms = terms
        self.weight = len(self.labels) + sum(_term_weight(each.term) for each in terms)
        self.rows: dict[int, int] = {}  # row -> pods of this group, without zeros
        self.pod_count = 0
        self.answers: list[_Answer] = []  # the results that count this group's pods

    @property
    def has_many_labels(self) -> bool:
        return len(self.labels) > _MOST_ANCHORS

    def places(self) -> Iterator[_Place]:
        """Yield the places at which the group is registered."""
        anchors = (_MANY_LABELS,) if self.has_many_labels else self.labels.items()
        for namespace in (self.namespace, None):
            yield namespace, None
            for anchor in anchors:
                yield namespace, anchor

    def add(self, row: int) -> None:
        self.rows[row] = self.rows.get(row, 0) + 1
        self.pod_count += 1
        for answer in self.answers:
            answer.add(row, 1)

    def remove(self, row: int) -> None:
        left = self.rows[row] - 1
        if left:
            self.rows[row] = left
        else:
            del self.rows[row]
        self.pod_count -= 1
        for answer in self.answers:
            answer.add(row, -1)


# A namespace (None: all of them) and a label that a match must have (None: any labels).
_Place = tuple[str | None, Anchor | None]


class _Answer(RowCounts):
    """The result of a query: the number of matching pods per row and per domain."""

    __slots__ = ("_on_column", "groups")

    def __init__(self, capacity: int, on_column: Callable[[_Answer], None]) -> None:
        super().__init__(capacity)
        self._on_column = on_column  # called when a column of all rows is made
        self.groups: list[_Group] = []

    @property
    def column(self) -> NDArray[np.int64]:
        column = self._column
        if column is None:
            self._on_column(self)
            column = super().column
        return column

    def include(self, group: _Group) -> None:
        """Count the group's pods from now on. A group may be included more than once."""
        self.groups.append(group)
        group.answers.append(self)
        if group.rows:
            self.add_all(group.rows)

    def detach(self) -> None:
        """Stop counting, and break reference cycles so that the object is freed at once."""
        for group in self.groups:
            group.answers.remove(self)
        self.groups = []
        self.drop_splits()


class _Subject:
    """The terms that select pods with some namespace and labels, among those compared so far."""

    __slots__ = ("by_kind", "generation", "seen", "seen_at")

    def __init__(self) -> None:
        self.by_kind: dict[TermKind, list[CarriedTerm]] = {}
        self.generation = -1
        self.seen = 0  # the number of terms at the last lookup
        self.seen_at: dict[Anchor | None, int] = {}  # the same for each anchor


class PodIndex:
    """The index. The cache updates it with the node table, by one call per added or removed pod."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._capacity = table.capacity
        self._group_of: dict[PodInfo, _Group] = {}
        self._groups: dict[Hashable, _Group] = {}
        self._groups_at: dict[_Place, dict[Hashable, _Group]] = {}
        self._empty: dict[_Group, None] = {}  # groups without pods
        self._answers: OrderedDict[PodQuery | CarriedTerm, _Answer] = OrderedDict()
        self._heavy_queries: list[PodQuery] = []
        # results that have a domain count
        self._columns: OrderedDict[_Answer, None] = OrderedDict()
        self._queries_at: dict[_Place, dict[PodQuery, _Answer]] = {}
        self._terms: dict[_TermKey, CarriedTerm] = {}
        self._terms_at: dict[Anchor | None, list[CarriedTerm]] = {}
        self._terms_of_kind: Counter[TermKind] = Counter()
        self._term_generation = 0  # grows when terms are dropped
        self._subjects: OrderedDict[Hashable, _Subject] = OrderedDict()
        self._domains: OrderedDict[Hashable, Domains] = OrderedDict()
        self._heavy_domains: list[Hashable] = []
        self._latest: ObjectMeta | None = None
        self._labels: frozenset[tuple[str, str]] = frozenset()  # of the latest metadata

    def add(self, row: int, pod_info: PodInfo) -> None:
        """Add a pod on the node in this row."""
        self._fit()
        group = self._group_of[pod_info] = self._intern(pod_info)
        if not group.pod_count:
            del self._empty[group]
        group.add(row)

    def remove(self, row: int, pod_info: PodInfo) -> None:
        """Remove a pod (the same PodInfo that was added) from the node in this row."""
        self._fit()
        group = self._group_of.pop(pod_info)
        group.remove(row)
        if not group.pod_count:
            self._empty[group] = None
            if group.weight > _HEAVY_GROUP:
                self._drop_empty_shapes([group])
            elif len(self._empty) > max(_EMPTY_SHAPES_KEPT, len(self._groups) // 2):
                self._drop_empty_shapes([*self._empty])

    def relabel(self, row: int, pod_info: PodInfo) -> None:
        """Move a pod to another group if its labels or terms have changed."""
        if self._intern(pod_info) is not self._group_of[pod_info]:
            self.remove(row, pod_info)
            self.add(row, pod_info)

    def count(self, question: PodQuery | CarriedTerm) -> RowCounts:
        """Return the number of pods per row that match the query or have the term.

        The result is updated from then on, until it is evicted.
        """
        self._fit()
        answer = self._answers.get(question)
        if answer is not None:
            self._answers.move_to_end(question)
            if answer.has_column:
                self._columns.move_to_end(answer)
            return answer
        answer = self._answers[question] = _Answer(self._capacity, self._keep_column)
        if isinstance(question, PodQuery):
            if sum(selector.weight for _, selector in question.conditions) > _HEAVY_QUERY:
                self._heavy_queries.append(question)
            self._find_matches(question, answer)
        else:
            for group, times in question._groups.items():
                for _ in range(times):
                    answer.include(group)
        if len(self._answers) > _ANSWERS_KEPT:
            self._forget(next(iter(self._answers)))
        return answer

    def end_attempt(self) -> None:
        """Evict results that are too large to be stored for later attempts."""
        if self._heavy_queries:
            for query in self._heavy_queries:
                if query in self._answers:
                    self._forget(query)
            self._heavy_queries = []
        if self._heavy_domains:
            for name in self._heavy_domains:
                self._forget_domains(name)
            self._heavy_domains = []

    def domains(
        self, key: str, rule: EligibilityRule | None = None, missing_as_empty: bool = False
    ) -> Domains:
        """Return the domains of a topology key among the rows that the rule selects."""
        name = (key, rule, missing_as_empty)
        domains = self._domains.get(name)
        if domains is not None:
            self._domains.move_to_end(name)
            return domains
        eligibility = None if rule is None else rule.on(self)
        domains = self._domains[name] = Domains(self.table, key, eligibility, missing_as_empty)
        if len(self._domains) > _DOMAINS_KEPT:
            self._forget_domains(next(iter(self._domains)))
        if rule is not None and rule.weight > _HEAVY_QUERY:
            self._heavy_domains.append(name)
        return domains

    def _forget_domains(self, name: Hashable) -> None:
        domains = self._domains.pop(name, None)
        if domains is not None:
            for answer in self._answers.values():
                answer.drop_split(domains)

    @property
    def has_terms(self) -> bool:
        """Whether any pod may have an affinity term."""
        return bool(self._terms)

    def has_terms_of(self, kind: TermKind) -> bool:
        """Whether any pod may have an affinity term of this kind."""
        return kind in self._terms_of_kind

    def terms_about(self, pod: Pod, namespace_labels: Mapping[str, str]) -> TermsByKind:
        """Return the terms of pods on nodes that select this pod."""
        if not self._terms:
            return _NO_TERMS
        metadata = pod.metadata
        if len(metadata.labels) + len(namespace_labels) > _MOST_SUBJECT_LABELS:
            unnamed = _Subject()
            self._look_at_terms(unnamed, pod, namespace_labels)
            return unnamed.by_kind
        labels = self._labels_of(metadata)
        name = (metadata.namespace, labels, frozenset(namespace_labels.items()))
        subject = self._subjects.get(name)
        if subject is None:
            subject = self._subjects[name] = _Subject()
            if len(self._subjects) > _SUBJECTS_KEPT:
                self._subjects.popitem(last=False)
        else:
            self._subjects.move_to_end(name)
        if subject.generation != self._term_generation or subject.seen != len(self._terms):
            self._look_at_terms(subject, pod, namespace_labels)
        return subject.by_kind

    def _labels_of(self, metadata: ObjectMeta) -> Hashable:
        """Return the labels as a key. An attempt needs those of its pod several times."""
        if len(metadata.labels) > _MOST_SUBJECT_LABELS:
            return id(metadata.labels)  # the group refers to them, so that the id stays theirs
        if metadata is not self._latest:
            self._latest, self._labels = metadata, frozenset(metadata.labels.items())
        return self._labels

    def _fit(self) -> None:
        """Resize to the size of the table."""
        capacity = self.table.capacity
        if capacity != self._capacity:
            self._capacity = capacity
            for answer in self._answers.values():
                answer.resize(capacity)
            self._columns.clear()

    def _keep_column(self, answer: _Answer) -> None:
        self._columns[answer] = None
        if len(self._columns) > max(_FEWEST_COLUMNS, _COLUMN_BYTES // (8 * self._capacity)):
            oldest, _ = self._columns.popitem(last=False)
            oldest.drop_column()

    def _find_matches(self, query: PodQuery, answer: _Answer) -> None:
        for place in _places(query):
            self._queries_at.setdefault(place, {})[query] = answer
            groups = [*self._groups_at.get(place, {}).values()]
            if place[1] is not None and place[1] != _MANY_LABELS:
                groups += self._groups_at.get((place[0], _MANY_LABELS), {}).values()
            for group in groups:
                if query.matches(group.namespace, group.labels, group.is_terminating):
                    answer.include(group)

    def _look_at_terms(
        self, subject: _Subject, pod: Pod, namespace_labels: Mapping[str, str]
    ) -> None:
        """Match the terms that were added since the last lookup."""
        if subject.generation != self._term_generation:
            subject.generation = self._term_generation
            subject.seen_at = {}
            subject.by_kind = {kind: [] for kind in TermKind}
        for anchor in (None, *pod.metadata.labels.items()):
            terms = self._terms_at.get(anchor)
            if terms is None:
                continue
            for carried in terms[subject.seen_at.get(anchor, 0) :]:
                if carried.term.matches(pod, namespace_labels):
                    subject.by_kind[carried.kind].append(carried)
            subject.seen_at[anchor] = len(terms)
        subject.seen = len(self._terms)

    def _intern(self, pod_info: PodInfo) -> _Group:
        pod = pod_info.pod
        metadata = pod.metadata
        key: Hashable = (
            metadata.namespace,
            self._labels_of(metadata),
            metadata.deletion_timestamp is not None,
        )
        terms = _term_keys(pod_info)
        if terms:
            key = (key, terms)
        group = self._groups.get(key)
        return group if group is not None else self._new_group(key, pod, terms)

    def _new_group(self, key: Hashable, pod: Pod, terms: tuple[_TermKey, ...]) -> _Group:
        group = self._groups[key] = _Group(key, pod, tuple(map(self._carried, terms)))
        self._empty[group] = None
        for place in group.places():
            self._groups_at.setdefault(place, {})[key] = group
        for queries in self._queries_about(group):
            for query, answer in queries.items():
                if query.matches(group.namespace, group.labels, group.is_terminating):
                    answer.include(group)
        for carried in group.terms:
            carried._groups[group] = carried._groups.get(group, 0) + 1
            known = self._answers.get(carried)
            if known is not None:
                known.include(group)
        return group

    def _queries_about(self, group: _Group) -> Iterator[dict[PodQuery, _Answer]]:
        """Yield the queries that may match a group."""
        if not group.has_many_labels:
            for place in group.places():
                if (queries := self._queries_at.get(place)) is not None:
                    yield queries
            return
        labels = group.labels
        for (namespace, anchor), queries in self._queries_at.items():
            if namespace not in (None, group.namespace):
                continue
            if anchor is None or labels.get(anchor[0]) == anchor[1]:
                yield queries

    def _carried(self, key: _TermKey) -> CarriedTerm:
        carried = self._terms.get(key)
        if carried is None:
            carried = self._terms[key] = CarriedTerm(*key)
            self._terms_of_kind[carried.kind] += 1
            self._terms_at.setdefault(anchor_of(carried.term.selector), []).append(carried)
        return carried

    def _forget(self, question: PodQuery | CarriedTerm) -> None:
        answer = self._answers.pop(question)
        answer.detach()
        self._columns.pop(answer, None)
        if isinstance(question, PodQuery):
            for place in _places(question):
                _drop(self._queries_at, place, question)

    def _drop_empty_shapes(self, dropped: Sequence[_Group]) -> None:
        touched: dict[int, _Answer] = {}
        has_idle_terms = False
        for group in dropped:
            del self._empty[group]
            del self._groups[group.key]
            for place in group.places():
                _drop(self._groups_at, place, group.key)
            for carried in group.terms:
                carried._groups.pop(group, None)
                has_idle_terms |= not carried._groups
            touched.update((id(answer), answer) for answer in group.answers)
        for answer in touched.values():
            answer.groups = [group for group in answer.groups if group.pod_count]
        if has_idle_terms:
            self._drop_idle_terms()

    def _drop_idle_terms(self) -> None:
        carried_still = {key: carried for key, carried in self._terms.items() if carried._groups}
        for carried in self._terms.values():
            if not carried._groups and carried in self._answers:
                self._forget(carried)
        self._terms.clear()
        self._terms_at.clear()
        self._terms_of_kind = Counter(carried.kind for carried in carried_still.values())
        for key, carried in carried_still.items():
            self._terms[key] = carried
            self._terms_at.setdefault(anchor_of(carried.term.selector), []).append(carried)
        self._term_generation += 1
        self._subjects.clear()  # they refer to the dropped terms


def _places(query: PodQuery) -> list[_Place]:
    """Yield the places at which a query is registered; only groups at these can match."""
    if query.namespaces is None:
        return [(None, query.anchor)]
    return [(namespace, query.anchor) for namespace in sorted(query.namespaces)]


def _drop(at: dict[_Place, dict[K, V]], place: _Place, key: K) -> None:
    found = at[place]
    del found[key]
    if not found:
        del at[place]


def _term_weight(term: AffinityTerm) -> int:
    requirements = (*term.selector.requirements, *term.namespace_selector.requirements)
    return len(term.namespaces) + sum(1 + len(each.values) for each in requirements)


def _term_keys(pod_info: PodInfo) -> tuple[_TermKey, ...]:
    if pod_info.pod.spec.affinity is None:
        return ()
    kinds = TermKind
    return (
        *((kinds.REQUIRED_AFFINITY, term, 0) for term in pod_info.required_affinity_terms),
        *(
            (kinds.REQUIRED_ANTI_AFFINITY, term, 0)
            for term in pod_info.required_anti_affinity_terms
        ),
        *(
            (kinds.PREFERRED_AFFINITY, weighted.term, weighted.weight)
            for weighted in pod_info.preferred_affinity_terms
        ),
        *(
            (kinds.PREFERRED_ANTI_AFFINITY, weighted.term, weighted.weight)
            for weighted in pod_info.preferred_anti_affinity_terms
        ),
    )
