"""Features of the server that are disabled by default in an embedded cluster.

Their names are those of the reference's feature gates.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ALL_FEATURES",
    "DISRUPTION",
    "GROUP_CLAIMS",
    "JOB_GROUPS",
    "POD_GROUPS",
    "TOPOLOGY",
]

POD_GROUPS: Final = "GenericWorkload"
TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
DISRUPTION: Final = "WorkloadAwarePreemption"
GROUP_CLAIMS: Final = "DRAWorkloadResourceClaims"
# Of the controllers, not of the server: Jobs create pod groups.
JOB_GROUPS: Final = "WorkloadWithJob"
ALL_FEATURES: Final = frozenset({POD_GROUPS, TOPOLOGY, DISRUPTION, GROUP_CLAIMS})
