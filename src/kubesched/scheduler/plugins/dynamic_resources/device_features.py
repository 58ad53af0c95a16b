"""The feature gates that change how devices are allocated (docs/reference/08 §1)."""

from __future__ import annotations

import msgspec

from kubesched.framework import Handle
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled

__all__ = ["DeviceFeatures"]


class DeviceFeatures(msgspec.Struct, frozen=True):
    """Which features are on; the defaults are those of the reference."""

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
            # Conditions are reported in the status of devices, so both gates are needed.
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
        """With neither feature on, the reference takes an allocator that does not know them."""
        return self.consumable_capacity or self.binding_conditions
