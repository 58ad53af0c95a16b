"""CronJobs: a Job at each time of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Job
from kubesched.api.batch import CronJob
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Create,
    Delete,
    RecordEvent,
    status_patch,
)
from kubesched.cluster.controllers.triggers import OwnChange, controlled
from kubesched.foundation.util.clock import MINUTE, SECOND
from kubesched.foundation.util.cron_schedule import Schedule, parse_schedule

__all__ = ["CRON_JOB_CONTROLLER", "plan_cron_job"]

Json = dict[str, Any]

_SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_TOO_MANY = 100
_MISSED = (
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
)


def plan_cron_job(
    objects: ObjectIndex, owner: CronJob, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Create the Job that is due, delete old ones, and set the status."""
    if owner.metadata.deletion_timestamp is not None:
        return ActionPlan()
    jobs: list[Job] = objects.controlled(owner.metadata.uid, Job)
    actions = _delete_surplus(owner, jobs)
    running = [job for job in jobs if _end_condition(job) is None]
    active = _active_jobs(running, document)
    actions += _unexpected_events(owner, running, active)
    status: Json = {}
    last_success = _last_success(jobs)
    if last_success > (owner.status.last_successful_time or ""):
        status["lastSuccessfulTime"] = last_success
    due = ActionPlan() if owner.spec.suspend else _plan_due(owner, document, active, status, now_ns)
    actions += due.actions
    references = [_reference(job) for job in sorted(active, key=lambda job: job.metadata.name)]
    stored = document.get("status", {}).get("active", [])
    if {each["uid"] for each in references} != {each.get("uid") for each in stored}:
        status["active"] = references or None
        actions += _end_events(owner, jobs, stored)
    actions += status_patch(owner, document, status)
    return ActionPlan(actions, due.again_ns)


def _active_jobs(running: list[Job], document: Mapping[str, Any]) -> list[Job]:
    """Return the running Jobs that the controller has created, or that the status lists.

    A Job that a user created from the CronJob neither blocks others nor is replaced.
    """
    listed = {each.get("uid", "") for each in document.get("status", {}).get("active", [])}
    return [job for job in running if _is_scheduled(job) or job.metadata.uid in listed]


def _plan_due(
    owner: CronJob, document: Mapping[str, Any], active: list[Job], status: Json, now_ns: int
) -> ActionPlan:
    """Create the Job that is due, and note its time in the status."""
    try:
        schedule = parse_schedule(owner.spec.schedule, owner.spec.time_zone)
    except ValueError as exc:
        text = f"unparseable schedule: {owner.spec.schedule} : {exc}"
        return ActionPlan([RecordEvent(owner, "UnparseableSchedule", text, warning=True)])
    scheduled_ns, actions = _start_due_job(owner, document, schedule, active, now_ns)
    if scheduled_ns is not None:
        status["lastScheduleTime"] = format_time(scheduled_ns)
    return ActionPlan(actions, schedule.after(now_ns))


def _is_scheduled(job: Job) -> bool:
    """Whether the controller has created a Job."""
    return _SCHEDULED_AT in job.metadata.annotations


def _unexpected_events(owner: CronJob, running: list[Job], active: list[Job]) -> list[Action]:
    """Record events about running Jobs that the controller has not created."""
    known = {job.metadata.uid for job in active}
    text = "Saw a job that the controller did not create or forgot: "
    return [
        RecordEvent(owner, "UnexpectedJob", text + job.metadata.name, warning=True)
        for job in running
        if job.metadata.uid not in known
    ]


def _last_success(jobs: list[Job]) -> str:
    times = (job.status.completion_time or "" for job in jobs if _end_condition(job) == "Complete")
    return max(times, default="")


def _end_events(owner: CronJob, jobs: list[Job], stored: list[Json]) -> list[Action]:
    """Record events about Jobs that the status lists as active and that have ended."""
    actions: list[Action] = []
    existing = {job.metadata.uid: job for job in jobs}
    for each in stored:
        job = existing.get(each.get("uid", ""))
        if job is None:
            text = f"Active job went missing: {each.get('name')}"
            actions.append(RecordEvent(owner, "MissingJob", text))
        elif (end := _end_condition(job)) is not None:
            text = f"Saw completed job: {job.metadata.name}, condition: {end}"
            actions.append(RecordEvent(owner, "SawCompletedJob", text))
    return actions


def _start_due_job(
    owner: CronJob,
    document: Mapping[str, Any],
    schedule: Schedule,
    active: list[Job],
    now_ns: int,
) -> tuple[int | None, list[Action]]:
    """Return the scheduled time of the Job that starts now, if any, and the actions."""
    time_ns, missed = _latest_due(owner, schedule, now_ns)
    if time_ns is None:
        return None, []
    actions: list[Action] = []
    if missed > _TOO_MANY:
        actions.append(RecordEvent(owner, "TooManyMissedTimes", _MISSED, warning=True))
    limit = owner.spec.starting_deadline_seconds
    if limit is not None and time_ns + limit * SECOND < now_ns:
        text = f"Missed scheduled time to start a job: {format_time(time_ns)}"
        return None, [RecordEvent(owner, "MissSchedule", text, warning=True)]
    policy = owner.spec.concurrency_policy
    if policy == "Forbid" and active:
        text = (
            "Not starting job because prior execution is running and concurrency policy is Forbid"
        )
        return None, [RecordEvent(owner, "JobAlreadyActive", text)]
    if policy == "Replace":
        actions += [Delete(job, propagation="Background", reports=True) for job in active]
    actions.append(Create(Job, _job(owner, document, time_ns), reports=True, optional=True))
    return time_ns, actions


def _latest_due(owner: CronJob, schedule: Schedule, now_ns: int) -> tuple[int | None, int]:
    """Return the latest due time without a Job, and how many such times there are."""
    created = parse_time(owner.metadata.creation_timestamp or "")
    last_scheduled = owner.status.last_schedule_time
    earliest_ns = created if last_scheduled is None else parse_time(last_scheduled)
    limit = owner.spec.starting_deadline_seconds
    if limit is not None:
        earliest_ns = max(earliest_ns, now_ns - limit * SECOND)
    latest_ns, missed = None, 0
    next_ns = schedule.after(earliest_ns)
    while next_ns is not None and next_ns <= now_ns:
        latest_ns, missed = next_ns, missed + 1
        if missed > _TOO_MANY and not schedule.every_ns:
            # Skip to the last hour: only the latest time gets a Job.
            next_ns = max(next_ns, (schedule.after(now_ns - 60 * MINUTE) or 0))
            if next_ns > now_ns or next_ns == latest_ns:
                next_ns = schedule.after(latest_ns)
        else:
            next_ns = schedule.after(next_ns)
    return latest_ns, missed


def _job(owner: CronJob, document: Mapping[str, Any], time_ns: int) -> Json:
    template = document["spec"].get("jobTemplate", {})
    inner = template.get("metadata", {})
    annotations = {**inner.get("annotations", {}), _SCHEDULED_AT: format_time(time_ns)}
    metadata: Json = {
        "name": f"{owner.metadata.name}-{time_ns // MINUTE}",
        "namespace": owner.metadata.namespace,
        "annotations": annotations,
        "ownerReferences": [controller_reference(owner)],
    }
    if inner.get("labels"):
        metadata["labels"] = inner["labels"]
    return {"metadata": metadata, "spec": template.get("spec", {})}


def _end_condition(job: Job) -> str | None:
    """Return the type of the condition that says that a Job has ended."""
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return condition.type
    return None


def _delete_surplus(owner: CronJob, jobs: list[Job]) -> list[Action]:
    """Delete ended Jobs beyond the history limits, the oldest first."""
    actions: list[Action] = []
    for end, limit in (
        ("Complete", owner.spec.successful_jobs_history_limit),
        ("Failed", owner.spec.failed_jobs_history_limit),
    ):
        if limit is None:
            continue
        ended = sorted(
            (
                job
                for job in jobs
                if _end_condition(job) == end and job.metadata.deletion_timestamp is None
            ),
            key=lambda job: (job.status.start_time or "", job.metadata.name),
        )
        surplus = ended[: max(0, len(ended) - limit)]
        actions += [Delete(job, propagation="Background", reports=True) for job in surplus]
    return actions


def _reference(job: Job) -> Json:
    metadata = job.metadata
    return {
        "apiVersion": Job.api_version,
        "kind": Job.kind,
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
    }


CRON_JOB_CONTROLLER = Controller(
    "cronjob-controller",
    CronJob,
    plan_cron_job,
    triggers=(OwnChange(CronJob), controlled(Job, by=CronJob)),
)
