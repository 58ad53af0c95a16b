"""The successors of settings of earlier releases.

The reference rejects such settings with the same text as a misspelled field. kubesched keeps the
text and adds a note that names the successor.
"""

from __future__ import annotations

from typing import Final

from kubesched.scheduler.config.types import API_VERSION, GROUP, KIND

__all__ = ["field_note", "plugin_note", "version_note"]

_FIELDS: Final = {
    "algorithmSource": "policies and providers are gone: list plugins in profiles[].plugins",
    "bindTimeoutSeconds": "set bindTimeoutSeconds in the args of the plugin VolumeBinding",
    "disablePreemption": "disable the plugin DefaultPreemption in profiles[].plugins.multiPoint",
    "failureDomains": "topology keys are given in pods; there is no replacement",
    "featureGates": "feature gates are set with the flag --feature-gates",
    "hardPodAffinitySymmetricWeight": (
        "set hardPodAffinityWeight in the args of the plugin InterPodAffinity"
    ),
    "healthzBindAddress": "use the flags --bind-address and --secure-port",
    "lockObjectName": "use resourceName",
    "lockObjectNamespace": "use resourceNamespace",
    "metricsBindAddress": "use the flags --bind-address and --secure-port",
    "policy": "policies are gone: list plugins in profiles[].plugins",
    "schedulerName": "set schedulerName in profiles[]",
    "unreserve": "plugins of the point reserve also undo their reservations",
}
_PLUGINS: Final = {
    "AzureDiskLimits": "NodeVolumeLimits counts CSI volumes, migrated ones included",
    "CinderLimits": "NodeVolumeLimits counts CSI volumes, migrated ones included",
    "DefaultPodTopologySpread": "PodTopologySpread does this with defaultingType System",
    "EBSLimits": "NodeVolumeLimits counts CSI volumes, migrated ones included",
    "GCEPDLimits": "NodeVolumeLimits counts CSI volumes, migrated ones included",
    "NodeLabel": "give NodeAffinity an addedAffinity",
    "NodePreferAvoidPods": "use taints with the effect PreferNoSchedule",
    "NodeResourcesLeastAllocated": (
        "give NodeResourcesFit a scoringStrategy of type LeastAllocated"
    ),
    "NodeResourcesMostAllocated": "give NodeResourcesFit a scoringStrategy of type MostAllocated",
    "RequestedToCapacityRatio": (
        "give NodeResourcesFit a scoringStrategy of type RequestedToCapacityRatio"
    ),
    "SelectorSpread": "PodTopologySpread does this with defaultingType System",
    "ServiceAffinity": "use pod affinity",
}
_OLD_GROUPS: Final = frozenset({GROUP, "componentconfig"})


def field_note(name: str) -> str | None:
    """Return a note about the successor of a removed field."""
    return f"{name} was removed: {_FIELDS[name]}" if name in _FIELDS else None


def plugin_note(name: str) -> str | None:
    """Return a note about the successor of a removed plugin."""
    return f"{name} was removed: {_PLUGINS[name]}" if name in _PLUGINS else None


def version_note(api_version: str, kind: str) -> str | None:
    """Return a note about the successor of a removed version or kind."""
    group = api_version.rpartition("/")[0]
    if kind == "Policy":
        return f"policy files are gone: write a {KIND} ({API_VERSION}) with profiles[].plugins"
    if api_version != API_VERSION and (kind == KIND or group in _OLD_GROUPS):
        return f"{api_version} is not served: use {API_VERSION}"
    return None
