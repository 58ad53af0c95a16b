"""The in-tree plugins, by the name that scheduler configurations use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubesched.framework import Plugin
from kubesched.scheduler.plugins.default_binder import DefaultBinder
from kubesched.scheduler.plugins.default_preemption import DefaultPreemption
from kubesched.scheduler.plugins.dynamic_resources import DynamicResources
from kubesched.scheduler.plugins.gang_scheduling import GangScheduling
from kubesched.scheduler.plugins.image_locality import ImageLocality
from kubesched.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from kubesched.scheduler.plugins.node_affinity import NodeAffinity
from kubesched.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from kubesched.scheduler.plugins.node_name import NodeName
from kubesched.scheduler.plugins.node_ports import NodePorts
from kubesched.scheduler.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from kubesched.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kubesched.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kubesched.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from kubesched.scheduler.plugins.pod_group_pods_count import PodGroupPodsCount
from kubesched.scheduler.plugins.pod_topology_spread import PodTopologySpread
from kubesched.scheduler.plugins.priority_sort import PrioritySort
from kubesched.scheduler.plugins.scheduling_gates import SchedulingGates
from kubesched.scheduler.plugins.taint_toleration import TaintToleration
from kubesched.scheduler.plugins.topology_placement_generator import (
    TopologyPlacementGenerator,
)
from kubesched.scheduler.plugins.volume_binding import VolumeBinding
from kubesched.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kubesched.scheduler.plugins.volume_zone import VolumeZone

__all__ = ["IN_TREE_PLUGINS"]

IN_TREE_PLUGINS: Final[Mapping[str, type[Plugin]]] = {
    DefaultBinder.name: DefaultBinder,
    DefaultPreemption.name: DefaultPreemption,
    DynamicResources.name: DynamicResources,
    GangScheduling.name: GangScheduling,
    ImageLocality.name: ImageLocality,
    InterPodAffinity.name: InterPodAffinity,
    NodeAffinity.name: NodeAffinity,
    NodeDeclaredFeatures.name: NodeDeclaredFeatures,
    NodeName.name: NodeName,
    NodePorts.name: NodePorts,
    NodeResourcesBalancedAllocation.name: NodeResourcesBalancedAllocation,
    NodeResourcesFit.name: NodeResourcesFit,
    NodeUnschedulable.name: NodeUnschedulable,
    NodeVolumeLimits.name: NodeVolumeLimits,
    PodGroupPodsCount.name: PodGroupPodsCount,
    PodTopologySpread.name: PodTopologySpread,
    PrioritySort.name: PrioritySort,
    SchedulingGates.name: SchedulingGates,
    TaintToleration.name: TaintToleration,
    TopologyPlacementGenerator.name: TopologyPlacementGenerator,
    VolumeBinding.name: VolumeBinding,
    VolumeRestrictions.name: VolumeRestrictions,
    VolumeZone.name: VolumeZone,
}
