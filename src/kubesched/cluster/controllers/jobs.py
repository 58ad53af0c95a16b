"""Jobs: pods that run to completion, until enough have succeeded.

A pod has a finalizer until its end is counted. The controller first writes the pod's uid to the
status, then removes the finalizer, then adds the pod to the counts. So a restart in between neither
counts a pod twice nor misses one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api import Job, Pod
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.job_indexes import indexes_from, indexes_text
from kubesched.cluster.controllers.job_policies import failure_verdict, success_rule
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    controller_of,
    is_active,
    is_ready,
)
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Create,
    Delete,
    Patch,
    RecordEvent,
    conditions_with,
    status_patch,
)
from kubesched.cluster.controllers.pod_creation_limit import limit_new_pods
from kubesched.cluster.controllers.replica_sets import pod_from_template
from kubesched.cluster.controllers.triggers import (
    AdoptableObject,
    OwnChange,
    RelatedChange,
    controlled,
)
from kubesched.foundation.util.clock import MINUTE, SECOND

__all__ = [
    "JOB_CONTROLLER",
    "LOST_JOB_CONTROLLER",
    "TRACKING",
    "plan_job",
    "plan_pod_of_lost_job",
]

Json = dict[str, Any]

TRACKING = "batch.kubernetes.io/job-tracking"
_INDEX = "batch.kubernetes.io/job-completion-index"
_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
_CONTROLLER = "kubernetes.io/job-controller"
_FIRST_PAUSE_NS, _LAST_PAUSE_NS = 10 * SECOND, 10 * MINUTE


def plan_job(
    objects: ObjectIndex, owner: Job, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Count the ended pods of a Job, decide whether it has ended, and create or delete pods."""
    if (owner.spec.managed_by or _CONTROLLER) != _CONTROLLER:
        return ActionPlan()
    pods, actions = claim_objects(objects, owner, Pod, selector_of(owner))
    job = _JobState(owner, document, pods, now_ns)
    end_time = job.end_time()
    if end_time is not None or owner.metadata.deletion_timestamp is not None:
        return _plan_ended_job(job, actions, end_time)
    actions += [_add_finalizer(pod) for pod in job.active if not _is_tracked(pod)]
    job.count_ended_pods()
    job.decide()
    actions += job.status_actions()
    actions += job.pod_actions()
    return ActionPlan(actions, job.again_ns())


def plan_pod_of_lost_job(
    objects: ObjectIndex, pod: Pod, _document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Remove the finalizer of a pod whose Job does not exist any more."""
    owner = controller_of(pod)
    if owner is not None and owner.kind == Job.kind and objects.get(owner.uid) is not None:
        return ActionPlan()
    return ActionPlan([_remove_finalizer(pod)] if _is_tracked(pod) else [])


def _is_tracked(pod: Pod, _before: Pod | None = None) -> bool:
    return TRACKING in pod.metadata.finalizers


def _remove_finalizer(pod: Pod) -> Patch:
    remaining = [each for each in pod.metadata.finalizers if each != TRACKING]
    return Patch(pod, {"metadata": {"finalizers": remaining or None}}, unless_changed=True)


def _add_finalizer(pod: Pod) -> Patch:
    return Patch(
        pod, {"metadata": {"finalizers": [*pod.metadata.finalizers, TRACKING]}}, unless_changed=True
    )


def _plan_ended_job(job: _JobState, actions: list[Action], end_time: str | None) -> ActionPlan:
    """Delete the active pods of an ended Job, and the Job itself after its time to live."""
    owner = job.owner
    actions += [_remove_finalizer(pod) for pod in job.pods if _is_tracked(pod)]
    if end_time is None:
        return ActionPlan(actions)
    actions += [Delete(pod) for pod in job.pods if is_active(pod)]
    ttl_seconds = owner.spec.ttl_seconds_after_finished
    if ttl_seconds is None or not end_time or owner.metadata.deletion_timestamp is not None:
        return ActionPlan(actions)
    due_ns = parse_time(end_time) + ttl_seconds * SECOND
    if due_ns > job.now_ns:
        return ActionPlan(actions, due_ns)
    return ActionPlan([*actions, Delete(owner, propagation="Foreground")])


class _JobState:
    """A Job and its pods during one plan: counts, decisions, and the actions that follow."""

    def __init__(
        self, owner: Job, document: Mapping[str, Any], pods: list[Pod], now_ns: int
    ) -> None:
        self.owner, self.document, self.pods, self.now_ns = owner, document, pods, now_ns
        self.spec: Mapping[str, Any] = document["spec"]
        self.stored: Mapping[str, Any] = document.get("status", {})
        self.is_indexed = owner.spec.completion_mode == "Indexed"
        self.suspended = bool(owner.spec.suspend)
        self.active = [pod for pod in pods if is_active(pod)]
        self.terminating = [
            pod
            for pod in pods
            if pod.metadata.deletion_timestamp is not None
            and pod.status.phase not in ("Succeeded", "Failed")
        ]
        uncounted = self.stored.get("uncountedTerminatedPods", {})
        self.uncounted: dict[str, list[str]] = {
            "succeeded": list(uncounted.get("succeeded", ())),
            "failed": list(uncounted.get("failed", ())),
        }
        self.succeeded: int = self.stored.get("succeeded", 0)
        self.failed: int = self.stored.get("failed", 0)
        self.completed_indexes = indexes_from(self.stored.get("completedIndexes", ""))
        self.failed_indexes = indexes_from(self.stored.get("failedIndexes") or "")
        # Conditions that this plan adds.
        self.new_conditions: list[Json] = []
        # The SuccessCriteriaMet or FailureTarget condition, once it is decided.
        self.target: Json | None = None
        self._fail_message = ""
        self._counted_pods: list[Pod] = []  # pods whose finalizer this plan removes

    # Counting

    @property
    def only_failed(self) -> bool:
        """Whether a pod is replaced only once it has failed, not when it is terminating."""
        return self.owner.spec.pod_replacement_policy == "Failed" or "podFailurePolicy" in self.spec

    def _has_failed(self, pod: Pod) -> bool:
        if pod.status.phase == "Failed":
            return True
        deleted = pod.metadata.deletion_timestamp is not None
        return deleted and pod.status.phase != "Succeeded" and not self.only_failed

    def count_ended_pods(self) -> None:
        """Add the ended pods to the counts, or to the uncounted ones first."""
        self._count_untracked()
        recorded = {uid for uids in self.uncounted.values() for uid in uids}
        tracked = [pod for pod in self.pods if _is_tracked(pod)]
        for pod in tracked:
            if pod.metadata.uid not in recorded:
                self._record_end(pod)
        recorded = {uid for uids in self.uncounted.values() for uid in uids}
        self._counted_pods += [pod for pod in tracked if pod.metadata.uid in recorded]
        if self.is_indexed:
            self.succeeded = len(self.completed_indexes)

    def _count_untracked(self) -> None:
        """Count the uncounted pods whose finalizer is gone."""
        tracked = {pod.metadata.uid for pod in self.pods if _is_tracked(pod)}
        for kind, uids in self.uncounted.items():
            remaining = [uid for uid in uids if uid in tracked]
            counted = len(uids) - len(remaining)
            if kind == "failed":
                self.failed += counted
            elif not self.is_indexed:
                self.succeeded += counted
            self.uncounted[kind] = remaining

    def _record_end(self, pod: Pod) -> None:
        """Record a pod that has ended as uncounted."""
        if pod.status.phase == "Succeeded":
            self._record_success(pod)
        elif self._has_failed(pod):
            self._record_failure(pod)

    def _record_success(self, pod: Pod) -> None:
        index = _index_of(pod) if self.is_indexed else None
        limit = self.owner.spec.completions or 0
        if index is not None and index < limit and index not in self.failed_indexes:
            self.completed_indexes.add(index)
        self.uncounted["succeeded"].append(pod.metadata.uid)

    def _record_failure(self, pod: Pod) -> None:
        index = _index_of(pod)
        verdict = failure_verdict(self.spec, pod)
        if verdict.action == "FailJob" and not self._fail_message:
            self._fail_message = verdict.message
        if verdict.action == "Ignore":
            self._counted_pods.append(pod)
        else:
            self.uncounted["failed"].append(pod.metadata.uid)
        if index is None:
            return
        limit = self.owner.spec.backoff_limit_per_index
        is_over_limit = verdict.action == "Count" and limit is not None
        if verdict.action == "FailIndex" or (is_over_limit and _failures_of(pod) >= (limit or 0)):
            self.failed_indexes.add(index)

    @property
    def all_succeeded(self) -> int:
        if self.is_indexed:
            return len(self.completed_indexes)
        return self.succeeded + len(self.uncounted["succeeded"])

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted["failed"])

    # Deciding

    def end_time(self) -> str | None:
        """Return when the Job ended; None if it has not."""
        for condition in self.owner.status.conditions:
            if condition.type in ("Complete", "Failed") and condition.status == "True":
                return condition.last_transition_time or ""
        return None

    def _true_condition(self, kind: str) -> Json | None:
        for each in self.stored.get("conditions", ()):
            if each.get("type") == kind and each.get("status") == "True":
                return dict(each)
        return None

    def decide(self) -> None:
        """Decide whether the Job succeeds or fails, and whether it has ended.

        The target condition comes first. The end follows when no pod is left.
        """
        target = self._true_condition("SuccessCriteriaMet") or self._true_condition("FailureTarget")
        if target is None:
            target = self._new_target()
            if target is not None:
                self.new_conditions.append({**target, "status": "True"})
        self.target = target
        if target is None or self.active or self.terminating or any(self.uncounted.values()):
            return
        self.new_conditions.append(
            {
                "type": "Complete" if target["type"] == "SuccessCriteriaMet" else "Failed",
                "status": "True",
                "reason": target["reason"],
                "message": target["message"],
            }
        )

    def _new_target(self) -> Json | None:
        if self._fail_message:
            return _condition("FailureTarget", "PodFailurePolicy", self._fail_message)
        limit = 6 if self.owner.spec.backoff_limit is None else self.owner.spec.backoff_limit
        if self.owner.spec.backoff_limit_per_index is None or "backoffLimit" in self.spec:
            restarted = self._restarts() if self._restarts_in_place() else 0
            if self.all_failed > limit or (restarted and restarted >= max(limit, 1)):
                text = "Job has reached the specified backoff limit"
                return _condition("FailureTarget", "BackoffLimitExceeded", text)
        deadline_ns = self._deadline_ns()
        if deadline_ns is not None and deadline_ns <= self.now_ns and not self.suspended:
            text = "Job was active longer than specified deadline"
            return _condition("FailureTarget", "DeadlineExceeded", text)
        most = self.owner.spec.max_failed_indexes
        if most is not None and len(self.failed_indexes) > most:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return _condition("FailureTarget", "MaxFailedIndexesExceeded", text)
        return self._success()

    def _success(self) -> Json | None:
        rule = success_rule(self.spec, self.completed_indexes) if self.is_indexed else None
        if rule is not None:
            text = f"Matched rules at index {rule}"
            return _condition("SuccessCriteriaMet", "SuccessPolicy", text)
        completions = self.owner.spec.completions
        if completions is None:
            reached = bool(self.all_succeeded) and not self.active and not self.terminating
        elif self.is_indexed and len(self.completed_indexes | self.failed_indexes) >= completions:
            if self.failed_indexes:
                return _condition("FailureTarget", "FailedIndexes", "Job has failed indexes")
            reached = True
        else:
            reached = self.all_succeeded >= completions
        if not reached:
            return None
        text = "Reached expected number of succeeded pods"
        return _condition("SuccessCriteriaMet", "CompletionsReached", text)

    def _restarts_in_place(self) -> bool:
        policy: str = self.spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
        return policy == "OnFailure"

    def _restarts(self) -> int:
        return sum(
            each.restart_count for pod in self.active for each in pod.status.container_statuses
        )

    def _deadline_ns(self) -> int | None:
        limit, began = self.owner.spec.active_deadline_seconds, self.owner.status.start_time
        if limit is None or began is None or self.suspended:
            return None
        return parse_time(began) + limit * SECOND

    # Pods

    def pod_actions(self) -> list[Action]:
        """Remove finalizers, and create or delete pods."""
        actions: list[Action] = [_remove_finalizer(pod) for pod in self._counted_pods]
        if self.target is not None or self.suspended:
            return [*actions, *(Delete(pod, reports=True) for pod in self.active)]
        if self.is_indexed:
            failed = [pod for pod in self.active if _index_of(pod) in self.failed_indexes]
            actions += [Delete(pod, reports=True) for pod in failed]
        not_replaced = len(self.terminating) if self.only_failed else 0
        missing = self._wanted_active() - len(self.active) - not_replaced
        if missing < 0:
            surplus = sorted(self.active, key=lambda pod: (is_ready(pod), bool(pod.spec.node_name)))
            actions += [Delete(pod, reports=True) for pod in surplus[:-missing]]
        elif missing and self._resume_ns() <= self.now_ns:
            count, events = limit_new_pods(self.owner, missing, self.active)
            actions += [*self._new_pods(count), *events]
        return actions

    def _wanted_active(self) -> int:
        """Return how many pods should run at present."""
        parallel = 1 if self.owner.spec.parallelism is None else self.owner.spec.parallelism
        completions = self.owner.spec.completions
        if completions is None:
            # A work queue gets no new pods once one has succeeded: the queue is empty.
            return len(self.active) if self.all_succeeded else parallel
        remaining = (
            completions - self.all_succeeded - (len(self.failed_indexes) if self.is_indexed else 0)
        )
        return max(0, min(parallel, remaining))

    def _resume_ns(self) -> int:
        """Return when pods may be created again: after failures the Job backs off."""
        if self.owner.spec.backoff_limit_per_index is not None:
            return 0
        ended = sorted(_ended_ns(pod) for pod in self.pods if pod.status.phase == "Failed")
        succeeded = max(
            (_ended_ns(pod) for pod in self.pods if pod.status.phase == "Succeeded"), default=0
        )
        failures = [time_ns for time_ns in ended if time_ns > succeeded]
        if not failures:
            return 0
        pause_ns = min(_FIRST_PAUSE_NS << min(len(failures) - 1, 10), _LAST_PAUSE_NS)
        return failures[-1] + pause_ns

    def _new_pods(self, count: int) -> list[Action]:
        """Create pods, in an indexed Job for the lowest free indexes."""
        template = self.spec.get("template", {})
        indexes: list[int | None] = [None] * count
        if self.is_indexed:
            taken = {_index_of(pod) for pod in self.active} | self.completed_indexes
            taken |= self.failed_indexes
            if self.only_failed:
                taken |= {_index_of(pod) for pod in self.terminating}
            free = (n for n in range(self.owner.spec.completions or 0) if n not in taken)
            indexes = [index for index, _ in zip(free, range(count), strict=False)]
        return [Create(Pod, self._pod(template, index), reports=True) for index in indexes]

    def _pod(self, template: Mapping[str, Any], index: int | None) -> Json:
        pod = pod_from_template(self.owner, template)
        metadata = pod["metadata"]
        metadata["finalizers"] = [*metadata.get("finalizers", ()), TRACKING]
        if index is None:
            return pod
        annotations = {**metadata.get("annotations", {}), _INDEX: str(index)}
        if self.owner.spec.backoff_limit_per_index is not None:
            failures, ignored = self._earlier_failures(index)
            annotations[_FAILURES] = str(failures)
            if ignored:
                annotations[_IGNORED_FAILURES] = str(ignored)
        name = self.owner.metadata.name
        metadata["annotations"] = annotations
        metadata["labels"] = {**metadata.get("labels", {}), _INDEX: str(index)}
        metadata["generateName"] = f"{name}-{index}-"
        pod["spec"] = _with_index({**pod["spec"], "hostname": f"{name}-{index}"})
        return pod

    def _earlier_failures(self, index: int) -> tuple[int, int]:
        failures = ignored = 0
        for pod in self.pods:
            if _index_of(pod) != index or not self._has_failed(pod):
                continue
            is_ignored = failure_verdict(self.spec, pod).action == "Ignore"
            failures = max(failures, _failures_of(pod) + (not is_ignored))
            before = int(pod.metadata.annotations.get(_IGNORED_FAILURES, "0"))
            ignored = max(ignored, before + is_ignored)
        return failures, ignored

    # Status

    def status_actions(self) -> list[Action]:
        """Return the patch of the status, and the events."""
        now = format_time(self.now_ns)
        status = self._counts()
        conditions = list(self.new_conditions)
        events: list[Action] = []
        was_suspended = self._true_condition("Suspended") is not None
        if not self.suspended:
            status["startTime"] = self.owner.status.start_time or now
            if was_suspended:
                conditions.append(_suspension("False", "JobResumed", "Job resumed"))
                events.append(RecordEvent(self.owner, "Resumed", "Job resumed"))
        else:
            status["startTime"] = None
            if not was_suspended and self.target is None:
                conditions.append(_suspension("True", "JobSuspended", "Job suspended"))
                events.append(RecordEvent(self.owner, "Suspended", "Job suspended"))
        for each in self.new_conditions:
            if each["type"] == "Complete":
                status["completionTime"] = now
                events.append(RecordEvent(self.owner, "Completed", "Job completed"))
            elif each["type"] == "Failed":
                event = RecordEvent(self.owner, each["reason"], each["message"], warning=True)
                events.append(event)
        if conditions:
            merged = conditions_with(self.stored.get("conditions", ()), conditions, now)
            status["conditions"] = [{"lastProbeTime": now, **each} for each in merged]
        return [*status_patch(self.owner, self.document, status), *events]

    def _counts(self) -> Json:
        """Build the part of the status that counts pods and indexes."""
        running = [] if self.suspended else self.active
        status: Json = {
            "active": len(running) or None,
            "ready": sum(is_ready(pod) for pod in running),
            "terminating": len(self.terminating),
            "succeeded": self.succeeded or None,
            "failed": self.failed or None,
        }
        uncounted = {kind: uids for kind, uids in self.uncounted.items() if uids}
        if uncounted != self.stored.get("uncountedTerminatedPods"):
            # A merge patch empties a list only if its value is null.
            status["uncountedTerminatedPods"] = {k: v or None for k, v in self.uncounted.items()}
        if self.is_indexed:
            status["completedIndexes"] = indexes_text(self.completed_indexes) or None
            if self.owner.spec.backoff_limit_per_index is not None:
                status["failedIndexes"] = indexes_text(self.failed_indexes)
        return status

    def again_ns(self) -> int | None:
        times = [self._deadline_ns(), self._resume_ns()]
        return min(
            (each for each in times if each is not None and each > self.now_ns), default=None
        )


def _condition(kind: str, reason: str, message: str) -> Json:
    return {"type": kind, "reason": reason, "message": message}


def _suspension(status: str, reason: str, message: str) -> Json:
    return {"type": "Suspended", "status": status, "reason": reason, "message": message}


def _index_of(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(_INDEX, "")
    return int(text) if text.isdecimal() else None


def _failures_of(pod: Pod) -> int:
    text = pod.metadata.annotations.get(_FAILURES, "0")
    return int(text) if text.isdecimal() else 0


def _ended_ns(pod: Pod) -> int:
    times = [
        parse_time(each.state.terminated.finished_at)
        for each in pod.status.container_statuses
        if each.state.terminated is not None and each.state.terminated.finished_at
    ]
    began = pod.metadata.creation_timestamp
    return max(times, default=0 if began is None else parse_time(began))


def _with_index(spec: Json) -> Json:
    """Add the variable JOB_COMPLETION_INDEX to every container."""
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": field}
    for part in ("initContainers", "containers"):
        if spec.get(part):
            spec[part] = [
                each
                if any(other["name"] == variable["name"] for other in each.get("env", ()))
                else {**each, "env": [*each.get("env", ()), variable]}
                for each in spec[part]
            ]
    return spec


def _pods_of_deleted_job(
    objects: ObjectIndex, job: Job, _before: Job | None, gone: bool
) -> Sequence[str]:
    if not gone:
        return ()
    return [pod.metadata.uid for pod in objects.controlled(job.metadata.uid, Pod)]


JOB_CONTROLLER = Controller(
    "job-controller",
    Job,
    plan_job,
    triggers=(OwnChange(Job), controlled(Pod, by=Job), AdoptableObject(Pod, Job)),
)

LOST_JOB_CONTROLLER = Controller(
    "job-controller",
    Pod,
    plan_pod_of_lost_job,
    triggers=(OwnChange(Pod, _is_tracked), RelatedChange(Job, Pod, _pods_of_deleted_job)),
    applies=_is_tracked,
)
