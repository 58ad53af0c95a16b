"""Which changes could let a pod that InterPodAffinity rejected fit (spec 06 §2.8).

Terms are taken as written here: a namespace selector is held against no labels at all, so
it reaches other namespaces only if it is satisfied by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api import Node, Pod
from kubesched.framework import AffinityTerm, PodInfo, QueueingHint
from kubesched.plugins.helpers.hints import expect_or_none, is_placed, queue_if, same_pod
from kubesched.util.errors import SelectorError

__all__ = ["after_node_change", "after_pod_change"]

_NO_LABELS: Mapping[str, str] = {}


def after_pod_change(pod: Pod, old: Any, new: Any) -> QueueingHint:
    before, after = expect_or_none(Pod, old), expect_or_none(Pod, new)
    if before is not None and after is not None and same_pod(after, pod):
        return QueueingHint.QUEUE
    if not all(is_placed(involved) for involved in (before, after) if involved is not None):
        return QueueingHint.SKIP
    pending = _parsed(pod)
    near, apart = pending.required_affinity_terms, pending.required_anti_affinity_terms
    if after is None:
        assert before is not None
        return queue_if(
            _matches_all(apart, before)
            or _matches_all(_parsed(before).required_anti_affinity_terms, pod)
        )
    if before is None:
        return queue_if(_matches_all(near, after))
    return queue_if(
        (_matches_all(near, after) and not _matches_all(near, before))
        or (_matches_all(apart, before) and not _matches_all(apart, after))
    )


def after_node_change(pod: Pod, old: Any, new: Any) -> QueueingHint:
    before, after = expect_or_none(Node, old), expect_or_none(Node, new)
    pending = _parsed(pod)
    near = [term.topology_key for term in pending.required_affinity_terms]
    apart = [term.topology_key for term in pending.required_anti_affinity_terms]
    assert after is not None
    labels = after.metadata.labels
    if before is None:
        return queue_if(bool(apart) or any(key in labels for key in near))
    labels_before = before.metadata.labels
    return queue_if(
        # Coming into a domain may help affinity, leaving one may help anti-affinity.
        any(key in labels and labels_before.get(key) != labels[key] for key in near)
        or any(key in labels_before and labels.get(key) != labels_before[key] for key in apart)
    )


def _parsed(pod: Pod) -> PodInfo:
    """The pod's terms; a pod whose terms are broken is worth another try."""
    parsed = PodInfo(pod)
    if parsed.affinity_errors:
        raise SelectorError(", ".join(parsed.affinity_errors))
    return parsed


def _matches_all(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    return bool(terms) and all(term.matches(pod, _NO_LABELS) for term in terms)
