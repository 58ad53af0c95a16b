"""The scheduler's feature gates in earlier releases, for `--emulated-version`.

Gates of other components have no effect here and keep the state of this release.
"""

from __future__ import annotations

from typing import Final

__all__ = ["HISTORY"]

_OFF: Final = False
_ON: Final = True
_LOCKED: Final = True

# Gate -> (since 1.x, stage, default, locked), the oldest first, for releases before 1.36.
# Before its first entry a gate did not exist.
HISTORY: Final[dict[str, tuple[tuple[int, str, bool, bool], ...]]] = {
    "ComponentFlagz": ((32, "ALPHA", _OFF, False),),
    "ComponentStatusz": ((32, "ALPHA", _OFF, False),),
    "DRAAdminAccess": ((32, "ALPHA", _OFF, False), (34, "BETA", _ON, False)),
    "DRAConsumableCapacity": ((34, "ALPHA", _OFF, False),),
    "DRADeviceBindingConditions": ((34, "ALPHA", _OFF, False),),
    "DRADeviceTaintRules": ((35, "ALPHA", _OFF, False),),
    "DRADeviceTaints": ((33, "ALPHA", _OFF, False),),
    "DRAExtendedResource": ((34, "ALPHA", _OFF, False),),
    "DRAListTypeAttributes": (),
    "DRANodeAllocatableResources": (),
    "DRAPartitionableDevices": ((33, "ALPHA", _OFF, False),),
    "DRAPrioritizedList": ((33, "ALPHA", _OFF, False), (34, "BETA", _ON, False)),
    "DRASchedulerFilterTimeout": ((34, "BETA", _ON, False),),
    "DRAWorkloadResourceClaims": (),
    "DynamicResourceAllocation": (
        (32, "BETA", _OFF, False),
        (34, "GA", _ON, False),
        (35, "GA", _ON, _LOCKED),
    ),
    "GangScheduling": ((35, "ALPHA", _OFF, False),),
    "GenericWorkload": ((35, "ALPHA", _OFF, False),),
    "InPlacePodLevelResourcesVerticalScaling": ((35, "ALPHA", _OFF, False),),
    "InPlacePodVerticalScaling": ((33, "BETA", _ON, False), (35, "GA", _ON, _LOCKED)),
    "NodeDeclaredFeatures": ((35, "ALPHA", _OFF, False),),
    "NominatedNodeNameForExpectation": ((34, "ALPHA", _OFF, False), (35, "BETA", _ON, False)),
    "OpportunisticBatching": ((35, "BETA", _ON, False),),
    "PodLevelResources": ((32, "ALPHA", _OFF, False), (34, "BETA", _ON, False)),
    "SchedulerAsyncAPICalls": ((34, "BETA", _OFF, False),),
    "SchedulerQueueingHints": ((32, "BETA", _ON, False), (34, "GA", _ON, _LOCKED)),
    "TaintTolerationComparisonOperators": ((35, "ALPHA", _OFF, False),),
    "TopologyAwareWorkloadScheduling": (),
    "VolumeAttributesClass": ((31, "BETA", _OFF, False), (34, "GA", _ON, False)),
    "VolumeLimitScaling": ((35, "ALPHA", _OFF, False),),
    "WatchListClient": ((30, "BETA", _OFF, False), (35, "BETA", _ON, False)),
    "WorkloadAwarePreemption": (),
    "WorkloadWithJob": (),
}
