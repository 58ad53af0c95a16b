"""The feature gates that affect device allocation (docs/reference/08 §1)."""

from __future__ import annotations

import msgspec

from kubesched.framework import Handle
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled

__all__ = ["DeviceFeatures"]


class DeviceFeatures(msgspec.Struct, frozen=True):
    """The state of each feature gate; the defaults are the reference's."""

    admin_access: bool = True
    prioritized_list: bool = True
    consumable_capacity: bool = True
    binding_conditions: bool = True
    device_taints: bool = True
    device_taint_rules: bool = False
    extended_resource: bool = True
    partitionable_devices: bool = True
    filter_timeout: bool = True
    list_attributes: bool = False
    node_allocatable: bool = False
    group_claims: bool = False

    @classmethod
    def of(cls, handle: Handle | None) -> DeviceFeatures:
        def is_on(gate: str) -> bool:
            return feature_enabled(handle, gate)

        return cls(
            admin_access=is_on("DRAAdminAccess"),
            prioritized_list=is_on("DRAPrioritizedList"),
            consumable_capacity=is_on("DRAConsumableCapacity"),
            # Conditions are part of the device status, so both gates are required.
            binding_conditions=is_on("DRADeviceBindingConditions")
            and is_on("DRAResourceClaimDeviceStatus"),
            device_taints=is_on("DRADeviceTaints"),
            device_taint_rules=is_on("DRADeviceTaintRules") and is_on("DRADeviceTaints"),
            extended_resource=is_on("DRAExtendedResource"),
            partitionable_devices=is_on("DRAPartitionableDevices"),
            filter_timeout=is_on("DRASchedulerFilterTimeout"),
            list_attributes=is_on("DRAListTypeAttributes"),
            node_allocatable=is_on("DRANodeAllocatableResources"),
            group_claims=is_on("DRAWorkloadResourceClaims"),
        )

    @property
    def has_distinct_constraints(self) -> bool:
        """Without either feature, the reference uses an allocator that ignores them."""
        return self.consumable_capacity or self.binding_conditions
