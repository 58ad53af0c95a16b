"""Declares what a plugin's Filter and Score read.

The answer cache relies on these declarations: it reuses a result until something that the plugin
reads has changed. The defaults declare everything, which is always correct. `check_plugin` changes
what is not declared and compares results, so it finds declarations that miss something.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from kubesched.api import PodSpec

__all__ = ["POD_FIELDS", "PodPart", "PodsOnNode", "Reads"]


class PodPart(enum.Flag):
    """Parts of the pod that is to be placed."""

    NOTHING = 0
    # Containers (requests, images, ports), overhead, pod-level resources, image volumes.
    CONTAINERS = enum.auto()
    # Which of the host's namespaces the pod shares.
    HOST = enum.auto()
    # The node's name, the node selector, node affinity.
    NODE_SELECTION = enum.auto()
    TOLERATIONS = enum.auto()
    VOLUMES = enum.auto()
    RESOURCE_CLAIMS = enum.auto()
    # Affinity and anti-affinity to other pods.
    POD_AFFINITY = enum.auto()
    # Topology spread constraints.
    SPREADING = enum.auto()
    PRIORITY = enum.auto()
    # All other fields of the spec.
    OTHER_SPEC = enum.auto()
    NAMESPACE = enum.auto()
    LABELS = enum.auto()
    ANNOTATIONS = enum.auto()
    OWNERS = enum.auto()
    # Fields that differ between any two pods: name, uid, times, status.
    IDENTITY = enum.auto()

    # All fields that pods of one template have in common.
    TEMPLATE = (
        CONTAINERS
        | HOST
        | NODE_SELECTION
        | TOLERATIONS
        | VOLUMES
        | RESOURCE_CLAIMS
        | POD_AFFINITY
        | SPREADING
        | PRIORITY
        | OTHER_SPEC
        | NAMESPACE
        | LABELS
        | ANNOTATIONS
        | OWNERS
    )
    ALL = TEMPLATE | IDENTITY


_SPEC_FIELDS: Mapping[PodPart, tuple[str, ...]] = {
    PodPart.CONTAINERS: ("containers", "init_containers", "overhead", "resources"),
    PodPart.HOST: ("host_network", "host_pid", "host_ipc", "host_users"),
    PodPart.NODE_SELECTION: ("node_name", "node_selector"),
    PodPart.TOLERATIONS: ("tolerations",),
    PodPart.VOLUMES: ("volumes",),
    PodPart.RESOURCE_CLAIMS: ("resource_claims",),
    PodPart.POD_AFFINITY: (),
    PodPart.SPREADING: ("topology_spread_constraints",),
    PodPart.PRIORITY: ("priority", "priority_class_name", "preemption_policy"),
}
_NAMED = {name for names in _SPEC_FIELDS.values() for name in names} | {"affinity"}

# The fields of a pod that belong to a part. In addition, CONTAINERS has the images among the
# volumes; of `spec.affinity`, NODE_SELECTION has `node_affinity` and POD_AFFINITY the rest.
# IDENTITY has all remaining fields.
POD_FIELDS: Mapping[PodPart, tuple[str, ...]] = {
    **{part: tuple(f"spec.{name}" for name in names) for part, names in _SPEC_FIELDS.items()},
    PodPart.OTHER_SPEC: tuple(
        f"spec.{field}" for field in PodSpec.__struct_fields__ if field not in _NAMED
    ),
    PodPart.NAMESPACE: ("metadata.namespace",),
    PodPart.LABELS: ("metadata.labels",),
    PodPart.ANNOTATIONS: ("metadata.annotations",),
    PodPart.OWNERS: ("metadata.owner_references",),
}


class PodsOnNode(enum.IntEnum):
    """How much is read of the pods on a node; each value includes those before."""

    # Nothing: only the node.
    NOTHING = 0
    # Their total requests and their number; a filter reads these through columns.
    TOTALS = 1
    # Their specs, which do not change while they run.
    SPECS = 2
    # Anything: labels, annotations, status.
    DETAIL = 3


class Reads(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a plugin's results for a node, besides the node and the plugin's arguments.

    Everything that PreFilter and PreScore read counts as well. A plugin that reads the clock,
    random numbers or anything outside the cluster must use the default.
    """

    pod: PodPart = PodPart.ALL
    pods_on_node: PodsOnNode = PodsOnNode.DETAIL
    # Other nodes, or the pods on them.
    other_nodes: bool = True
    # Kinds of objects besides nodes and pods, got from `handle.lister`; None: any kind.
    objects: tuple[type[Any], ...] | None = None

    @property
    def is_cacheable(self) -> bool:
        """Whether a result for a node may be reused for another pod."""
        return not self.other_nodes and PodPart.IDENTITY not in self.pod
