"""What the gates do that the scheduler reads; docs/reference/coverage.md shows it.

A gate that is in neither table is read by other components only.
"""

from __future__ import annotations

from typing import Final

__all__ = ["GATES_WITHOUT_EFFECT", "GATE_EFFECTS"]

# Gate -> the behaviour when it is enabled, and when it is disabled.
GATE_EFFECTS: Final[dict[str, tuple[str, str]]] = {
    "AllAlpha": ("alpha gates without a setting of their own are on", "they are off"),
    "AllBeta": ("beta gates without a setting of their own are on", "they are off"),
    "ComponentFlagz": ("`/flagz` is served", "404"),
    "ComponentStatusz": ("`/statusz` is served", "404"),
    "CoordinatedLeaderElection": (
        "the API server elects the leader among LeaseCandidates",
        "replicas compete for the lease",
    ),
    "DRAAdminAccess": ("requests with admin access", "such requests are an error"),
    "DRAConsumableCapacity": (
        "devices that several claims share, by capacity",
        "such devices are not allocated twice",
    ),
    "DRADeviceBindingConditions": (
        "PreBind waits for the conditions of devices",
        "conditions of devices are ignored",
    ),
    "DRADeviceTaintRules": ("DeviceTaintRules taint devices", "they are not watched"),
    "DRADeviceTaints": ("taints of devices and their tolerations", "taints are ignored"),
    "DRAExtendedResource": (
        "devices serve extended resources by their DeviceClass",
        "extended resources are those of nodes only",
    ),
    "DRAListTypeAttributes": ("attributes of devices may be lists", "a list is an error"),
    "DRANodeAllocatableResources": (
        "claims consume resources of the node",
        "they consume only devices",
    ),
    "DRAPartitionableDevices": ("shared counters of devices", "devices with counters are skipped"),
    "DRAPrioritizedList": ("`firstAvailable` requests", "such requests are an error"),
    "DRAResourceClaimDeviceStatus": (
        "binding conditions are read from the status of claims",
        "binding conditions are ignored",
    ),
    "DRASchedulerFilterTimeout": ("`filterTimeout` limits a search", "no limit"),
    "DRAWorkloadResourceClaims": ("claims are reserved for pod groups", "for pods only"),
    "DynamicResourceAllocation": (
        "the plugin DynamicResources is in the default profile",
        "it is not; v1.33 only",
    ),
    "GangScheduling": ("the plugin GangScheduling is in the default profile", "it is not"),
    "GenericWorkload": ("pods of a group are placed together", "groups are ignored"),
    "InPlacePodLevelResourcesVerticalScaling": (
        "pod-level amounts in the status count after a resize",
        "pod-level requests in the spec count",
    ),
    "LoggingAlphaOptions": ("alpha options of logging are accepted", "they are an error"),
    "LoggingBetaOptions": ("beta options of logging are accepted", "they are an error"),
    "MatchLabelKeysInPodTopologySpread": (
        "`matchLabelKeys` of spread constraints",
        "they are ignored",
    ),
    "NodeDeclaredFeatures": (
        "the plugin NodeDeclaredFeatures is in the default profile",
        "it is not",
    ),
    "NominatedNodeNameForExpectation": (
        "the chosen node is published before a long binding",
        "it is not, and PreBindPreFlight does not run",
    ),
    "PodLevelResources": ("requests of the whole pod count", "they are ignored"),
    "SchedulerAsyncAPICalls": (
        "a dispatcher sends bindings and status patches",
        "each is sent by its own task",
    ),
    "SchedulerAsyncPreemption": (
        "PreEnqueue holds the preemptor back until its victims are evicted",
        "it may be tried earlier; evictions still run beside the loop",
    ),
    "SchedulerPopFromBackoffQ": (
        "an idle scheduler takes rejected pods out of their backoff",
        "every backoff is served in full, without windows",
    ),
    "StorageCapacityScoring": ("VolumeBinding scores by free capacity", "it does not score"),
    "TaintTolerationComparisonOperators": (
        "tolerations with `Lt` and `Gt`",
        "such tolerations match nothing",
    ),
    "TopologyAwareWorkloadScheduling": (
        "groups with a topology constraint are placed in one domain",
        "groups are placed without regard to racks",
    ),
    "VolumeLimitScaling": (
        "NodeVolumeLimits rejects nodes without the CSI driver",
        "it accepts them",
    ),
    "WatchListClient": ("informers stream their first list", "they list in pages"),
    "WorkloadAwarePreemption": (
        "groups preempt, and are preempted, as a whole",
        "members of groups preempt one by one",
    ),
}

# Gates of the scheduler's process without an effect here, and the reason.
GATES_WITHOUT_EFFECT: Final[dict[str, str]] = {
    "AllowParsingUserUIDFromCertAuth": "identities have no uid here",
    "AtomicFIFO": "informers have no queue between watch and store",
    "CBORServingAndStorage": "requests are JSON",
    "ClearingNominatedNodeNameAfterBinding": "read by API servers only",
    "ClientsAllowCARotation": "certificates are always reloaded",
    "ClientsAllowCBOR": "requests are JSON",
    "ClientsAllowTLSCacheGC": "there is no such cache",
    "ClientsPreferCBOR": "requests are JSON",
    "ContextualLogging": "every line has its fields",
    "InOrderInformers": "events are always delivered in order",
    "InOrderInformersBatchProcess": "events are always delivered in order",
    "InformerResourceVersion": "informers always have a version",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": "read by API servers only",
    "NativeHistograms": "metrics are text",
    "OpportunisticBatching": "answers are always cached, with the same decisions",
    "RemoteRequestHeaderUID": "identities have no uid here",
    "ShardedListAndWatch": "read by API servers only",
    "UnauthenticatedHTTP2DOSMitigation": "there is no HTTP/2",
    "UnlockWhileProcessingFIFO": "informers have no queue between watch and store",
    "WorkloadWithJob": "read by the controllers of `kubesched up`: Jobs create pod groups",
}
