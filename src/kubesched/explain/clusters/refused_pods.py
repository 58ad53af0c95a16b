"""Why a controller creates no pods of a template: its own settings, or what a server refuses.

Only objects are compared, so a dump is enough. Other checks, such as webhooks, are in the events
of the workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubesched.api import Deployment, Pod, PriorityClass
from kubesched.api.batch import CronJob, Job
from kubesched.api.core import LimitRange, ResourceQuota
from kubesched.api.quantity import parse_quantity
from kubesched.api.runtime_class import RuntimeClass
from kubesched.cluster.apiserver.rules.resource_quotas import pod_usage
from kubesched.foundation.client.object_table import ObjectTable
from kubesched.scheduler.plugins.helpers.wording import listed, nearest

__all__ = ["why_no_pods"]

_SYSTEM = "system-"


def why_no_pods(objects: ObjectTable, workload: Any, pod: Pod) -> tuple[str, ...]:
    """Return the reasons that are known; `pod` is the one that the controller would create."""
    if isinstance(workload, Deployment) and workload.spec.paused:
        return ("it is paused (spec.paused)",)
    if isinstance(workload, Job | CronJob) and workload.spec.suspend:
        return ("it is suspended (spec.suspend)",)
    return (*_missing(objects, pod), *_beyond_limits(objects, pod), *_beyond_quotas(objects, pod))


def _missing(objects: ObjectTable, pod: Pod) -> Iterator[str]:
    """Yield the classes that the pod names and a server does not find."""
    named: tuple[tuple[type[PriorityClass | RuntimeClass], str | None], ...] = (
        (PriorityClass, pod.spec.priority_class_name),
        (RuntimeClass, pod.spec.runtime_class_name),
    )
    for kind, name in named:
        if not name or name.startswith(_SYSTEM) or objects.get(kind, name) is not None:
            continue
        near = nearest(name, [each.metadata.name for each in objects.list(kind)])
        hint = f"; did you mean {near}?" if near else ""
        yield f"{kind.__name__} {name} does not exist{hint}"


def _beyond_limits(objects: ObjectTable, pod: Pod) -> Iterator[str]:
    """Yield the largest amounts that a LimitRange allows for a container and that one exceeds."""
    for each in objects.list(LimitRange, pod.metadata.namespace):
        for limit in each.spec.limits:
            if limit.type != "Container":
                continue
            for container in pod.spec.containers:
                given = {**container.resources.requests, **container.resources.limits}
                for name, most in limit.max.items():
                    if name in given and parse_quantity(given[name]) > parse_quantity(most):
                        yield (
                            f"LimitRange {each.metadata.name} allows a container at most {most} "
                            f"{name}, and {container.name} has {given[name]}"
                        )


def _beyond_quotas(objects: ObjectTable, pod: Pod) -> Iterator[str]:
    """Yield what the pod would use beyond a quota; quotas with scopes are left out."""
    added = pod_usage(msgspec.to_builtins(pod))
    for each in objects.list(ResourceQuota, pod.metadata.namespace):
        if each.spec.scopes or each.spec.scope_selector is not None:
            continue
        used = each.status.used
        beyond = [
            f"{name}: a pod adds {added[name]} to {used.get(name, '0')} of {most}"
            for name, most in sorted(each.spec.hard.items())
            if name in added
            and not added[name].is_zero
            and parse_quantity(used.get(name, "0")) + added[name] > parse_quantity(most)
        ]
        if beyond:
            yield f"quota {each.metadata.name} is exceeded ({listed(beyond)})"
