"""Mutants of queueing hints and of the events that plugins register."""

from __future__ import annotations

from typing import Any

from kubesched.api import Node, Pod
from kubesched.framework import QueueingHint
from tests.fault_injection.mutants.mutant import Mutant, Overlay, Patch, replace, skip, wrap

__all__ = ["MUTANTS"]

_PLUGINS = "kubesched.scheduler.plugins"
_REGISTRATIONS = "kubesched.scheduler.backend.queue.queueing_hints._registrations_of"
_AFFINITY = "kubesched.scheduler.plugins.inter_pod_affinity.hints.AffinityHints"
_SPREAD = "kubesched.scheduler.plugins.pod_topology_spread.hints.SpreadHints"


def _without_registrations(plugin: str, resource: str) -> Patch:
    """A plugin is not notified of changes of a kind of object."""

    def registrations(original: Any, owner: Any, **options: Any) -> Any:
        return [
            each
            for each in original(owner, **options)
            if each.plugin != plugin or each.event.resource.rpartition("/")[2] != resource
        ]

    return wrap(_REGISTRATIONS, registrations)


def _without_anti_affinity(terms: Any) -> Any:
    return terms._replace(apart=())


def _ignore_labels_that_end_a_conflict(
    original: Any, self: Any, pod: Pod, old: Any, new: Any
) -> Any:
    if old is None or new is None:
        return original(self, pod, old, new)
    hints = Overlay(self, _parsed=lambda each: _without_anti_affinity(self._parsed(each)))
    return original(hints, pod, old, new)


def _ignore_terms_of_deleted_pod(original: Any, self: Any, pod: Pod, old: Any, new: Any) -> Any:
    def parsed(each: Pod) -> Any:
        found = self._parsed(each)
        return found if each is pod else _without_anti_affinity(found)

    return original(Overlay(self, _parsed=parsed), pod, old, new)


def _skip_updates(original: Any, self: Any, pod: Pod, old: Any, new: Any) -> Any:
    if old is None or new is None:
        return original(self, pod, old, new)
    return QueueingHint.SKIP


def _skip_additions_and_deletions(original: Any, self: Any, pod: Pod, old: Any, new: Any) -> Any:
    if old is None or new is None:
        return QueueingHint.SKIP
    return original(self, pod, old, new)


def _skip_changes_of_values(
    original: Any, self: Any, pod: Pod, old: Node | None, new: Node | None
) -> Any:
    if old is None or new is None:
        return original(self, pod, old, new)
    keys = {each.topology_key for each in self._hard_constraints(pod)}
    has_old, has_new = (keys <= {*node.metadata.labels} for node in (old, new))
    return QueueingHint.SKIP if has_old == has_new else QueueingHint.QUEUE


# NodeUnschedulable needs no events of nodes: a controller adds a taint with every cordon.
_REGISTERED = {
    ("NodeAffinity", "Node"): 11,
    ("NodePorts", "Pod"): 5,
    ("NodeResourcesFit", "Node"): 5,
    ("NodeResourcesFit", "Pod"): 0,
    ("TaintToleration", "Pod"): 13,
    ("InterPodAffinity", "Pod"): 3,
    ("PodTopologySpread", "Pod"): 20,
    ("PodTopologySpread", "Node"): 21,
    ("SchedulingGates", "Pod"): 0,
    ("VolumeBinding", "PersistentVolume"): 6,
    ("VolumeRestrictions", "Pod"): 6,
    ("VolumeRestrictions", "PersistentVolumeClaim"): 44,
    ("DynamicResources", "ResourceClaim"): 51,
    ("DynamicResources", "Pod"): 50,
    ("DynamicResources", "ResourceSlice"): 200,
}

MUTANTS = {
    **{
        f"{plugin} is not notified of {kind}s": Mutant(
            seed, (_without_registrations(plugin, kind),)
        )
        for (plugin, kind), seed in _REGISTERED.items()
    },
    "NodeResourcesFit ignores capacity that pods release": Mutant(
        0, (replace(f"{_PLUGINS}.node_resources_fit.hints.after_pod_change", skip),)
    ),
    "TaintToleration ignores taints that are removed": Mutant(
        1, (replace(f"{_PLUGINS}.taint_toleration.TaintToleration._node_changed", skip),)
    ),
    "NodePorts ignores pods that are deleted": Mutant(
        5, (replace(f"{_PLUGINS}.node_ports.NodePorts._pod_deleted", skip),)
    ),
    "InterPodAffinity ignores labels that end a conflict": Mutant(
        7, (wrap(f"{_AFFINITY}.after_pod_change", _ignore_labels_that_end_a_conflict),)
    ),
    "InterPodAffinity ignores the anti-affinity of deleted pods": Mutant(
        20, (wrap(f"{_AFFINITY}.after_pod_change", _ignore_terms_of_deleted_pod),)
    ),
    "InterPodAffinity ignores changed labels of nodes": Mutant(
        10, (wrap(f"{_AFFINITY}.after_node_change", _skip_updates),)
    ),
    "PodTopologySpread ignores nodes that come and go": Mutant(
        248, (wrap(f"{_SPREAD}.after_node_change", _skip_additions_and_deletions),)
    ),
    "PodTopologySpread ignores nodes that change their domain": Mutant(
        21, (wrap(f"{_SPREAD}.after_node_change", _skip_changes_of_values),)
    ),
    "PodTopologySpread ignores changed labels of pods": Mutant(
        24, (wrap(f"{_SPREAD}.after_pod_change", _skip_updates),)
    ),
}
