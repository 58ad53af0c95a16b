"""Controllers of pods: their counts, and the pods they are to make."""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.strategies.base import Json
from kubesched.apiserver.strategies.cluster import StatusStrategy
from kubesched.apiserver.strategies.pod_defaults import default_pod_spec
from kubesched.apiserver.validation.objects import check_workload_controller
from kubesched.apiserver.validation.problems import Problem

__all__ = [
    "DaemonSetStrategy",
    "DeploymentStrategy",
    "JobStrategy",
    "ReplicaSetStrategy",
    "ReplicationControllerStrategy",
    "StatefulSetStrategy",
]

_ROLLING = {"maxUnavailable": "25%", "maxSurge": "25%"}


class _WorkloadStrategy(StatusStrategy):
    counts_generations = True
    spec_defaults: dict[str, Any] = {}

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        # Typed clients write empty structures where a user wrote nothing.
        filled = {**self.spec_defaults, **spec}
        for field, value in self.spec_defaults.items():
            if filled[field] == {}:
                filled[field] = value
        if (template := spec.get("template")) is not None:
            pod = default_pod_spec(template.get("spec", {}), template=True)
            filled["template"] = {**template, "spec": pod}
        return {**new, "spec": filled}

    def check_new(self, new: Json, /) -> list[Problem]:
        return check_workload_controller(new)


class DeploymentStrategy(_WorkloadStrategy):
    spec_defaults = {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _ROLLING},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }


class ReplicaSetStrategy(_WorkloadStrategy):
    spec_defaults = {"replicas": 1}


class StatefulSetStrategy(_WorkloadStrategy):
    spec_defaults = {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
    }


class DaemonSetStrategy(_WorkloadStrategy):
    spec_defaults = {
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
        },
        "revisionHistoryLimit": 10,
    }


class ReplicationControllerStrategy(_WorkloadStrategy):
    spec_defaults = {"replicas": 1}

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        filled = super().default(new, old)
        spec = filled.get("spec", {})
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        if labels and not spec.get("selector"):
            return {**filled, "spec": {**spec, "selector": labels}}
        return filled

    def check_new(self, _new: Json, /) -> list[Problem]:
        return []  # its selector is a plain map


class JobStrategy(_WorkloadStrategy):
    spec_defaults = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }

    def check_new(self, _new: Json, /) -> list[Problem]:
        return []  # its selector is made by the server
