"""Every in-tree plugin, by the name that configurations use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubesched.framework import Plugin
from kubesched.plugins.default_binder import DefaultBinder
from kubesched.plugins.default_preemption import DefaultPreemption
from kubesched.plugins.dynamic_resources import DynamicResources
from kubesched.plugins.gang_scheduling import GangScheduling
from kubesched.plugins.image_locality import ImageLocality
from kubesched.plugins.inter_pod_affinity import InterPodAffinity
from kubesched.plugins.node_affinity import NodeAffinity
from kubesched.plugins.node_declared_features import NodeDeclaredFeatures
from kubesched.plugins.node_name import NodeName
from kubesched.plugins.node_ports import NodePorts
from kubesched.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from kubesched.plugins.node_resources_fit import NodeResourcesFit
from kubesched.plugins.node_unschedulable import NodeUnschedulable
from kubesched.plugins.node_volume_limits import NodeVolumeLimits
from kubesched.plugins.pod_topology_spread import PodTopologySpread
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.plugins.scheduling_gates import SchedulingGates
from kubesched.plugins.taint_toleration import TaintToleration
from kubesched.plugins.volume_binding import VolumeBinding
from kubesched.plugins.volume_restrictions import VolumeRestrictions
from kubesched.plugins.volume_zone import VolumeZone

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
    PodTopologySpread.name: PodTopologySpread,
    PrioritySort.name: PrioritySort,
    SchedulingGates.name: SchedulingGates,
    TaintToleration.name: TaintToleration,
    VolumeBinding.name: VolumeBinding,
    VolumeRestrictions.name: VolumeRestrictions,
    VolumeZone.name: VolumeZone,
}
