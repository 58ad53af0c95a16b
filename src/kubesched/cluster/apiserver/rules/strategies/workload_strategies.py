"""The strategies of workload controllers: deployments, stateful sets, jobs and others."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.strategies.core_strategies import StatusStrategy
from kubesched.cluster.apiserver.rules.strategies.pod_defaults import default_pod_spec
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json
from kubesched.cluster.apiserver.rules.validation.object_validation import (
    check_replication_controller,
    check_selected_template,
    check_workload_controller,
)
from kubesched.cluster.apiserver.rules.validation.template_validation import (
    check_job_template,
    check_lasting_template,
)
from kubesched.cluster.apiserver.rules.validation.workload_validation import (
    check_cron_job,
    check_job_change,
    check_selector_change,
    check_stateful_set_change,
)

__all__ = [
    "CONTROLLER_UID",
    "JOB_NAME",
    "CronJobStrategy",
    "DaemonSetStrategy",
    "DeploymentStrategy",
    "JobStrategy",
    "ReplicaSetStrategy",
    "ReplicationControllerStrategy",
    "StatefulSetStrategy",
]

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"

_ROLLING = {"maxUnavailable": "25%", "maxSurge": "25%"}


class _WorkloadStrategy(StatusStrategy):
    """The common rules for workload controllers, which have a pod template."""

    counts_generations = True
    spec_defaults: dict[str, Any] = {}
    # How messages about the template name the kind.
    template_kind = "ReplicaSet"

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        # Typed clients send empty structures for fields that the user omitted.
        filled = {**self.spec_defaults, **spec}
        for field, value in self.spec_defaults.items():
            if filled[field] == {}:
                filled[field] = value
        if (template := spec.get("template")) is not None:
            pod = default_pod_spec(template.get("spec", {}), template=True)
            filled["template"] = {**template, "spec": pod}
        return {**new, "spec": filled}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_workload_controller(new) + self.check_template(new)

    def check_template(self, new: Json, /) -> list[FieldProblem]:
        template = new.get("spec", {}).get("template") or {}
        return check_lasting_template(template, "spec.template", self.template_kind)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_selector_change(new, old)


class DeploymentStrategy(_WorkloadStrategy):
    """The rules for deployments."""

    spec_defaults = {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _ROLLING},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }


class ReplicaSetStrategy(_WorkloadStrategy):
    """The rules for replica sets."""

    spec_defaults = {"replicas": 1}


class StatefulSetStrategy(_WorkloadStrategy):
    """The rules for stateful sets."""

    template_kind = "StatefulSet"

    spec_defaults = {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_stateful_set_change(new, old)


class DaemonSetStrategy(_WorkloadStrategy):
    """The rules for daemon sets."""

    template_kind = "DaemonSet"

    spec_defaults = {
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
        },
        "revisionHistoryLimit": 10,
    }


class ReplicationControllerStrategy(_WorkloadStrategy):
    """The rules for replication controllers, whose selector is a plain map."""

    template_kind = "ReplicationController"
    default_propagation = "Orphan"  # the behavior from before garbage collection existed
    spec_defaults = {"replicas": 1}

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        filled = super().default(new, old)
        spec = filled.get("spec", {})
        labels = spec.get("template", {}).get("metadata", {}).get("labels")
        if labels and not spec.get("selector"):
            return {**filled, "spec": {**spec, "selector": labels}}
        return filled

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        problems = check_replication_controller(new)  # its selector is a plain map
        has_template = new.get("spec", {}).get("template") is not None
        return problems + self.check_template(new) if has_template else problems

    def check_change(self, _new: Json, _old: Json, /) -> list[FieldProblem]:
        return []


class JobStrategy(_WorkloadStrategy):
    """The rules for jobs. The server creates the selector of a job."""

    default_propagation = "Orphan"
    spec_defaults = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }

    def prepare_create(self, new: Json, stamp: str, /) -> Json:
        """Add a selector for the job's own pods, by a label with the job's uid."""
        new = super().prepare_create(new, stamp)
        spec, metadata = new["spec"], new["metadata"]
        if spec.get("manualSelector") or spec.get("selector"):
            return new
        uid = metadata["uid"]
        template = spec.get("template", {})
        inner = template.get("metadata", {})
        labels = {**inner.get("labels", {}), CONTROLLER_UID: uid, "controller-uid": uid}
        if name := metadata.get("name"):
            labels |= {JOB_NAME: name, "job-name": name}
        template = {**template, "metadata": {**inner, "labels": labels}}
        selector = {"matchLabels": {CONTROLLER_UID: uid}}
        return {**new, "spec": {**spec, "selector": selector, "template": template}}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        # The server creates the selector, unless `manualSelector` is set.
        return check_selected_template(new.get("spec", {})) + self.check_template(new)

    def check_template(self, new: Json, /) -> list[FieldProblem]:
        return check_job_template(new.get("spec", {}).get("template") or {}, "spec.template")

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_job_change(new, old)


class CronJobStrategy(StatusStrategy):
    """The rules for cron jobs."""

    counts_generations = True

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        filled = {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            **spec,
        }
        job = spec.get("jobTemplate", {})
        template = job.get("spec", {}).get("template")
        if template is not None:
            pod = default_pod_spec(template.get("spec", {}), template=True)
            made = {**job["spec"], "template": {**template, "spec": pod}}
            filled["jobTemplate"] = {**job, "spec": made}
        return {**new, "spec": filled}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        job = new.get("spec", {}).get("jobTemplate") or {}
        template = (job.get("spec") or {}).get("template") or {}
        path = "spec.jobTemplate.spec.template"
        return check_cron_job(new) + check_job_template(template, path)
