"""The strategies of workload controllers: deployments, stateful sets, jobs and others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.strategies.core_strategies import StatusStrategy
from kubesched.cluster.apiserver.rules.strategies.pod_defaults import default_pod_spec
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json
from kubesched.cluster.apiserver.rules.validation.metadata_validation import (
    check_metadata_update,
)
from kubesched.cluster.apiserver.rules.validation.object_validation import (
    check_replication_controller,
    check_selected_template,
    check_workload_controller,
)
from kubesched.cluster.apiserver.rules.validation.rollout_validation import (
    check_daemon_set_rollout,
    check_deployment_rollout,
    check_numbers,
    check_selector_is_set,
    check_stateful_set_rollout,
)
from kubesched.cluster.apiserver.rules.validation.template_validation import (
    check_job_template,
    check_lasting_template,
)
from kubesched.cluster.apiserver.rules.validation.workload_validation import (
    check_cron_job,
    check_job,
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

# The back-off limit of a job that limits the failures of each index.
_UNLIMITED = 2**31 - 1
_ROLLING = {"maxUnavailable": "25%", "maxSurge": "25%"}


class _WorkloadStrategy(StatusStrategy):
    """The common rules for workload controllers, which have a pod template."""

    counts_generations = True
    spec_defaults: dict[str, Any] = {}
    # How messages about the template name the kind.
    template_kind = "ReplicaSet"
    # How the message about an empty selector names the kind.
    selecting_kind = "deployment"

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        # Typed clients send empty structures for fields that the user omitted.
        filled = {**self.spec_defaults, **spec}
        for field, value in self.spec_defaults.items():
            if filled[field] == {}:
                filled[field] = value
        self.default_rollout(filled)
        if (template := spec.get("template")) is not None:
            pod = default_pod_spec(template.get("spec", {}), template=True)
            filled["template"] = {**template, "spec": pod}
        return {**new, "spec": filled}

    def default_rollout(self, spec: Json) -> None:
        """Complete the update strategy in a spec, which is a copy."""

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        problems = check_workload_controller(new)
        spec = new.get("spec", {})
        problems += check_selector_is_set(spec, self.selecting_kind)
        problems += check_numbers(spec, ("minReadySeconds", "revisionHistoryLimit"))
        problems += self.check_rollout(spec)
        return problems + self.check_template(new)

    def check_rollout(self, _spec: Json, /) -> Iterable[FieldProblem]:
        return ()

    def check_template(self, new: Json, /) -> list[FieldProblem]:
        template = new.get("spec", {}).get("template") or {}
        return check_lasting_template(template, "spec.template", self.template_kind)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_selector_change(new, old)


def _rolling(strategy: Any, rolling: Json) -> Any:
    """Complete an update strategy. Only a rolling update has parameters."""
    if not isinstance(strategy, dict):
        return strategy
    filled = {**strategy, "type": strategy.get("type") or "RollingUpdate"}
    if filled["type"] == "RollingUpdate":
        filled["rollingUpdate"] = {**rolling, **(strategy.get("rollingUpdate") or {})}
    return filled


class DeploymentStrategy(_WorkloadStrategy):
    """The rules for deployments."""

    spec_defaults = {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _ROLLING},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }

    def default_rollout(self, spec: Json) -> None:
        spec["strategy"] = _rolling(spec["strategy"], _ROLLING)

    def check_rollout(self, spec: Json, /) -> Iterable[FieldProblem]:
        yield from check_numbers(spec, ("progressDeadlineSeconds",))
        yield from check_deployment_rollout(spec)


class ReplicaSetStrategy(_WorkloadStrategy):
    """The rules for replica sets."""

    spec_defaults = {"replicas": 1}


class StatefulSetStrategy(_WorkloadStrategy):
    """The rules for stateful sets."""

    template_kind = "StatefulSet"
    selecting_kind = "statefulset"

    spec_defaults = {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }

    def default_rollout(self, spec: Json) -> None:
        spec["updateStrategy"] = _rolling(spec["updateStrategy"], {"partition": 0})

    def check_rollout(self, spec: Json, /) -> Iterable[FieldProblem]:
        return check_stateful_set_rollout(spec)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_stateful_set_change(new, old)


class DaemonSetStrategy(_WorkloadStrategy):
    """The rules for daemon sets."""

    template_kind = "DaemonSet"
    selecting_kind = "daemonset"

    spec_defaults = {
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
        },
        "revisionHistoryLimit": 10,
    }

    def default_rollout(self, spec: Json) -> None:
        rolling = {"maxUnavailable": 1, "maxSurge": 0}
        spec["updateStrategy"] = _rolling(spec["updateStrategy"], rolling)

    def check_rollout(self, spec: Json, /) -> Iterable[FieldProblem]:
        return check_daemon_set_rollout(spec)


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
        problems += check_numbers(new.get("spec", {}), ("minReadySeconds",))
        has_template = new.get("spec", {}).get("template") is not None
        return problems + self.check_template(new) if has_template else problems

    def check_change(self, _new: Json, _old: Json, /) -> list[FieldProblem]:
        return []


def _with_job_selector(new: Json) -> Json:
    """Add a selector for the job's own pods, by a label with the job's uid."""
    spec, metadata = new["spec"], new["metadata"]
    if spec.get("manualSelector") or spec.get("selector"):
        return new
    uid = metadata["uid"]
    template = spec.get("template", {})
    inner = template.get("metadata", {})
    labels = {**inner.get("labels", {}), **own_pod_labels(uid)}
    if name := metadata.get("name"):
        labels |= {JOB_NAME: name, "job-name": name}
    template = {**template, "metadata": {**inner, "labels": labels}}
    selector = {"matchLabels": {CONTROLLER_UID: uid}}
    return {**new, "spec": {**spec, "selector": selector, "template": template}}


def own_pod_labels(uid: str) -> dict[str, str]:
    """Return the labels that the server gives the pods of a job with this uid."""
    return {CONTROLLER_UID: uid, "controller-uid": uid}


class JobStrategy(_WorkloadStrategy):
    """The rules for jobs. The server creates the selector of a job."""

    default_propagation = "Orphan"
    spec_defaults = {
        "completionMode": "NonIndexed",
        "suspend": False,
    }

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        filled = super().default(new, old)
        if filled is new:
            return new
        spec = filled["spec"]
        if spec.get("parallelism") is None and spec.get("completions") is None:
            spec["completions"] = 1
        if spec.get("parallelism") is None:
            spec["parallelism"] = 1
        if spec.get("backoffLimit") is None:
            spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _UNLIMITED
        if spec.get("podReplacementPolicy") is None:
            is_failed = spec.get("podFailurePolicy") is not None
            spec["podReplacementPolicy"] = "Failed" if is_failed else "TerminatingOrFailed"
        return filled

    def prepare_create(self, new: Json, stamp: str, /) -> Json:
        return _with_job_selector(super().prepare_create(new, stamp))

    def complete_loaded(self, new: Json, /) -> Json:
        # Without a selector the controller would release and create pods without end.
        spec = new.get("spec", {})
        if spec.get("selector"):
            return new
        return _with_job_selector({**new, "spec": {**spec, "manualSelector": None}})

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        # The server creates the selector, unless `manualSelector` is set.
        problems = [*check_selected_template(new.get("spec", {})), *check_job(new)]
        return problems + self.check_template(new)

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
        return check_cron_job(new) + self._check_template(new)

    def check_update(self, new: Json, old: Json, /) -> list[FieldProblem]:
        problems = check_metadata_update(new["metadata"], old["metadata"])
        return problems + check_cron_job(new, is_new=False) + self._check_template(new)

    def _check_template(self, new: Json) -> list[FieldProblem]:
        job = new.get("spec", {}).get("jobTemplate") or {}
        template = (job.get("spec") or {}).get("template") or {}
        path = "spec.jobTemplate.spec.template"
        return check_job_template(template, path)
