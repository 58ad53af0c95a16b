"""Queueing hints of InterPodAffinity (docs/reference/06 §2.8).

The reference matches namespace selectors against an empty set of labels, so that most select
nothing. A pending pod then waits for the next flush of the queue although it fits. Here a namespace
selector may select any namespace: at worst the pod is tried once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kubesched.api import Affinity, Node, Pod
from kubesched.api.labels import NOTHING
from kubesched.api.sized_caches import CachePerObject
from kubesched.errors import SelectorError
from kubesched.framework import AffinityTerm, PodInfo, QueueingHint
from kubesched.framework.pod_limits import affinity_excess
from kubesched.scheduler.plugins.helpers.hints import expect_or_none, is_placed, queue_if, same_pod

__all__ = ["AffinityHints"]


class _Terms(NamedTuple):
    """The required terms of a pod."""

    near: tuple[AffinityTerm, ...]
    apart: tuple[AffinityTerm, ...]


_NO_TERMS = _Terms((), ())
# The terms of a pod beyond the limits (framework/pod_limits.py). No event makes it schedulable.
_TOO_MANY_TERMS = _Terms((), ())


class AffinityHints:
    """Decides by the required terms of a pending pod whether an event may help it."""

    def __init__(self) -> None:
        # Each event is checked for every pending pod, so parsed terms are cached, by namespace.
        self._cache: CachePerObject[Affinity, dict[str, _Terms]] = CachePerObject()

    def after_pod_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        before, after = expect_or_none(Pod, old), expect_or_none(Pod, new)
        if before is not None and after is not None and same_pod(after, pod):
            return QueueingHint.QUEUE
        if not all(map(is_placed, filter(None, (before, after)))):
            return QueueingHint.SKIP
        pending = self._parsed(pod)
        if pending is _TOO_MANY_TERMS:
            return QueueingHint.SKIP
        near, apart = pending
        if after is None:
            assert before is not None
            return queue_if(
                _matches_all(apart, before) or _matches_all(self._parsed(before).apart, pod)
            )
        if before is None:
            return queue_if(_matches_all(near, after))
        return queue_if(
            (_matches_all(near, after) and not _matches_all(near, before))
            or (_matches_all(apart, before) and not _matches_all(apart, after))
        )

    def after_node_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        before, after = expect_or_none(Node, old), expect_or_none(Node, new)
        pending = self._parsed(pod)
        if pending is _TOO_MANY_TERMS:
            return QueueingHint.SKIP
        near = [term.topology_key for term in pending.near]
        apart = [term.topology_key for term in pending.apart]
        assert after is not None
        labels = after.metadata.labels
        if before is None:
            # A new node has no pods, so no anti-affinity of another pod holds there.
            return queue_if(bool(apart) or not near or any(key in labels for key in near))
        labels_before = before.metadata.labels
        return queue_if(
            # Entering a domain may satisfy affinity, leaving one may satisfy anti-affinity.
            any(key in labels and labels_before.get(key) != labels[key] for key in near)
            or any(key in labels_before and labels.get(key) != labels_before[key] for key in apart)
        )

    def _parsed(self, pod: Pod) -> _Terms:
        """Return the parsed terms.

        Raises:
            SelectorError: a term is invalid; the queue then requeues the pod.
        """
        affinity, namespace = pod.spec.affinity, pod.metadata.namespace
        if affinity is None:
            return _NO_TERMS
        known = self._cache.get(affinity) or {}
        parsed = known.get(namespace)
        if parsed is None:
            parsed = _parse(pod, affinity)
            self._cache.store(affinity, {**known, namespace: parsed})
        return parsed


def _parse(pod: Pod, affinity: Affinity) -> _Terms:
    if affinity_excess(affinity):
        return _TOO_MANY_TERMS
    info = PodInfo(pod)
    if info.affinity_errors:
        raise SelectorError(", ".join(info.affinity_errors))
    return _Terms(info.required_affinity_terms, info.required_anti_affinity_terms)


def _matches_all(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    return bool(terms) and all(_may_match(term, pod) for term in terms)


def _may_match(term: AffinityTerm, pod: Pod) -> bool:
    metadata = pod.metadata
    may_select = metadata.namespace in term.namespaces or term.namespace_selector != NOTHING
    return may_select and term.selector.matches(metadata.labels)
