"""Queueing hints of PodTopologySpread (docs/reference/06 §1.9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kubesched.api import Node, Pod
from kubesched.framework import QueueingHint
from kubesched.framework.pod_limits import spread_excess
from kubesched.scheduler.plugins.helpers.hints import expect_or_none, is_placed, queue_if, same_pod
from kubesched.scheduler.plugins.pod_topology_spread.spread_constraints import SpreadConstraint

__all__ = ["SpreadHints"]


class SpreadHints:
    """Decides by the hard constraints of a pending pod whether an event may help it."""

    def __init__(self, hard_constraints: Callable[[Pod], Sequence[SpreadConstraint]]) -> None:
        self._hard_constraints = hard_constraints

    def after_pod_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        before, after = expect_or_none(Pod, old), expect_or_none(Pod, new)
        if not all(_may_matter(pod, each) for each in (after, before) if each is not None):
            return QueueingHint.SKIP
        if spread_excess(pod):
            return QueueingHint.SKIP  # PreFilter rejects the pod for every node
        constraints = self._hard_constraints(pod)
        if before is None or after is None:
            changed = before or after
            assert changed is not None
            labels = changed.metadata.labels
            return queue_if(any(each.selector.matches(labels) for each in constraints))
        return queue_if(
            _tolerates_differently(pod, before, after, constraints)
            or _counts_differently(before, after, constraints)
        )

    def after_node_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        before, after = expect_or_none(Node, old), expect_or_none(Node, new)
        if spread_excess(pod):
            return QueueingHint.SKIP
        keys = [each.topology_key for each in self._hard_constraints(pod)]
        matched, matches = _has_all(before, keys), _has_all(after, keys)
        if before is None or after is None:
            return queue_if(matched or matches)
        if matched != matches:
            return QueueingHint.QUEUE
        labels_before, labels = before.metadata.labels, after.metadata.labels
        return queue_if(
            matches
            and (
                any(labels_before.get(key) != labels.get(key) for key in keys)
                or before.spec.taints != after.spec.taints
            )
        )


def _may_matter(pod: Pod, other: Pod) -> bool:
    """Whether `other` is the pending pod itself, or can count in its constraints."""
    return same_pod(pod, other) or (
        is_placed(other) and other.metadata.namespace == pod.metadata.namespace
    )


def _tolerates_differently(
    pod: Pod, before: Pod, after: Pod, constraints: Sequence[SpreadConstraint]
) -> bool:
    """Whether the pending pod's own tolerations changed, and a constraint reads them."""
    return (
        same_pod(pod, after)
        and before.spec.tolerations != after.spec.tolerations
        and any(each.honors_taints for each in constraints)
    )


def _counts_differently(before: Pod, after: Pod, constraints: Sequence[SpreadConstraint]) -> bool:
    """Whether new labels changed which constraints count the pod."""
    old_labels, new_labels = before.metadata.labels, after.metadata.labels
    return old_labels != new_labels and any(
        each.selector.matches(old_labels) != each.selector.matches(new_labels)
        for each in constraints
    )


def _has_all(node: Node | None, keys: Sequence[str]) -> bool:
    return node is not None and all(key in node.metadata.labels for key in keys)
