"""Jobs: pods that run to an end, until enough have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Job, Pod
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.cluster_view import View, is_active, is_ready
from kubesched.cluster.controllers.plans import (
    Action,
    Create,
    Delete,
    Plan,
    conditions_with,
    status_patch,
)
from kubesched.cluster.controllers.replica_sets import pod_from_template
from kubesched.cluster.nodes.pod_behavior import RUN_DURATION
from kubesched.util.clock import SECOND

__all__ = ["DEFAULT_RUN", "plan_job"]

Json = dict[str, Any]

DEFAULT_RUN = "5s"
"""How long a pod of a job runs that does not say: containers here have no end of their own."""
_INDEX = "batch.kubernetes.io/job-completion-index"
_FINAL = ("Complete", "Failed")


def plan_job(view: View, owner: Job, document: Mapping[str, Any], now_ns: int) -> Plan:
    ended = _end(owner)
    if ended is not None:
        return _after_the_end(view, owner, ended, now_ns)
    if owner.metadata.deletion_timestamp is not None:
        return Plan()
    pods: list[Pod] = view.controlled(owner.metadata.uid, Pod)
    active = [pod for pod in pods if is_active(pod)]
    counts = {
        phase: sum(pod.status.phase == phase for pod in pods) for phase in ("Succeeded", "Failed")
    }
    # A pod that somebody removed has ended all the same.
    succeeded = max(counts["Succeeded"], owner.status.succeeded)
    failed = max(counts["Failed"], owner.status.failed)
    done = _outcome(owner, succeeded, failed, len(active), now_ns)
    actions: list[Action] = []
    if done or owner.spec.suspend:
        actions += [Delete(pod) for pod in active]
    else:
        missing = _missing(owner, succeeded, len(active))
        indexes = _free_indexes(owner, pods)
        template = document["spec"].get("template", {})
        actions += [Create(Pod, _pod(owner, template, indexes)) for _ in range(missing)]
        surplus = len(active) - _parallel(owner, succeeded)
        actions += [Delete(pod) for pod in active[: max(0, surplus)]]
    status = _status(owner, document, active, succeeded, failed, done, now_ns)
    actions += status_patch(owner, document, status)
    return Plan(actions, _deadline_ns(owner))


def _end(owner: Job) -> str | None:
    """When the job ended; None if it has not."""
    for condition in owner.status.conditions:
        if condition.type in _FINAL and condition.status == "True":
            return condition.last_transition_time or ""
    return None


def _after_the_end(view: View, owner: Job, ended: str, now_ns: int) -> Plan:
    active = [pod for pod in view.controlled(owner.metadata.uid, Pod) if is_active(pod)]
    actions: list[Action] = [Delete(pod) for pod in active]
    keep = owner.spec.ttl_seconds_after_finished
    if keep is None or not ended:
        return Plan(actions)
    due_ns = parse_time(ended) + keep * SECOND
    if due_ns > now_ns:
        return Plan(actions, due_ns)
    return Plan([*actions, Delete(owner)])


def _outcome(owner: Job, succeeded: int, failed: int, active: int, now_ns: int) -> Json | None:
    """The condition that ends the job, if something does."""
    limit = 6 if owner.spec.backoff_limit is None else owner.spec.backoff_limit
    if failed > limit:
        text = "Job has reached the specified backoff limit"
        return {"type": "Failed", "reason": "BackoffLimitExceeded", "message": text}
    deadline_ns = _deadline_ns(owner)
    if deadline_ns is not None and deadline_ns <= now_ns:
        text = "Job was active longer than specified deadline"
        return {"type": "Failed", "reason": "DeadlineExceeded", "message": text}
    wanted = owner.spec.completions
    if succeeded >= wanted if wanted is not None else succeeded and not active:
        text = "Reached expected number of succeeded pods"
        return {"type": "Complete", "reason": "CompletionsReached", "message": text}
    return None


def _deadline_ns(owner: Job) -> int | None:
    limit, began = owner.spec.active_deadline_seconds, owner.status.start_time
    if limit is None or began is None:
        return None
    return parse_time(began) + limit * SECOND


def _parallel(owner: Job, succeeded: int) -> int:
    """How many pods are to run at a time."""
    parallel = 1 if owner.spec.parallelism is None else owner.spec.parallelism
    if owner.spec.completions is None:
        return parallel
    return max(0, min(parallel, owner.spec.completions - succeeded))


def _missing(owner: Job, succeeded: int, active: int) -> int:
    if owner.spec.completions is None and succeeded:
        return 0  # a work queue takes no new workers once one has found it empty
    return max(0, _parallel(owner, succeeded) - active)


def _free_indexes(owner: Job, pods: list[Pod]) -> list[int]:
    """Indexes that no pod has taken, the last one first; none for jobs without indexes."""
    if owner.spec.completion_mode != "Indexed":
        return []
    taken = {pod.metadata.annotations.get(_INDEX) for pod in pods if pod.status.phase != "Failed"}
    indexes = range((owner.spec.completions or 0) - 1, -1, -1)
    return [index for index in indexes if str(index) not in taken]


def _pod(owner: Job, template: Mapping[str, Any], indexes: list[int]) -> Json:
    pod = pod_from_template(owner, template)
    metadata = pod["metadata"]
    annotations = {RUN_DURATION: DEFAULT_RUN, **metadata.get("annotations", {})}
    if indexes:
        index = str(indexes.pop())
        annotations[_INDEX] = index
        metadata["labels"] = {**metadata.get("labels", {}), _INDEX: index}
        metadata["generateName"] = f"{owner.metadata.name}-{index}-"
        pod["spec"] = {**pod["spec"], "hostname": f"{owner.metadata.name}-{index}"}
    metadata["annotations"] = annotations
    return pod


def _status(
    owner: Job,
    document: Mapping[str, Any],
    active: list[Pod],
    succeeded: int,
    failed: int,
    done: Json | None,
    now_ns: int,
) -> Json:
    now = format_time(now_ns)
    suspended = bool(owner.spec.suspend)
    running = 0 if done or suspended else len(active)
    status: Json = {
        "active": running or None,
        "ready": sum(is_ready(pod) for pod in active) if running else 0,
        "succeeded": succeeded or None,
        "failed": failed or None,
    }
    if not suspended:
        status["startTime"] = owner.status.start_time or now
    wanted: list[Json] = []
    if done:
        wanted.append({**done, "status": "True"})
        if done["type"] == "Complete":
            status["completionTime"] = now
    elif suspended:
        text = "Job suspended"
        wanted.append(
            {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": text}
        )
    if wanted:
        stored = document.get("status", {}).get("conditions", ())
        status["conditions"] = [
            {key: value for key, value in each.items() if key != "lastUpdateTime"}
            for each in conditions_with(stored, wanted, now)
        ]
    return status
