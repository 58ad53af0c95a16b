"""Validation of workload controllers: immutable fields, and the schedule of cron jobs."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.rollout_validation import check_numbers
from kubesched.foundation.util.cron_schedule import parse_schedule

__all__ = [
    "check_cron_job",
    "check_job",
    "check_job_change",
    "check_selector_change",
    "check_stateful_set_change",
]

Json = Mapping[str, Any]

_STATEFUL_SET_MAY_CHANGE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_JOB_KEEPS = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_JOB_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_CRON_JOB_NUMBERS = (
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "failedJobsHistoryLimit",
)
_CONCURRENCY = ("Allow", "Forbid", "Replace")
# Names of jobs have eleven characters more.
_LONGEST_CRON_JOB_NAME = 52
_SCHEDULING = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal, apart from empty parts, which typed clients may send."""
    return one == other or bool(_without_empty(one) == _without_empty(other))


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, {}, [], "")} or None
    if isinstance(value, list):
        return [_without_empty(each) for each in value] or None
    return value


def check_selector_change(new: Json, old: Json) -> list[FieldProblem]:
    """Check that the selector of a deployment, replica set or daemon set does not change."""
    selector = new.get("spec", {}).get("selector")
    if _same(selector, old.get("spec", {}).get("selector")):
        return []
    return [immutable("spec.selector", selector)]


def check_stateful_set_change(new: Json, old: Json) -> list[FieldProblem]:
    spec, before = new.get("spec", {}), old.get("spec", {})
    changed = {key for key in {*spec, *before} if not _same(spec.get(key), before.get(key))}
    if changed <= set(_STATEFUL_SET_MAY_CHANGE):
        return []
    *first, last = (f"'{field}'" for field in _STATEFUL_SET_MAY_CHANGE)
    named = f"{', '.join(first)} and {last}"
    text = f"updates to statefulset spec for fields other than {named} are forbidden"
    return [forbidden("spec", text)]


def check_job_change(new: Json, old: Json) -> list[FieldProblem]:
    spec, before = new.get("spec", {}), old.get("spec", {})
    problems = []
    if spec.get("completions") != before.get("completions") and not _is_elastic(spec, before):
        problems.append(immutable("spec.completions", spec.get("completions")))
    template, held = spec.get("template", {}), before.get("template", {})
    if not _same(template, held):
        # The job has no running pods, so the placement of its future pods may change.
        is_idle = before.get("suspend") and not old.get("status", {}).get("active")
        if not is_idle or not _same(_fixed(template), _fixed(held)):
            problems.append(immutable("spec.template", template))
    problems += [
        immutable(f"spec.{field}", spec.get(field))
        for field in _JOB_KEEPS
        if not _same(spec.get(field), before.get(field))
    ]
    return problems


def _is_elastic(spec: Json, before: Json) -> bool:
    """Whether an indexed job grows or shrinks in all its indexes at once."""
    together = spec.get("completions") == spec.get("parallelism")
    return before.get("completionMode") == "Indexed" and together


def _fixed(template: Json) -> Json:
    """Return the parts of a template that an idle job cannot change.

    It can change placement, resources, labels and annotations.
    """
    spec = {key: value for key, value in template.get("spec", {}).items() if key not in _SCHEDULING}
    for part in ("containers", "initContainers"):
        if part in spec:
            spec[part] = _without_resources(spec[part])
    metadata = template.get("metadata", {})
    kept = {key: value for key, value in metadata.items() if key not in ("labels", "annotations")}
    return {**template, "metadata": kept, "spec": spec}


def _without_resources(containers: Sequence[Json]) -> list[Json]:
    return [
        {key: value for key, value in each.items() if key != "resources"} for each in containers
    ]


def check_job(job: Json) -> list[FieldProblem]:
    """Check the fields of a job that need no pod."""
    spec = job.get("spec", {})
    problems = list(check_numbers(spec, _JOB_NUMBERS))
    mode = spec.get("completionMode")
    if mode not in ("Indexed", "NonIndexed"):
        problems.append(not_supported("spec.completionMode", mode, ("Indexed", "NonIndexed")))
    is_indexed, completions = mode == "Indexed", spec.get("completions")
    if is_indexed and completions is None:
        text = "when completion mode is Indexed"
        problems.append(required("spec.completions", text))
    problems += [
        invalid(f"spec.{field}", spec[field], "requires indexed completion mode")
        for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
        if spec.get(field) is not None and not is_indexed
    ]
    most = spec.get("maxFailedIndexes")
    if most is not None:
        if completions is not None and most > completions:
            text = "must be less than or equal to completions"
            problems.append(invalid("spec.maxFailedIndexes", most, text))
        if spec.get("backoffLimitPerIndex") is None:
            text = "when maxFailedIndexes is specified"
            problems.append(required("spec.backoffLimitPerIndex", text))
    restart = spec.get("template", {}).get("spec", {}).get("restartPolicy")
    if spec.get("podFailurePolicy") is not None and restart != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        problems.append(invalid("spec.template.spec.restartPolicy", restart, text))
    return problems


def check_cron_job(cron_job: Json, *, is_new: bool = True) -> list[FieldProblem]:
    """Check a cron job. A stored one may have a time zone in its schedule."""
    spec = cron_job.get("spec", {})
    problems = [
        *_check_schedule(spec, is_new=is_new),
        *check_numbers(spec, _CRON_JOB_NUMBERS),
        *_check_zone(spec.get("timeZone")),
    ]
    policy = spec.get("concurrencyPolicy")
    if policy not in _CONCURRENCY:
        problems.append(not_supported("spec.concurrencyPolicy", policy, _CONCURRENCY))
    name = cron_job["metadata"].get("name", "")
    if is_new and len(name) > _LONGEST_CRON_JOB_NAME:
        text = f"must be no more than {_LONGEST_CRON_JOB_NAME} characters"
        problems.append(invalid("metadata.name", name, text))
    return problems


def _check_schedule(spec: Json, *, is_new: bool) -> Iterator[FieldProblem]:
    schedule, path = spec.get("schedule"), "spec.schedule"
    if not schedule:
        yield required(path)
        return
    try:
        parse_schedule(schedule)
    except ValueError as problem:
        yield invalid(path, schedule, str(problem))
    if "TZ" not in schedule:
        return
    if spec.get("timeZone") is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid(path, schedule, text)
    elif is_new:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid(path, schedule, text)


def _check_zone(zone: str | None) -> Iterator[FieldProblem]:
    path = "spec.timeZone"
    if zone is None:
        return
    if not zone:
        yield invalid(path, zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        text = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        yield invalid(path, zone, text)
    elif not _is_zone(zone):
        yield invalid(path, zone, f"unknown time zone {zone}")


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
