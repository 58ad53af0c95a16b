"""Names of the in-tree plugins and of the extension points (docs/reference/01 §5).

A framework is built in the order of `EXTENSION_POINTS`; the order determines which of several
errors in a profile is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "ALL",
    "BIND",
    "DEFAULT_BINDER",
    "DEFAULT_PREEMPTION",
    "DEFAULT_SCHEDULER_NAME",
    "DYNAMIC_RESOURCES",
    "EXTENSION_POINTS",
    "FILTER",
    "GANG_SCHEDULING",
    "IMAGE_LOCALITY",
    "INTER_POD_AFFINITY",
    "IN_TREE_EXTENSION_POINTS",
    "MULTI_POINT",
    "NODE_AFFINITY",
    "NODE_DECLARED_FEATURES",
    "NODE_NAME",
    "NODE_PORTS",
    "NODE_RESOURCES_BALANCED_ALLOCATION",
    "NODE_RESOURCES_FIT",
    "NODE_UNSCHEDULABLE",
    "NODE_VOLUME_LIMITS",
    "PERMIT",
    "PLACEMENT_GENERATE",
    "PLACEMENT_SCORE",
    "POD_GROUP_PODS_COUNT",
    "POD_TOPOLOGY_SPREAD",
    "POST_BIND",
    "POST_FILTER",
    "PRE_BIND",
    "PRE_ENQUEUE",
    "PRE_FILTER",
    "PRE_SCORE",
    "PRIORITY_SORT",
    "QUEUE_SORT",
    "REMOVED_PLUGINS",
    "RESERVE",
    "SCHEDULING_GATES",
    "SCORE",
    "TAINT_TOLERATION",
    "TOPOLOGY_PLACEMENT_GENERATOR",
    "VOLUME_BINDING",
    "VOLUME_RESTRICTIONS",
    "VOLUME_ZONE",
]

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"

# In a `disabled` list: every plugin.
ALL: Final = "*"

DEFAULT_BINDER: Final = "DefaultBinder"
DEFAULT_PREEMPTION: Final = "DefaultPreemption"
DYNAMIC_RESOURCES: Final = "DynamicResources"
GANG_SCHEDULING: Final = "GangScheduling"
IMAGE_LOCALITY: Final = "ImageLocality"
INTER_POD_AFFINITY: Final = "InterPodAffinity"
NODE_AFFINITY: Final = "NodeAffinity"
NODE_DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
NODE_NAME: Final = "NodeName"
NODE_PORTS: Final = "NodePorts"
NODE_RESOURCES_BALANCED_ALLOCATION: Final = "NodeResourcesBalancedAllocation"
NODE_RESOURCES_FIT: Final = "NodeResourcesFit"
NODE_UNSCHEDULABLE: Final = "NodeUnschedulable"
NODE_VOLUME_LIMITS: Final = "NodeVolumeLimits"
POD_GROUP_PODS_COUNT: Final = "PodGroupPodsCount"
POD_TOPOLOGY_SPREAD: Final = "PodTopologySpread"
PRIORITY_SORT: Final = "PrioritySort"
SCHEDULING_GATES: Final = "SchedulingGates"
TAINT_TOLERATION: Final = "TaintToleration"
TOPOLOGY_PLACEMENT_GENERATOR: Final = "TopologyPlacementGenerator"
VOLUME_BINDING: Final = "VolumeBinding"
VOLUME_RESTRICTIONS: Final = "VolumeRestrictions"
VOLUME_ZONE: Final = "VolumeZone"

# Plugins of earlier releases; naming one is an error with a text of its own.
REMOVED_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})

PRE_ENQUEUE: Final = "preEnqueue"
QUEUE_SORT: Final = "queueSort"
PRE_FILTER: Final = "preFilter"
FILTER: Final = "filter"
POST_FILTER: Final = "postFilter"
PRE_SCORE: Final = "preScore"
SCORE: Final = "score"
RESERVE: Final = "reserve"
PERMIT: Final = "permit"
PRE_BIND: Final = "preBind"
BIND: Final = "bind"
POST_BIND: Final = "postBind"
PLACEMENT_GENERATE: Final = "placementGenerate"
PLACEMENT_SCORE: Final = "placementScore"

# Not a point of its own: its plugins are added at every point that they implement.
MULTI_POINT: Final = "multiPoint"

EXTENSION_POINTS: Final = (
    PRE_FILTER,
    FILTER,
    POST_FILTER,
    RESERVE,
    PRE_SCORE,
    SCORE,
    PRE_BIND,
    BIND,
    POST_BIND,
    PERMIT,
    PRE_ENQUEUE,
    QUEUE_SORT,
    PLACEMENT_GENERATE,
    PLACEMENT_SCORE,
)

IN_TREE_EXTENSION_POINTS: Final[Mapping[str, frozenset[str]]] = {
    SCHEDULING_GATES: frozenset({PRE_ENQUEUE}),
    PRIORITY_SORT: frozenset({QUEUE_SORT}),
    NODE_UNSCHEDULABLE: frozenset({FILTER}),
    NODE_NAME: frozenset({FILTER}),
    TAINT_TOLERATION: frozenset({FILTER, PRE_SCORE, SCORE}),
    NODE_AFFINITY: frozenset({PRE_FILTER, FILTER, PRE_SCORE, SCORE}),
    NODE_PORTS: frozenset({PRE_FILTER, FILTER}),
    NODE_RESOURCES_FIT: frozenset({PRE_FILTER, FILTER, PRE_SCORE, SCORE, PLACEMENT_SCORE}),
    VOLUME_RESTRICTIONS: frozenset({PRE_FILTER, FILTER}),
    NODE_VOLUME_LIMITS: frozenset({PRE_FILTER, FILTER}),
    VOLUME_BINDING: frozenset({PRE_FILTER, FILTER, PRE_SCORE, SCORE, RESERVE, PRE_BIND}),
    VOLUME_ZONE: frozenset({PRE_FILTER, FILTER}),
    POD_TOPOLOGY_SPREAD: frozenset({PRE_FILTER, FILTER, PRE_SCORE, SCORE}),
    INTER_POD_AFFINITY: frozenset({PRE_FILTER, FILTER, PRE_SCORE, SCORE}),
    DYNAMIC_RESOURCES: frozenset(
        {PRE_ENQUEUE, PRE_FILTER, FILTER, POST_FILTER, SCORE, RESERVE, PRE_BIND}
    ),
    DEFAULT_PREEMPTION: frozenset({PRE_ENQUEUE, POST_FILTER}),
    NODE_RESOURCES_BALANCED_ALLOCATION: frozenset({PRE_SCORE, SCORE}),
    IMAGE_LOCALITY: frozenset({SCORE}),
    DEFAULT_BINDER: frozenset({BIND}),
    NODE_DECLARED_FEATURES: frozenset({PRE_FILTER, FILTER}),
    GANG_SCHEDULING: frozenset({PRE_ENQUEUE, PERMIT}),
    TOPOLOGY_PLACEMENT_GENERATOR: frozenset({PLACEMENT_GENERATE}),
    POD_GROUP_PODS_COUNT: frozenset({PLACEMENT_SCORE}),
}
