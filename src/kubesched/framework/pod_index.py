"""The pods on the nodes, grouped by what selectors and affinity terms can see of them.

Pods with the same namespace, labels and affinity terms, terminating or not, have one *shape*.
A question about pods is matched against shapes, once each, never pod by pod, and its answer
is kept per row of the node table and per topology domain by adding one when a pod comes and
taking one off when it goes. What nobody has asked about for long is forgotten.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from kubesched.api import Pod
from kubesched.api.labels import Selector
from kubesched.api.pods import is_terminating
from kubesched.engine import NodeTable
from kubesched.engine.domain_counts import Domains, Eligibility, RowCounts
from kubesched.framework.affinity_terms import AffinityTerm
from kubesched.framework.pod_info import PodInfo

__all__ = ["Condition", "EligibilityRule", "PodIndex", "PodQuery", "TermCounts", "TermKind"]

# Memory that answers may take; a bound on their number follows from the size of the table.
_ANSWER_BYTES = 128 * 2**20
_FEWEST_ANSWERS = 64
_DOMAINS_KEPT = 256
_SUBJECTS_KEPT = 1024
# Shapes without pods are dropped once there are more of them than this and than others.
_EMPTY_SHAPES_KEPT = 256

Condition = tuple[frozenset[str] | None, Selector]
"""Namespaces (None: all of them) and a selector over labels."""


class EligibilityRule(Hashable, Protocol):
    """A rule about rows, equal to another if both leave out the same rows of every table."""

    def on(self, index: PodIndex) -> Eligibility: ...


class PodQuery:
    """Which pods to count: those that meet every condition."""

    __slots__ = ("_hash", "conditions", "namespaces", "with_terminating")

    def __init__(self, conditions: Iterable[Condition], with_terminating: bool = True) -> None:
        self.conditions = tuple(conditions)
        self.with_terminating = with_terminating
        self.namespaces: frozenset[str] | None = None  # outside of these nothing matches
        for namespaces, _ in self.conditions:
            if namespaces is not None:
                self.namespaces = (
                    namespaces if self.namespaces is None else self.namespaces & namespaces
                )
        # Asked for with every pod, while the selectors inside are costly to hash.
        self._hash = hash((self.conditions, with_terminating))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, PodQuery)
            and self._hash == other._hash
            and self.with_terminating == other.with_terminating
            and self.conditions == other.conditions
        )

    def matches(self, namespace: str, labels: Mapping[str, str], is_terminating: bool) -> bool:
        if is_terminating and not self.with_terminating:
            return False
        return all(
            (namespaces is None or namespace in namespaces) and selector.matches(labels)
            for namespaces, selector in self.conditions
        )

    def matches_pod(self, pod: Pod) -> bool:
        metadata = pod.metadata
        return self.matches(metadata.namespace, metadata.labels, is_terminating(pod))


class TermKind(enum.Enum):
    """The lists of terms that a pod may carry."""

    REQUIRED_AFFINITY = enum.auto()
    REQUIRED_ANTI_AFFINITY = enum.auto()
    PREFERRED_AFFINITY = enum.auto()
    PREFERRED_ANTI_AFFINITY = enum.auto()


class TermCounts(RowCounts):
    """How many pods on each row carry one affinity term."""

    __slots__ = ("kind", "shape_count", "term", "weight")

    def __init__(self, capacity: int, kind: TermKind, term: AffinityTerm, weight: int) -> None:
        super().__init__(capacity)
        self.kind = kind
        self.term = term
        self.weight = weight  # 0 for a required term
        self.shape_count = 0


_TermKey = tuple[TermKind, AffinityTerm, int]
TermsByKind = Mapping[TermKind, Sequence[TermCounts]]

_NO_TERMS: TermsByKind = dict.fromkeys(TermKind, ())


class _Shape:
    """Pods that no selector and no term can tell apart, by row."""

    __slots__ = (
        "counters",
        "is_terminating",
        "key",
        "labels",
        "namespace",
        "pod_count",
        "rows",
        "terms",
    )

    def __init__(self, key: Hashable, pod: Pod) -> None:
        self.key = key
        self.namespace = pod.metadata.namespace
        self.labels = pod.metadata.labels
        self.is_terminating = is_terminating(pod)
        self.rows: dict[int, int] = {}  # row -> pods of this shape, without zeros
        self.pod_count = 0
        self.terms: tuple[TermCounts, ...] = ()
        self.counters: list[RowCounts] = []  # all that a pod of this shape counts in

    def add(self, row: int) -> None:
        self.rows[row] = self.rows.get(row, 0) + 1
        self.pod_count += 1
        for counter in self.counters:
            counter.add(row, 1)

    def remove(self, row: int) -> None:
        left = self.rows[row] - 1
        if left:
            self.rows[row] = left
        else:
            del self.rows[row]
        self.pod_count -= 1
        for counter in self.counters:
            counter.add(row, -1)


class _Answer(RowCounts):
    """The pods that a query matches."""

    __slots__ = ("query", "shapes")

    def __init__(self, capacity: int, query: PodQuery) -> None:
        super().__init__(capacity)
        self.query = query
        self.shapes: list[_Shape] = []

    def offer(self, shape: _Shape) -> None:
        """Count the shape's pods from now on, if the query matches it."""
        if self.query.matches(shape.namespace, shape.labels, shape.is_terminating):
            self.shapes.append(shape)
            shape.counters.append(self)
            if number := len(shape.rows):
                rows = np.fromiter(shape.rows.keys(), dtype=np.intp, count=number)
                counts = np.fromiter(shape.rows.values(), dtype=np.int64, count=number)
                self.add_rows(rows, counts)


class _Subject:
    """The terms that are about pods of some namespace and labels, as far as looked at."""

    __slots__ = ("by_kind", "generation", "position")

    def __init__(self) -> None:
        self.generation = -1
        self.position = 0
        self.by_kind: dict[TermKind, list[TermCounts]] = {}


class PodIndex:
    """Kept in step with the node table by the cache: one call per pod that comes or goes."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._capacity = table.capacity
        self._shape_of: dict[PodInfo, _Shape] = {}
        self._shapes: dict[Hashable, _Shape] = {}
        self._shapes_in: dict[str, dict[Hashable, _Shape]] = {}  # by namespace
        self._empty_shapes = 0
        self._answers: OrderedDict[PodQuery, _Answer] = OrderedDict()
        # By namespace that the query is about; None: those about every namespace.
        self._answers_about: dict[str | None, dict[PodQuery, _Answer]] = {None: {}}
        self._terms: dict[_TermKey, TermCounts] = {}
        self._term_list: list[TermCounts] = []  # in the order they came, for catching up
        self._term_generation = 0  # grows when terms leave the list
        self._subjects: OrderedDict[Hashable, _Subject] = OrderedDict()
        self._domains: OrderedDict[Hashable, Domains] = OrderedDict()

    # -- for the cache -----------------------------------------------------------------

    def add(self, row: int, pod_info: PodInfo) -> None:
        """A pod is on the node in this row."""
        self._fit()
        shape = self._shape_of[pod_info] = self._intern(pod_info)
        if not shape.pod_count:
            self._empty_shapes -= 1
        shape.add(row)

    def remove(self, row: int, pod_info: PodInfo) -> None:
        """A pod (the very PodInfo that was added) left the node in this row."""
        self._fit()
        shape = self._shape_of.pop(pod_info)
        shape.remove(row)
        if not shape.pod_count:
            self._empty_shapes += 1
            if self._empty_shapes > max(_EMPTY_SHAPES_KEPT, len(self._shapes) // 2):
                self._drop_empty_shapes()

    # -- for plugins -------------------------------------------------------------------

    def count(self, query: PodQuery) -> RowCounts:
        """How many pods match, per row; kept up to date from the first call on."""
        self._fit()
        answer = self._answers.get(query)
        if answer is not None:
            self._answers.move_to_end(query)
            return answer
        answer = self._answers[query] = _Answer(self._capacity, query)
        namespaces = query.namespaces
        for place in (None,) if namespaces is None else namespaces:
            self._answers_about.setdefault(place, {})[query] = answer
        for namespace in self._shapes_in if namespaces is None else namespaces:
            for shape in self._shapes_in.get(namespace, {}).values():
                answer.offer(shape)
        if len(self._answers) > max(_FEWEST_ANSWERS, _ANSWER_BYTES // answer.rows.nbytes):
            self._forget(next(iter(self._answers)))
        return answer

    def domains(
        self, key: str, rule: EligibilityRule | None = None, missing_as_empty: bool = False
    ) -> Domains:
        """The domains of a topology key among the rows that the rule lets count."""
        name = (key, rule, missing_as_empty)
        domains = self._domains.get(name)
        if domains is not None:
            self._domains.move_to_end(name)
            return domains
        eligibility = None if rule is None else rule.on(self)
        domains = self._domains[name] = Domains(self.table, key, eligibility, missing_as_empty)
        if len(self._domains) > _DOMAINS_KEPT:
            self._domains.popitem(last=False)
        return domains

    @property
    def has_terms(self) -> bool:
        """Whether any pod may carry an affinity term. Few clusters are without."""
        return bool(self._term_list)

    def terms_about(self, pod: Pod, namespace_labels: Mapping[str, str]) -> TermsByKind:
        """The terms carried by pods on the nodes that match this pod."""
        if not self._term_list:
            return _NO_TERMS
        self._fit()
        metadata = pod.metadata
        name = (
            metadata.namespace,
            frozenset(metadata.labels.items()),
            frozenset(namespace_labels.items()),
        )
        subject = self._subjects.get(name)
        if subject is None:
            subject = self._subjects[name] = _Subject()
            if len(self._subjects) > _SUBJECTS_KEPT:
                self._subjects.popitem(last=False)
        else:
            self._subjects.move_to_end(name)
        if subject.generation != self._term_generation:
            subject.generation = self._term_generation
            subject.position = 0
            subject.by_kind = {kind: [] for kind in TermKind}
        if subject.position < len(self._term_list):
            for counts in self._term_list[subject.position :]:
                if counts.term.matches(pod, namespace_labels):
                    subject.by_kind[counts.kind].append(counts)
            subject.position = len(self._term_list)
        return subject.by_kind

    # -- inside ------------------------------------------------------------------------

    def _fit(self) -> None:
        """Follow the table in size."""
        capacity = self.table.capacity
        if capacity != self._capacity:
            self._capacity = capacity
            for counter in (*self._answers.values(), *self._term_list):
                counter.grow(capacity)

    def _intern(self, pod_info: PodInfo) -> _Shape:
        metadata = pod_info.pod.metadata
        key: Hashable = (
            metadata.namespace,
            frozenset(metadata.labels.items()),
            is_terminating(pod_info.pod),
        )
        terms = _term_keys(pod_info)
        if terms:
            key = (key, terms)
        shape = self._shapes.get(key)
        return shape if shape is not None else self._new_shape(key, pod_info.pod, terms)

    def _new_shape(self, key: Hashable, pod: Pod, terms: tuple[_TermKey, ...]) -> _Shape:
        shape = self._shapes[key] = _Shape(key, pod)
        self._empty_shapes += 1
        self._shapes_in.setdefault(shape.namespace, {})[key] = shape
        shape.terms = tuple(map(self._term, terms))
        for counts in shape.terms:
            counts.shape_count += 1
            shape.counters.append(counts)
        for place in (None, shape.namespace):
            for answer in self._answers_about.get(place, {}).values():
                answer.offer(shape)
        return shape

    def _term(self, key: _TermKey) -> TermCounts:
        counts = self._terms.get(key)
        if counts is None:
            counts = self._terms[key] = TermCounts(self._capacity, *key)
            self._term_list.append(counts)
        return counts

    def _forget(self, query: PodQuery) -> None:
        answer = self._answers.pop(query)
        for shape in answer.shapes:
            shape.counters.remove(answer)
        for place in (None,) if query.namespaces is None else query.namespaces:
            about = self._answers_about[place]
            del about[query]
            if not about and place is not None:
                del self._answers_about[place]

    def _drop_empty_shapes(self) -> None:
        touched: dict[PodQuery, _Answer] = {}
        for shape in [shape for shape in self._shapes.values() if not shape.pod_count]:
            del self._shapes[shape.key]
            neighbours = self._shapes_in[shape.namespace]
            del neighbours[shape.key]
            if not neighbours:
                del self._shapes_in[shape.namespace]
            for counts in shape.terms:
                counts.shape_count -= 1
            for counter in shape.counters:
                if isinstance(counter, _Answer):
                    touched[counter.query] = counter
        for answer in touched.values():
            answer.shapes = [shape for shape in answer.shapes if shape.pod_count]
        self._empty_shapes = 0
        if not all(counts.shape_count for counts in self._term_list):
            self._terms = {key: held for key, held in self._terms.items() if held.shape_count}
            self._term_list = list(self._terms.values())
            self._term_generation += 1


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
