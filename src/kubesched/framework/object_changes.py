"""Cluster events of an update of a pod or a node (docs/reference/03 §8.2, §8.3).

One update may be several events, one for each kind of change, so that the queue calls the hints
of only those plugins that registered for that kind. Their order is fixed.
"""

from __future__ import annotations

from functools import lru_cache

from kubesched.api import Node, Pod, ResourceList
from kubesched.api.pod import PodStatus
from kubesched.api.pod_requests import NODE_REQUESTS, pod_requests
from kubesched.api.quantity import quantity_from_json
from kubesched.framework.cluster_events import ActionType, ClusterEvent, EventResource

__all__ = ["node_update_events", "pod_update_events"]


def pod_update_events(old: Pod, new: Pod) -> list[ClusterEvent]:
    """Return the events of a pod's update: at least one, the general update if no other applies."""
    resource = EventResource.ASSIGNED_POD if new.spec.node_name else EventResource.UNSCHEDULABLE_POD
    actions = []
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    if _is_scaled_down(old, new):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # As in the reference, replacing tolerations without changing their number makes no event.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if _claim_statuses(old) != _claim_statuses(new):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return [_event(resource, action) for action in actions or (ActionType.UPDATE,)]


def node_update_events(
    old: Node, new: Node, *, declared_features: bool = True
) -> list[ClusterEvent]:
    """Return the events of a node's update; empty if no relevant field changed.

    `declared_features` is the feature gate NodeDeclaredFeatures.
    """
    actions = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    # A node that becomes schedulable and loses a taint makes two events, as in the reference.
    if old.spec.taints != new.spec.taints:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _condition_statuses(old) != _condition_statuses(new):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if declared_features and old.status.declared_features != new.status.declared_features:
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return [_event(EventResource.NODE, action) for action in actions]


_event = lru_cache(maxsize=64)(ClusterEvent)  # of which there are few


def _is_scaled_down(old: Pod, new: Pod) -> bool:
    """Whether the pod requests less of any resource, allocated resources included."""
    if old.spec is new.spec and not _gives_amounts(old.status) and not _gives_amounts(new.status):
        return False  # as when a pod starts, or ends
    if _request_inputs(old) == _request_inputs(new):
        return False
    after = pod_requests(new, NODE_REQUESTS)
    return any(
        name not in after or amount.milli_value > after[name].milli_value
        for name, amount in pod_requests(old, NODE_REQUESTS).items()
    )


def _gives_amounts(status: PodStatus) -> bool:
    """Whether the status contains amounts that requests are computed from."""
    if status.resources is not None or status.node_allocatable_resource_claim_statuses:
        return True
    for each in (*status.container_statuses, *status.init_container_statuses):
        if each.resources is not None:  # a generator takes twice as long
            return True
    return False


def _request_inputs(pod: Pod) -> tuple[object, ...]:
    """Return everything that requests are computed from: comparing it is cheaper."""
    spec, status = pod.spec, pod.status
    return (
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
        status.conditions,
    )


def _claim_statuses(pod: Pod) -> tuple[object, ...]:
    status = pod.status
    return status.resource_claim_statuses, status.extended_resource_claim_status


def _condition_statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _same_amounts(old: ResourceList, new: ResourceList) -> bool:
    if old == new:
        return True
    return old.keys() == new.keys() and all(
        quantity_from_json(amount) == quantity_from_json(new[name]) for name, amount in old.items()
    )
