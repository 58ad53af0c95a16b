"""PodGroups of Jobs (gate WorkloadWithJob): an indexed Job becomes a gang (docs/reference/09 §15).

The controller creates a Workload, then a PodGroup of it, and then pods that name the group. Names
are derived from uids, so a restart in between finds what it created before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from kubesched.api import Job, Pod, PodGroup
from kubesched.api.scheduling import Workload
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.jobs import JOB_CONTROLLER, plan_job
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    controller_of,
    controller_reference,
)
from kubesched.cluster.controllers.plans import ActionPlan, Create, RecordEvent
from kubesched.cluster.controllers.triggers import controlled

__all__ = ["GROUPING_JOB_CONTROLLER", "plan_job_with_group"]

Json = dict[str, Any]

_INDEXED: Final = "Indexed"
_LONGEST_NAME: Final = 200


def plan_job_with_group(
    objects: ObjectIndex, owner: Job, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Plan a Job; if it is a gang, its Workload and PodGroup are created before its pods."""
    if not _is_gang(owner, document) or owner.metadata.deletion_timestamp is not None:
        return plan_job(objects, owner, document, now_ns)
    name, namespace = owner.metadata.name, owner.metadata.namespace
    template = f"{name[:_LONGEST_NAME]}-pgt-0"
    workload_name = f"{name[:_LONGEST_NAME]}-{_hash(owner.metadata.uid)}"
    workload = objects.find(Workload, namespace, workload_name)
    is_new = not _has_begun(document) and not objects.controlled(owner.metadata.uid, Pod)
    if workload is None:
        if not is_new:
            return plan_job(objects, owner, document, now_ns)
        created = Create(Workload, _workload(owner, workload_name, template), optional=True)
        message = f"Created Workload {workload_name} for Job {name}"
        return ActionPlan([created, RecordEvent(owner, "WorkloadCreated", message)])
    if not _is_owned(workload, owner):
        return plan_job(objects, owner, document, now_ns)
    group_name = f"{workload_name}-{template}-{_hash(workload.metadata.uid)}"
    group = objects.find(PodGroup, namespace, group_name)
    if group is None:
        if not is_new:
            return plan_job(objects, owner, document, now_ns)
        wanted = _pod_group(owner, workload, group_name, template)
        return ActionPlan([Create(PodGroup, wanted, optional=True)])
    if not _is_owned(group, owner):
        return plan_job(objects, owner, document, now_ns)
    return plan_job(objects, owner, _in_group(document, group_name), now_ns)


def _is_gang(job: Job, document: Mapping[str, Any]) -> bool:
    """Whether all pods of the Job run at the same time and are distinguishable by index."""
    template = document["spec"].get("template", {}).get("spec", {})
    parallelism = job.spec.parallelism or 0
    return (
        job.spec.completion_mode == _INDEXED
        and parallelism > 1
        and job.spec.completions == parallelism
        and "schedulingGroup" not in template
    )


def _has_begun(document: Mapping[str, Any]) -> bool:
    """Whether the controller has synchronised the Job before."""
    status = document.get("status", {})
    counters = ("startTime", "active", "succeeded", "failed", "uncountedTerminatedPods")
    return any(status.get(name) for name in counters) or any(
        each.get("type") == "Suspended" for each in status.get("conditions", ())
    )


def _is_owned(subject: Any, owner: Job) -> bool:
    reference = controller_of(subject)
    return reference is not None and reference.uid == owner.metadata.uid


def _workload(owner: Job, name: str, template: str) -> Json:
    policy = {"gang": {"minCount": owner.spec.parallelism}}
    return {
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": owner.metadata.name},
            "podGroupTemplates": [{"name": template, "schedulingPolicy": policy}],
        },
    }


def _pod_group(owner: Job, workload: Workload, name: str, template: str) -> Json:
    metadata = workload.metadata
    of_workload = {**controller_reference(workload)}
    del of_workload["controller"]
    reference = {"workloadName": metadata.name, "podGroupTemplateName": template}
    return {
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "ownerReferences": [controller_reference(owner), of_workload],
        },
        "spec": {
            "podGroupTemplateRef": {"workload": reference},
            "schedulingPolicy": {"gang": {"minCount": owner.spec.parallelism}},
        },
    }


def _in_group(document: Mapping[str, Any], name: str) -> Json:
    """Return the Job with a pod template that names the group."""
    spec = document["spec"]
    template = spec.get("template", {})
    pod = {**template.get("spec", {}), "schedulingGroup": {"podGroupName": name}}
    return {**document, "spec": {**spec, "template": {**template, "spec": pod}}}


def _hash(uid: str) -> str:
    return hashlib.sha256(uid.encode()).hexdigest()[:10]


GROUPING_JOB_CONTROLLER = Controller(
    JOB_CONTROLLER.name,
    Job,
    plan_job_with_group,
    triggers=(
        *JOB_CONTROLLER.triggers,
        controlled(Workload, by=Job),
        controlled(PodGroup, by=Job),
    ),
)
