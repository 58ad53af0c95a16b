"""The strategies of PodGroups and Workloads (docs/reference/09 §2)."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.cluster.apiserver.rules.errors.api_errors import forbidden
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.strategies.core_strategies import StatusStrategy
from kubesched.cluster.apiserver.rules.strategies.pod_strategy import global_default_class
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import (
    Json,
    ObjectLookup,
    ResourceStrategy,
)
from kubesched.cluster.apiserver.rules.strategies.server_features import (
    DISRUPTION,
    GROUP_CLAIMS,
    TOPOLOGY,
)
from kubesched.cluster.apiserver.rules.validation.pod_group_validation import (
    check_group_status,
    check_immutable,
    check_pod_group,
    check_workload,
)

__all__ = ["PROTECTION", "PodGroupStrategy", "WorkloadStrategy"]

# The finalizer that protects a PodGroup from removal while it has pods.
PROTECTION = "scheduling.k8s.io/podgroup-protection"

_GATED = (
    (TOPOLOGY, ("schedulingConstraints",)),
    (GROUP_CLAIMS, ("resourceClaims",)),
    (DISRUPTION, ("disruptionMode", "priorityClassName", "priority")),
)
_GROUP_FIELDS = (
    "podGroupTemplateRef",
    "schedulingPolicy",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
)


def _dropped(features: frozenset[str]) -> frozenset[str]:
    """Return the fields that belong to disabled features."""
    return frozenset(
        field for feature, fields in _GATED if feature not in features for field in fields
    )


def _without(spec: Json, fields: frozenset[str], kept: Json) -> Json:
    """Remove fields from a spec, except those that the stored object has."""
    if fields.isdisjoint(spec):
        return spec
    return {key: value for key, value in spec.items() if key not in fields or key in kept}


def _ordered(spec: Json, fields: Sequence[str], **unset: None) -> Json:
    """Order the fields as the reference does, and add the fields that it shows even if unset."""
    whole = {**unset, **spec}
    return {
        key: whole[key] for key in (*fields, *(k for k in whole if k not in fields)) if key in whole
    }


class PodGroupStrategy(StatusStrategy):
    """The rules for pod groups."""

    def __init__(self, features: frozenset[str]) -> None:
        self._dropped = _dropped(features)
        self._has_priorities = DISRUPTION in features

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        filled = {**spec, "disruptionMode": spec.get("disruptionMode") or "Pod"}
        kept = {} if old is None else old.get("spec", {})
        filled = _without(filled, self._dropped, kept)
        return {**new, "spec": _ordered(filled, _GROUP_FIELDS, podGroupTemplateRef=None)}

    def admit(self, new: Json, cluster: ObjectLookup, /) -> Json:
        if self._has_priorities:
            new = {**new, "spec": _ordered(_with_priority(new, cluster), _GROUP_FIELDS)}
        metadata = new["metadata"]
        finalizers = metadata.get("finalizers", [])
        if PROTECTION not in finalizers:
            new = {**new, "metadata": {**metadata, "finalizers": [*finalizers, PROTECTION]}}
        if not self.check_new(new):  # otherwise validation reports the problems of the object
            _check_template_exists(new, cluster)
        return new

    def prepare_create(self, new: Json, stamp: str, /) -> Json:
        return {**super().prepare_create(new, stamp), "status": {}}

    def prepare_status(self, new: Json, old: Json, /) -> Json:
        return {**old, "status": new.get("status", {})}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_pod_group(new)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_immutable(new, old, _GROUP_FIELDS)

    def check_status(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return super().check_status(new, old) + check_group_status(new)


class WorkloadStrategy(ResourceStrategy):
    """The rules for workloads."""

    def __init__(self, features: frozenset[str]) -> None:
        self._dropped = _dropped(features)

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if (old is not None and spec is old.get("spec")) or not spec.get("podGroupTemplates"):
            return new
        before = {} if old is None else old.get("spec", {})
        kept = {each.get("name"): each for each in before.get("podGroupTemplates", ())}
        templates = [
            _ordered(
                _without(each, self._dropped, kept.get(each.get("name"), {})),
                ("name", "schedulingPolicy", "schedulingConstraints"),
                schedulingConstraints=None,
            )
            for each in spec["podGroupTemplates"]
        ]
        return {**new, "spec": {**spec, "podGroupTemplates": templates}}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_workload(new)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_immutable(new, old, ("controllerRef", "podGroupTemplates"))


def _with_priority(group: Json, cluster: ObjectLookup) -> Json:
    """Set the priority of the group's class, or of the global default class."""
    spec: Json = group["spec"]
    name, resource = spec.get("priorityClassName", ""), "podgroups.scheduling.k8s.io"
    chosen = cluster.find("priorityclasses", name) if name else global_default_class(cluster)
    if name and chosen is None:
        text = f"no PriorityClass with name {name} was found"
        raise forbidden(resource, group["metadata"].get("name", ""), text)
    value = 0 if chosen is None else chosen.get("value", 0)
    if spec.get("priority") not in (None, value):
        text = (
            f"priority set in the pod group ({spec['priority']}) must match the priority computed "
            f"({value}) based on the priority class set in the spec"
        )
        raise forbidden(resource, group["metadata"].get("name", ""), text)
    filled = {**spec, "priority": value}
    if chosen is not None:
        filled["priorityClassName"] = chosen["metadata"]["name"]
    return filled


def _check_template_exists(group: Json, cluster: ObjectLookup) -> None:
    """Raises ApiError if the group refers to a template that does not exist."""
    reference = (group["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if reference is None:
        return
    metadata, name = group["metadata"], reference["workloadName"]
    key = f"{metadata.get('namespace', '')}/{name}"
    workload = cluster.find("workloads.scheduling.k8s.io", key)
    text, template = "", reference["podGroupTemplateName"]
    if workload is None:
        text = f'Workload "{name}" not found'
    elif "deletionTimestamp" in workload["metadata"]:
        text = f'Workload "{name}" is being deleted'
    elif all(each["name"] != template for each in workload["spec"]["podGroupTemplates"]):
        text = f'PodGroupTemplate "{template}" not found in Workload "{name}"'
    if text:
        resource = "podgroups.scheduling.k8s.io"
        raise forbidden(resource, metadata.get("name", ""), f"PodGroup rejected: {text}")
