"""The features that a workload needs and that may be missing.

A workload without its plugins would measure something different, and one without its devices would
never finish. Such a workload is skipped, and the result has the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.scheduler_perf.files import Workload
from benchmarks.scheduler_perf.templates import Template

__all__ = ["missing_features"]

_VOLUME_PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
_DEVICE_KINDS = frozenset(
    {"DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}
)
_DEVICE_OPCODES = frozenset({"createResourceDriver", "allocResourceClaims"})
_PATHS = ("podTemplatePath", "nodeTemplatePath", "templatePath")


def missing_features(workload: Workload, present: Collection[str]) -> list[str]:
    """Return the needed features that are missing, by name: plugins, and their capabilities."""
    needed: set[str] = set()
    if workload.gates.get("DRAExtendedResource"):
        needed.add("DynamicResources")
    for step in _steps(workload):
        if "persistentVolumeTemplatePath" in step:
            needed.update(_VOLUME_PLUGINS)
        if step["opcode"] in _DEVICE_OPCODES:
            needed.add("DynamicResources")
    for document in _documents(workload):
        spec = document.get("spec") or {}
        if document["kind"] in _DEVICE_KINDS:
            needed.add("DynamicResources")
        if spec.get("resourceClaims"):
            needed.add("DynamicResources")
        # A pod with a higher priority preempts others when no node is free.
        if document["kind"] == "Pod" and spec.get("priority", 0) > 0:
            needed.add("DefaultPreemption")
    return sorted(needed - set(present))


def _steps(workload: Workload) -> Iterator[Mapping[str, Any]]:
    for step in workload.steps:
        yield step
        if "createPodsOp" in step:
            yield step["createPodsOp"]


def _documents(workload: Workload) -> Iterator[dict[str, Any]]:
    files: list[Path] = []
    if workload.default_pod_template is not None:
        files.append(workload.default_pod_template)
    for step in _steps(workload):
        relative = [step[key] for key in _PATHS if key in step] + step.get("templatePaths", [])
        files += [workload.directory / path for path in relative]
    return (Template.read(file).document(0, 1) for file in files)
