"""Features of the server that are disabled by default in an embedded cluster.

Their names are those of the reference's feature gates.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ALL_FEATURES",
    "COMPARISONS",
    "DISRUPTION",
    "GROUP_CLAIMS",
    "JOB_GROUPS",
    "POD_GROUPS",
    "SWITCHED_FEATURES",
    "TOPOLOGY",
]

POD_GROUPS: Final = "GenericWorkload"
TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
DISRUPTION: Final = "WorkloadAwarePreemption"
GROUP_CLAIMS: Final = "DRAWorkloadResourceClaims"
# Of the controllers, not of the server: Jobs create pod groups.
JOB_GROUPS: Final = "WorkloadWithJob"
# Of pods: the operators Lt and Gt of tolerations.
COMPARISONS: Final = "TaintTolerationComparisonOperators"
ALL_FEATURES: Final = frozenset({POD_GROUPS, TOPOLOGY, DISRUPTION, GROUP_CLAIMS})
# The features that the gates of an embedded cluster turn on.
SWITCHED_FEATURES: Final = ALL_FEATURES | {JOB_GROUPS, COMPARISONS}
