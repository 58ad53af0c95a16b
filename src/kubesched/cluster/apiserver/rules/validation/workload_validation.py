"""Validation of workload controllers: immutable fields, and the schedule of cron jobs."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    immutable,
    invalid,
    required,
)

__all__ = [
    "check_cron_job",
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


def check_cron_job(cron_job: Json) -> list[FieldProblem]:
    spec = cron_job.get("spec", {})
    problems = []
    if not spec.get("schedule"):
        problems.append(required("spec.schedule"))
    zone = spec.get("timeZone")
    if zone is not None and not _is_zone(zone):
        problems.append(invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
    return problems


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
