"""What a plugin's Filter and Score read, declared as data.

The answer cache is built on these declarations: it reuses an answer for as long as nothing that
the plugin reads has changed. The defaults say "everything", which is always right. `check_plugin`
changes whatever is not declared and compares answers, so a declaration that promises too much
is found.
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
    # Whatever else the spec has.
    OTHER_SPEC = enum.auto()
    NAMESPACE = enum.auto()
    LABELS = enum.auto()
    ANNOTATIONS = enum.auto()
    OWNERS = enum.auto()
    # What no two pods share: name, uid, times, status.
    IDENTITY = enum.auto()

    # All that the pods of one template have in common.
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

# The fields of a pod that make up a part.
#
# Besides these, CONTAINERS has the images among the volumes, and of `spec.affinity` NODE_SELECTION
# has `node_affinity` and POD_AFFINITY the rest. IDENTITY is what is left.
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
    """How much of the pods that run on a node is read; each includes those before."""

    # The node alone decides.
    NOTHING = 0
    # What they request in sum and how many they are; a filter reads these through columns.
    TOTALS = 1
    # Their specs, which stay as they are while they run.
    SPECS = 2
    # Anything: labels, annotations, status.
    DETAIL = 3


class Reads(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin's answers about a node depend on, besides the node and its arguments.

    What PreFilter and PreScore note counts as read by the plugin. One that also looks at the
    clock, at chance or at anything outside the cluster leaves `reads` as it is.
    """

    pod: PodPart = PodPart.ALL
    pods_on_node: PodsOnNode = PodsOnNode.DETAIL
    # Other nodes, or the pods on them.
    other_nodes: bool = True
    # Kinds of objects besides nodes and pods, got from `handle.lister`; None: any kind.
    objects: tuple[type[Any], ...] | None = None

    @property
    def is_cacheable(self) -> bool:
        """Whether an answer about a node may serve another pod."""
        return not self.other_nodes and PodPart.IDENTITY not in self.pod
