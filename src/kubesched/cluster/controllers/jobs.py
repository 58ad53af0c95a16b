"""Jobs: pods that run to an end, until enough have.

A pod carries a finalizer until its end has been counted. Its uid is first noted in the status, then
the finalizer goes, then it is added to the counts: whatever is lost in between, no pod is counted
twice or missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Job, Pod
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
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
from kubesched.foundation.util.clock import MINUTE, SECOND

__all__ = ["TRACKING", "plan_job", "plan_pod_of_lost_job"]

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
    if (owner.spec.managed_by or _CONTROLLER) != _CONTROLLER:
        return ActionPlan()
    pods, actions = claim_objects(objects, owner, Pod, selector_of(owner))
    work = _Work(owner, document, pods, now_ns)
    ended = work.end_time()
    if ended is not None or owner.metadata.deletion_timestamp is not None:
        return _after_the_end(work, actions, ended)
    actions += [_tracked(pod) for pod in work.active if TRACKING not in pod.metadata.finalizers]
    work.count()
    work.decide()
    actions += work.status_actions()
    actions += work.pod_actions()
    return ActionPlan(actions, work.again_ns())


def plan_pod_of_lost_job(
    objects: ObjectIndex, pod: Pod, _document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Let go of a pod whose end nobody will count."""
    owner = controller_of(pod)
    if owner is not None and owner.kind == Job.kind and objects.get(owner.uid) is not None:
        return ActionPlan()
    return ActionPlan([_released(pod)] if TRACKING in pod.metadata.finalizers else [])


def _released(pod: Pod) -> Patch:
    kept = [each for each in pod.metadata.finalizers if each != TRACKING]
    return Patch(pod, {"metadata": {"finalizers": kept or None}})


def _tracked(pod: Pod) -> Patch:
    return Patch(pod, {"metadata": {"finalizers": [*pod.metadata.finalizers, TRACKING]}})


def _after_the_end(work: _Work, actions: list[Action], ended: str | None) -> ActionPlan:
    """Pods that are left go, and so does the Job when its time has come."""
    owner = work.owner
    actions += [_released(pod) for pod in work.pods if TRACKING in pod.metadata.finalizers]
    if ended is None:
        return ActionPlan(actions)
    actions += [Delete(pod) for pod in work.pods if is_active(pod)]
    keep = owner.spec.ttl_seconds_after_finished
    if keep is None or not ended or owner.metadata.deletion_timestamp is not None:
        return ActionPlan(actions)
    due_ns = parse_time(ended) + keep * SECOND
    if due_ns > work.now_ns:
        return ActionPlan(actions, due_ns)
    return ActionPlan([*actions, Delete(owner, propagation="Foreground")])


class _Work:
    """One look at a Job: what its pods amount to, and what follows."""

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
        waiting = self.stored.get("uncountedTerminatedPods", {})
        self.uncounted: dict[str, list[str]] = {
            "succeeded": list(waiting.get("succeeded", ())),
            "failed": list(waiting.get("failed", ())),
        }
        self.succeeded: int = self.stored.get("succeeded", 0)
        self.failed: int = self.stored.get("failed", 0)
        self.completed_indexes = indexes_from(self.stored.get("completedIndexes", ""))
        self.failed_indexes = indexes_from(self.stored.get("failedIndexes") or "")
        self.verdicts: list[Json] = []
        """Conditions that this look adds."""
        self.aim: Json | None = None
        """The condition that says what the Job is coming to, if that is decided."""
        self._fail_message = ""
        self._released_pods: list[Pod] = []

    # Counting

    @property
    def only_failed(self) -> bool:
        """Whether a pod is replaced only once it has really ended."""
        return self.owner.spec.pod_replacement_policy == "Failed" or "podFailurePolicy" in self.spec

    def _has_failed(self, pod: Pod) -> bool:
        if pod.status.phase == "Failed":
            return True
        deleted = pod.metadata.deletion_timestamp is not None
        return deleted and pod.status.phase != "Succeeded" and not self.only_failed

    def count(self) -> None:
        """Note who ended, and add those to the counts that have been let go of."""
        by_uid = {pod.metadata.uid: pod for pod in self.pods}
        for kind in ("succeeded", "failed"):
            kept = []
            for uid in self.uncounted[kind]:
                pod = by_uid.get(uid)
                if pod is not None and TRACKING in pod.metadata.finalizers:
                    kept.append(uid)
                elif kind == "succeeded":
                    self.succeeded += not self.is_indexed
                else:
                    self.failed += 1
            self.uncounted[kind] = kept
        noted = {uid for uids in self.uncounted.values() for uid in uids}
        tracked = [pod for pod in self.pods if TRACKING in pod.metadata.finalizers]
        for pod in tracked:
            if pod.metadata.uid not in noted:
                self._note(pod)
        noted = {uid for uids in self.uncounted.values() for uid in uids}
        self._released_pods += [pod for pod in tracked if pod.metadata.uid in noted]
        if self.is_indexed:
            self.succeeded = len(self.completed_indexes)

    def _note(self, pod: Pod) -> None:
        index = _index_of(pod)
        if pod.status.phase == "Succeeded":
            if self.is_indexed:
                limit = self.owner.spec.completions or 0
                if index is not None and index < limit and index not in self.failed_indexes:
                    self.completed_indexes.add(index)
            self.uncounted["succeeded"].append(pod.metadata.uid)
        elif self._has_failed(pod):
            verdict = failure_verdict(self.spec, pod)
            if verdict.action == "FailJob" and not self._fail_message:
                self._fail_message = verdict.message
            if verdict.action == "FailIndex" and index is not None:
                self.failed_indexes.add(index)
            if verdict.action == "Ignore":
                self._released_pods.append(pod)
            else:
                self.uncounted["failed"].append(pod.metadata.uid)
            limit_per_index = self.owner.spec.backoff_limit_per_index
            counts = verdict.action == "Count" and limit_per_index is not None
            if counts and index is not None and _failures_of(pod) >= (limit_per_index or 0):
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
        """When the Job ended; None if it has not."""
        for condition in self.owner.status.conditions:
            if condition.type in ("Complete", "Failed") and condition.status == "True":
                return condition.last_transition_time or ""
        return None

    def _holds(self, kind: str) -> Json | None:
        for each in self.stored.get("conditions", ()):
            if each.get("type") == kind and each.get("status") == "True":
                return dict(each)
        return None

    def decide(self) -> None:
        """Whether the Job has what it needs, or has failed: first the aim, then, once no pod is
        left, the end.
        """
        aim = self._holds("SuccessCriteriaMet") or self._holds("FailureTarget")
        if aim is None:
            aim = self._aim()
            if aim is not None:
                self.verdicts.append({**aim, "status": "True"})
        self.aim = aim
        if aim is None:
            return
        left = bool(self.active or self.terminating)
        if not left and not any(self.uncounted.values()):
            kind = "Complete" if aim["type"] == "SuccessCriteriaMet" else "Failed"
            self.verdicts.append(
                {
                    "type": kind,
                    "status": "True",
                    "reason": aim["reason"],
                    "message": aim["message"],
                }
            )

    def _aim(self) -> Json | None:
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
        wanted = self.owner.spec.completions
        if wanted is None:
            reached = bool(self.all_succeeded) and not self.active and not self.terminating
        elif self.is_indexed and len(self.completed_indexes | self.failed_indexes) >= wanted:
            if self.failed_indexes:
                return _condition("FailureTarget", "FailedIndexes", "Job has failed indexes")
            reached = True
        else:
            reached = self.all_succeeded >= wanted
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
        actions: list[Action] = [_released(pod) for pod in self._released_pods]
        if self.aim is not None or self.suspended:
            return [*actions, *(Delete(pod, reports=True) for pod in self.active)]
        wanted = self._wanted_active()
        doomed = [pod for pod in self.active if _index_of(pod) in self.failed_indexes]
        if self.is_indexed and doomed:
            actions += [Delete(pod, reports=True) for pod in doomed]
        held = len(self.terminating) if self.only_failed else 0
        missing = wanted - len(self.active) - held
        if missing < 0:
            surplus = sorted(self.active, key=lambda pod: (is_ready(pod), bool(pod.spec.node_name)))
            actions += [Delete(pod, reports=True) for pod in surplus[:-missing]]
        elif missing and self._resume_ns() <= self.now_ns:
            count, told = limit_new_pods(self.owner, missing, self.active)
            actions += [*self._new_pods(count), *told]
        return actions

    def _wanted_active(self) -> int:
        """How many pods are to run at a time."""
        parallel = 1 if self.owner.spec.parallelism is None else self.owner.spec.parallelism
        completions = self.owner.spec.completions
        if completions is None:
            # A work queue takes no new workers once one has found it empty.
            return len(self.active) if self.all_succeeded else parallel
        left = (
            completions - self.all_succeeded - (len(self.failed_indexes) if self.is_indexed else 0)
        )
        return max(0, min(parallel, left))

    def _resume_ns(self) -> int:
        """When pods may be made again: after failures, not at once."""
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

    # Telling

    def status_actions(self) -> list[Action]:
        now = format_time(self.now_ns)
        running = [] if self.suspended else self.active
        status: Json = {
            "active": len(running) or None,
            "ready": sum(is_ready(pod) for pod in running),
            "terminating": len(self.terminating),
            "succeeded": self.succeeded or None,
            "failed": self.failed or None,
        }
        waiting = {kind: uids for kind, uids in self.uncounted.items() if uids}
        if waiting != self.stored.get("uncountedTerminatedPods"):
            # Null empties a list that a merge would keep.
            status["uncountedTerminatedPods"] = {k: v or None for k, v in self.uncounted.items()}
        if self.is_indexed:
            status["completedIndexes"] = indexes_text(self.completed_indexes) or None
            if self.owner.spec.backoff_limit_per_index is not None:
                status["failedIndexes"] = indexes_text(self.failed_indexes)
        wanted = list(self.verdicts)
        was_suspended = self._holds("Suspended") is not None
        events: list[Action] = []
        if self.suspended:
            status["startTime"] = None
            if not was_suspended and self.aim is None:
                wanted.append(_suspension("True", "JobSuspended", "Job suspended"))
                events.append(RecordEvent(self.owner, "Suspended", "Job suspended"))
        else:
            status["startTime"] = self.owner.status.start_time or now
            if was_suspended:
                wanted.append(_suspension("False", "JobResumed", "Job resumed"))
                events.append(RecordEvent(self.owner, "Resumed", "Job resumed"))
        for each in self.verdicts:
            if each["type"] == "Complete":
                status["completionTime"] = now
                events.append(RecordEvent(self.owner, "Completed", "Job completed"))
            elif each["type"] == "Failed":
                event = RecordEvent(self.owner, each["reason"], each["message"], warning=True)
                events.append(event)
        if wanted:
            stored = self.stored.get("conditions", ())
            conditions = conditions_with(stored, wanted, now)
            status["conditions"] = [{"lastProbeTime": now, **each} for each in conditions]
        return [*status_patch(self.owner, self.document, status), *events]

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
    """Tell every container the index of its pod."""
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": field}
    for part in ("initContainers", "containers"):
        if spec.get(part):
            spec[part] = [
                each
                if any(known["name"] == variable["name"] for known in each.get("env", ()))
                else {**each, "env": [*each.get("env", ()), variable]}
                for each in spec[part]
            ]
    return spec
