"""Types of `batch/v1`: jobs and cron jobs."""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.base import ApiObject, ApiStruct, Int32, Int64
from kubesched.api.meta import LabelSelector, ObjectMeta
from kubesched.api.pod import PodTemplateSpec
from kubesched.api.reference import ObjectReference

__all__ = ["CronJob", "CronJobSpec", "CronJobStatus", "Job", "JobCondition", "JobSpec", "JobStatus"]


class JobSpec(ApiStruct):
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    active_deadline_seconds: Int64 | None = None
    backoff_limit: Int32 | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    ttl_seconds_after_finished: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None


class JobCondition(ApiStruct):
    type: str = ""
    status: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class JobStatus(ApiStruct):
    conditions: tuple[JobCondition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    terminating: Int32 | None = None
    ready: Int32 | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None


class Job(ApiObject):
    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "Job"

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(ApiStruct):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: Int64 | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None


class CronJobStatus(ApiStruct):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(ApiObject):
    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "CronJob"

    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
