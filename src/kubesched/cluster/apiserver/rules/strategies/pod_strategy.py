"""The strategy of pods: defaults, admission, binding and grace period."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.errors.api_errors import conflict, forbidden
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.errors.field_problems import invalid as invalid_field
from kubesched.cluster.apiserver.rules.strategies.limit_ranges import apply_limit_ranges
from kubesched.cluster.apiserver.rules.strategies.pod_defaults import (
    default_pod_spec,
    qos_class,
    with_ephemeral_defaults,
)
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import (
    Json,
    ObjectLookup,
    ResourceStrategy,
    set_part,
)
from kubesched.cluster.apiserver.rules.strategies.runtime_classes import apply_runtime_class
from kubesched.cluster.apiserver.rules.strategies.shared_specs import (
    SharedSpec,
    compute_once,
    share_spec,
)
from kubesched.cluster.apiserver.rules.validation.ephemeral_containers import (
    check_ephemeral_containers,
)
from kubesched.cluster.apiserver.rules.validation.pod_group_validation import check_scheduling_group
from kubesched.cluster.apiserver.rules.validation.pod_validation import (
    check_pod,
    check_pod_spec,
    check_pod_status_update,
    check_pod_update,
)

__all__ = ["PodStrategy", "bind", "global_default_class", "topology_labels"]

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_EVICTION_DELAY = 300

_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
_GATED_REASON = "SchedulingGated"
_GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


_EPHEMERAL = "ephemeralContainers"
_GROUP = "schedulingGroup"


def _resized(containers: list[Json], requested: Iterable[Json]) -> list[Json]:
    """Set the requested resources of containers, by name."""
    resources = {each.get("name"): each.get("resources") for each in requested}
    return [
        {**each, "resources": resources[each["name"]]} if resources.get(each["name"]) else each
        for each in containers
    ]


class PodStrategy(ResourceStrategy):
    """The rules for pods."""

    has_status = True
    counts_generations = True
    graceful = True
    spec_parts = ("ephemeralcontainers", "resize")

    def __init__(self, *, has_groups: bool = True, compares: bool = True) -> None:
        """`has_groups` says whether pod groups are enabled. Otherwise the field is dropped.

        With `compares` tolerations may have the operators Lt and Gt.
        """
        self._has_groups = has_groups
        self._compares = compares
        self._facts_of = _spec_facts if compares else _spec_facts_without_comparisons

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        return {**new, "spec": compute_once(_defaulted, share_spec(spec))}

    def admit(self, new: Json, cluster: ObjectLookup, /) -> Json:
        namespace = new["metadata"].get("namespace", "")
        if not self._has_groups and _GROUP in new["spec"]:
            new = {**new, "spec": set_part(new["spec"], _GROUP, None)}
        if ranges := cluster.in_namespace("limitranges", namespace):
            metadata, spec = apply_limit_ranges(new, new["spec"], ranges)
            new = {**new, "metadata": metadata, "spec": spec}
        spec = _with_priority(new, cluster)
        spec = compute_once(_with_default_tolerations, spec)
        spec = apply_runtime_class(new, spec, cluster)
        if (node := spec.get("nodeName")) and (labels := topology_labels(cluster, node)):
            new = {**new, "metadata": _with_labels(new["metadata"], labels)}
        return {**new, "spec": spec}

    def prepare_create(self, new: Json, stamp: str, /) -> Json:
        spec = share_spec(_with_merged_label_keys(new["spec"], new["metadata"].get("labels", {})))
        status: Json = {
            "phase": "Pending",
            "qosClass": compute_once(self._facts_of, spec).qos_class,
        }
        if spec.get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastTransitionTime": stamp,
                    "reason": _GATED_REASON,
                    "message": _GATED_MESSAGE,
                }
            ]
        return {**new, "spec": spec, "status": status}

    def prepare_update(self, new: Json, old: Json, /) -> Json:
        new = super().prepare_update(new, old)
        if new["spec"] is old["spec"]:
            return new
        return {**new, "spec": _with_default_tolerations(new["spec"])}

    def prepare_status(self, new: Json, old: Json, /) -> Json:
        status = new.get("status", {})
        before = old.get("status", {})
        if not status.get("qosClass") and "qosClass" in before:
            status = {**status, "qosClass": before["qosClass"]}
        owners = old["metadata"].get("ownerReferences")
        metadata = set_part(new["metadata"], "ownerReferences", owners)
        return {**new, "metadata": metadata, "spec": old["spec"], "status": status}

    def prepare_part(self, part: str, new: Json, old: Json, /) -> Json:
        requested, spec = new["spec"], dict(old["spec"])
        if part == "ephemeralcontainers":
            spec[_EPHEMERAL] = with_ephemeral_defaults(requested.get(_EPHEMERAL) or [])
        else:
            for field in ("containers", "initContainers"):
                if spec.get(field):
                    spec[field] = _resized(spec[field], requested.get(field) or ())
        return {**old, "metadata": new["metadata"], "spec": spec}

    def check_part(self, part: str, new: Json, old: Json, /) -> list[FieldProblem]:
        if part == "ephemeralcontainers":
            return check_ephemeral_containers(new["spec"], old["spec"])
        facts = compute_once(self._facts_of, share_spec(new["spec"]))
        problems = check_pod(new, facts.problems, is_new=False)
        if facts.qos_class != old.get("status", {}).get("qosClass", facts.qos_class):
            was = old["status"]["qosClass"]
            text = "Pod QOS Class may not change as a result of resizing"
            problems.append(invalid_field("spec", was, text))
        return problems

    def check(self, new: Json, *, namespaced: bool) -> list[FieldProblem]:  # noqa: ARG002
        problems = check_pod(new, compute_once(self._facts_of, share_spec(new["spec"])).problems)
        if _GROUP in new["spec"]:
            problems += check_scheduling_group(new["spec"][_GROUP], f"spec.{_GROUP}")
        return problems

    def check_update(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_pod_update(new, old, compares=self._compares)

    def check_status(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_pod_status_update(new, old)

    def changed(self, new: Json, old: Json, /) -> bool:
        return new["spec"] is not old["spec"] and new["spec"] != old["spec"]

    def grace_period(self, old: Json, requested: int | None, /) -> int:
        spec = old["spec"]
        period: int = (
            spec.get("terminationGracePeriodSeconds") or 0 if requested is None else requested
        )
        # A pod without a node, or one that has ended, has no running containers.
        if not spec.get("nodeName") or old.get("status", {}).get("phase") in (
            "Failed",
            "Succeeded",
        ):
            return 0
        return 1 if period < 0 else period


class _SpecFacts(NamedTuple):
    """Facts about a complete spec, cached per shared spec."""

    qos_class: str
    problems: tuple[FieldProblem, ...]


def _defaulted(spec: Json) -> SharedSpec:
    return share_spec(default_pod_spec(spec))


def _spec_facts(spec: Json) -> _SpecFacts:
    return _SpecFacts(qos_class(spec), tuple(check_pod_spec(spec, "spec")))


def _spec_facts_without_comparisons(spec: Json) -> _SpecFacts:
    return _SpecFacts(qos_class(spec), tuple(check_pod_spec(spec, "spec", compares=False)))


def _with_priority(pod: Json, cluster: ObjectLookup) -> Json:
    """Set the priority of the pod's class, or of the global default class.

    If there is neither, the fields stay absent, which means priority 0.
    """
    spec: Json = pod["spec"]
    name = spec.get("priorityClassName", "")
    if name:
        chosen = cluster.find("priorityclasses", name)
        if chosen is None:
            text = f"no PriorityClass with name {name} was found"
            raise forbidden("pods", pod["metadata"].get("name", ""), text)
    else:
        chosen = global_default_class(cluster)
        if chosen is None:
            return _check_unset_priority(pod, spec)
    value = chosen.get("value", 0)
    if spec.get("priority") not in (None, value):
        raise _wrong_priority(pod, spec["priority"], value)
    filled = {**spec, "priorityClassName": chosen["metadata"]["name"], "priority": value}
    policy = chosen.get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("preemptionPolicy") not in (None, policy):
        text = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
            "provided in pod spec; priority admission controller computed "
            f"{policy} from the given PriorityClass name"
        )
        raise forbidden("pods", pod["metadata"].get("name", ""), text)
    return {**filled, "preemptionPolicy": policy}


def _check_unset_priority(pod: Json, spec: Json) -> Json:
    if spec.get("priority") not in (None, 0):
        raise _wrong_priority(pod, spec["priority"], 0)
    return spec


def _wrong_priority(pod: Json, requested: int, computed: int) -> ApiError:
    text = (
        f"the integer value of priority ({requested}) must not be provided in pod spec; "
        f"priority admission controller computed {computed} from the given PriorityClass name"
    )
    return forbidden("pods", pod["metadata"].get("name", ""), text)


def global_default_class(cluster: ObjectLookup) -> Json | None:
    """Return the global default class; the one with the lowest value if there are several."""
    chosen: Json | None = None
    for candidate in cluster.all("priorityclasses"):
        if candidate.get("globalDefault") and (
            chosen is None or candidate.get("value", 0) < chosen.get("value", 0)
        ):
            chosen = candidate
    return chosen


def _with_default_tolerations(spec: Json) -> Json:
    """Add the tolerations that keep a pod on a failing node for a while."""
    tolerations = spec.get("tolerations", ())
    missing = [
        key
        for key in (_NOT_READY, _UNREACHABLE)
        if not any(
            toleration.get("key", "") in ("", key)
            and toleration.get("effect", "") in ("", "NoExecute")
            for toleration in tolerations
        )
    ]
    if not missing:
        return spec
    added = [_DEFAULT_TOLERATIONS[key] for key in missing]
    return share_spec({**spec, "tolerations": [*tolerations, *added]})


_DEFAULT_TOLERATIONS = {
    key: {
        "key": key,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": _EVICTION_DELAY,
    }
    for key in (_NOT_READY, _UNREACHABLE)
}


def _with_merged_label_keys(spec: Json, labels: dict[str, str]) -> Json:
    """Merge the pod's own labels into selectors, for `matchLabelKeys` and `mismatchLabelKeys`.

    docs/reference/06 §0.2.
    """
    merged = spec
    if constraints := spec.get("topologySpreadConstraints"):
        merged = {
            **merged,
            "topologySpreadConstraints": [_merged_term(term, labels) for term in constraints],
        }
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        if not (terms := affinity.get(name)):
            continue
        changed = dict(terms)
        for field, inner in (
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
        ):
            if items := terms.get(field):
                changed[field] = [
                    {**item, inner: _merged_term(item.get(inner, {}), labels)}
                    if inner
                    else _merged_term(item, labels)
                    for item in items
                ]
        affinity = {**affinity, name: changed}
        merged = {**merged, "affinity": affinity}
    return merged


def _merged_term(term: Json, labels: dict[str, str]) -> Json:
    selector = term.get("labelSelector")
    if selector is None:
        return term
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field, ())
        if key in labels
    ]
    if not added:
        return term
    expressions = [*selector.get("matchExpressions", ()), *added]
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}


def topology_labels(cluster: ObjectLookup, node_name: str) -> dict[str, str]:
    """Return the labels that a pod inherits from its node."""
    node = cluster.find("nodes", node_name)
    if node is None:
        return {}
    labels = node["metadata"].get("labels", {})
    return {key: labels[key] for key in _TOPOLOGY_LABELS if key in labels}


def _with_labels(metadata: Json, labels: dict[str, str]) -> Json:
    return {**metadata, "labels": {**metadata.get("labels", {}), **labels}}


def bind(pod: Json, node_name: str, stamp: str, cluster: ObjectLookup) -> Json:
    """Assign a pod to a node. Raises ApiError if that is not allowed."""
    metadata, spec = pod["metadata"], pod["spec"]
    name = metadata["name"]
    if "deletionTimestamp" in metadata:
        raise _not_bound(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if taken := spec.get("nodeName"):
        raise _not_bound(name, f'pod {name} is already assigned to node "{taken}"')
    if spec.get("schedulingGates"):
        raise _not_bound(name, f"pod {name} has non-empty .spec.schedulingGates")
    if labels := topology_labels(cluster, node_name):
        metadata = _with_labels(metadata, labels)
    status = dict(pod.get("status", {}))
    status.pop("nominatedNodeName", None)
    status["conditions"] = _scheduled(status.get("conditions", []), stamp)
    return {
        **pod,
        "metadata": metadata,
        "spec": {**spec, "nodeName": node_name},
        "status": status,
    }


def _not_bound(name: str, text: str) -> ApiError:
    return conflict("pods/binding", name, text)


def _scheduled(conditions: list[Any], stamp: str) -> list[Any]:
    for index, condition in enumerate(conditions):
        if condition.get("type") == "PodScheduled":
            since = stamp
            if condition.get("status") == "True":
                since = condition.get("lastTransitionTime", stamp)
            changed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
            return [*conditions[:index], changed, *conditions[index + 1 :]]
    return [*conditions, {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp}]
