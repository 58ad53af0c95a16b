"""Validation of nodes, priority classes, volumes, budgets, events and workload controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubesched.api.labels import Selector
from kubesched.api.meta import LabelSelector
from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.container_validation import (
    NEGATIVE,
    check_quantity,
)
from kubesched.cluster.apiserver.rules.validation.metadata_validation import check_label_selector
from kubesched.cluster.apiserver.rules.validation.names import dns_subdomain
from kubesched.cluster.apiserver.rules.validation.placement_validation import (
    check_node_selector,
    check_taints,
)

__all__ = [
    "check_allocation",
    "check_budget",
    "check_claim",
    "check_claim_update",
    "check_event",
    "check_lease",
    "check_node",
    "check_node_update",
    "check_priority_class",
    "check_priority_class_update",
    "check_replication_controller",
    "check_selected_template",
    "check_storage_class",
    "check_storage_class_update",
    "check_volume",
    "check_workload_controller",
]

Json = Mapping[str, Any]

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2 * HIGHEST_USER_PRIORITY,
    "system-node-critical": 2 * HIGHEST_USER_PRIORITY + 1000,
}
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_VOLUME_MODES = ("Block", "Filesystem")
# The fields of the spec of a persistent volume that are no source.
_NO_SOURCES = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def check_node(node: Json) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    if taints := node.get("spec", {}).get("taints"):
        # The reference uses a path below metadata for taints.
        problems += check_taints(taints, "metadata.taints")
    status = node.get("status", {})
    for part in ("capacity", "allocatable"):
        for name, raw in status.get(part, {}).items():
            problems += check_quantity(name, raw, f"status.{part}.{name}")
    return problems


def check_node_update(new: Json, old: Json) -> list[FieldProblem]:
    problems = check_node(new)
    seen = set()
    for index, address in enumerate(new.get("status", {}).get("addresses", ())):
        known = frozenset(address.items())
        if known in seen:
            problems.append(duplicate(f"status.addresses[{index}]", dict(address)))
        seen.add(known)
    spec, before = new.get("spec", {}), old.get("spec", {})
    if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
        text = 'node updates may not change podCIDR except from "" to valid'
        problems.append(forbidden("spec.podCIDRs", text))
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        text = 'node updates may not change providerID except from "" to valid'
        problems.append(forbidden("spec.providerID", text))
    return problems


def check_priority_class(priority_class: Json) -> list[FieldProblem]:
    name, value = priority_class["metadata"].get("name", ""), priority_class.get("value", 0)
    problems = []
    if name.startswith("system-"):
        if SYSTEM_PRIORITIES.get(name) != value:
            text = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
                if name not in SYSTEM_PRIORITIES
                else "priority class names with 'system-' prefix are reserved for system use "
                f"only. error: value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
            )
            problems.append(forbidden("metadata.name", text))
    elif value > HIGHEST_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        problems.append(forbidden("value", text))
    policy = priority_class.get("preemptionPolicy")
    if policy not in (None, "PreemptLowerPriority", "Never"):
        choices = ("PreemptLowerPriority", "Never")
        problems.append(not_supported("preemptionPolicy", policy, choices))
    return problems


def check_priority_class_update(new: Json, old: Json) -> list[FieldProblem]:
    problems = []
    if new.get("value", 0) != old.get("value", 0):
        problems.append(forbidden("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        problems.append(immutable("preemptionPolicy", new.get("preemptionPolicy")))
    return problems


def check_lease(lease: Json) -> list[FieldProblem]:
    spec = lease.get("spec", {})
    problems = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        text = "must be greater than 0"
        problems.append(invalid("spec.leaseDurationSeconds", duration, text))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        problems.append(invalid("spec.leaseTransitions", transitions, NEGATIVE))
    return problems


def check_event(event: Json) -> list[FieldProblem]:
    """Check an event in the form of events.k8s.io. Converted core events get fewer checks."""
    problems = []
    namespace = event["metadata"].get("namespace", "")
    about = event.get("regarding", {}).get("namespace", "")
    if about != namespace and (about or namespace != "default"):
        text = "does not match event.namespace"
        problems.append(invalid("involvedObject.namespace", about, text))
    if not event.get("eventTime"):
        return problems  # older event recorders do not set the fields below
    if not event.get("reportingController"):
        problems.append(required("reportingController"))
    if not event.get("reportingInstance"):
        problems.append(required("reportingInstance"))
    elif len(event["reportingInstance"]) > 128:
        text = "can have at most 128 characters"
        problems.append(invalid("reportingInstance", "", text))
    for field in ("action", "reason"):
        if not event.get(field):
            problems.append(required(field))
        elif len(event[field]) > 128:
            problems.append(invalid(field, "", "can have at most 128 characters"))
    if len(event.get("note", "")) > 1024:
        problems.append(invalid("note", "", "can have at most 1024 characters"))
    if event.get("type") not in ("Normal", "Warning"):
        problems.append(invalid("type", "", f"has invalid value: {event.get('type', '')}"))
    return problems


def check_budget(budget: Json) -> list[FieldProblem]:
    spec = budget.get("spec", {})
    problems = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        problems.append(invalid("spec", dict(spec), text))
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            problems.append(invalid(f"spec.{field}", value, NEGATIVE))
        elif isinstance(value, str) and not (
            value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()
        ):
            text = (
                "a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            problems.append(invalid(f"spec.{field}", value, text))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        path = "spec.unhealthyPodEvictionPolicy"
        problems.append(not_supported(path, policy, _EVICTION_POLICIES))
    return problems + check_label_selector(spec.get("selector"), "spec.selector")


def check_volume(volume: Json) -> list[FieldProblem]:
    spec = volume.get("spec", {})
    problems: list[FieldProblem] = []
    if not spec.get("accessModes"):
        problems.append(required("spec.accessModes"))
    problems += _check_access_modes(spec)
    capacity = spec.get("capacity", {})
    if not capacity:
        problems.append(required("spec.capacity"))
    if capacity and set(capacity) != {"storage"}:
        problems.append(not_supported("spec.capacity", dict(capacity), ("storage",)))
    for name, raw in capacity.items():
        if parse_quantity(raw).sign <= 0:
            text = "must be greater than zero"
            problems.append(invalid(f"spec.capacity[{name}]", str(parse_quantity(raw)), text))
    if affinity := spec.get("nodeAffinity"):
        if affinity.get("required") is None:
            problems.append(
                required("spec.nodeAffinity.required", "must specify required node constraints")
            )
        else:
            problems += check_node_selector(affinity["required"], "spec.nodeAffinity.required")
    return problems + _check_volume_source(spec) + _check_volume_choices(spec)


def _check_volume_source(spec: Json) -> list[FieldProblem]:
    """Check that a volume has exactly one source."""
    found = [field for field in spec if field not in _NO_SOURCES and spec[field] is not None]
    if not found:
        return [required("spec", "must specify a volume type")]
    text = "may not specify more than 1 volume type"
    problems = [forbidden(f"spec.{field}", text) for field in sorted(found)[1:]]
    if (host := spec.get("hostPath")) is not None:
        path = host.get("path") or ""
        if not path:
            problems.append(required("spec.hostPath.path"))
        if ".." in path.split("/"):
            problems.append(invalid("spec.hostPath.path", path, "must not contain '..'"))
    return problems


def _check_volume_choices(spec: Json) -> list[FieldProblem]:
    problems = []
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _RECLAIM_POLICIES:
        path = "spec.persistentVolumeReclaimPolicy"
        problems.append(not_supported(path, policy, _RECLAIM_POLICIES))
    if name := spec.get("storageClassName"):
        problems += [invalid("spec.storageClassName", name, text) for text in dns_subdomain(name)]
    return problems + _check_volume_mode(spec)


def _check_volume_mode(spec: Json) -> list[FieldProblem]:
    mode = spec.get("volumeMode")
    if mode in _VOLUME_MODES:
        return []
    return [not_supported("spec.volumeMode", mode, _VOLUME_MODES)]


def _check_access_modes(spec: Json) -> list[FieldProblem]:
    modes = spec.get("accessModes") or ()
    problems = [
        not_supported("spec.accessModes", mode, _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    ]
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        problems.append(forbidden("spec.accessModes", text))
    return problems


def check_claim(claim: Json) -> list[FieldProblem]:
    spec = claim.get("spec", {})
    problems: list[FieldProblem] = []
    if not spec.get("accessModes"):
        problems.append(required("spec.accessModes", "at least 1 access mode is required"))
    problems += check_label_selector(spec.get("selector"), "spec.selector")
    problems += _check_access_modes(spec)
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None:
        problems.append(required("spec.resources[storage]"))
    elif parse_quantity(storage).sign <= 0:
        text = "must be greater than zero"
        problems.append(invalid("spec.resources[storage]", str(parse_quantity(storage)), text))
    if name := spec.get("storageClassName"):
        problems += [invalid("spec.storageClassName", name, text) for text in dns_subdomain(name)]
    return problems + _check_volume_mode(spec)


def check_claim_update(new: Json, old: Json) -> list[FieldProblem]:
    """Check that only the volume name and a larger request of a claim change."""
    spec, before = dict(new.get("spec", {})), dict(old.get("spec", {}))
    if not before.get("volumeName"):
        before.pop("volumeName", None)
        spec.pop("volumeName", None)
    for part in (spec, before):
        part.pop("resources", None)
        part.pop("volumeAttributesClassName", None)
    if spec == before:
        return []
    text = (
        "spec is immutable after creation except resources.requests and "
        "volumeAttributesClassName for bound claims"
    )
    return [forbidden("spec", text)]


def check_storage_class(storage_class: Json) -> list[FieldProblem]:
    problems = []
    if not storage_class.get("provisioner"):
        problems.append(required("provisioner"))
    mode = storage_class.get("volumeBindingMode")
    if mode not in ("Immediate", "WaitForFirstConsumer"):
        choices = ("Immediate", "WaitForFirstConsumer")
        problems.append(not_supported("volumeBindingMode", mode, choices))
    policy = storage_class.get("reclaimPolicy")
    if policy not in ("Delete", "Retain"):
        problems.append(not_supported("reclaimPolicy", policy, ("Delete", "Retain")))
    return problems


def check_storage_class_update(new: Json, old: Json) -> list[FieldProblem]:
    problems = []
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if new.get(field) != old.get(field):
            text = f"updates to {field} are forbidden."
            problems.append(forbidden(field, text))
    if new.get("volumeBindingMode") != old.get("volumeBindingMode"):
        problems.append(immutable("volumeBindingMode", new.get("volumeBindingMode")))
    return problems


def check_allocation(new: Json, old: Json) -> list[FieldProblem]:
    """Check that the allocation of a resource claim does not change, except by removal."""
    status, before = new.get("status", {}), old.get("status", {})
    allocation, allocated = status.get("allocation"), before.get("allocation")
    problems = []
    if allocation is None:
        if status.get("reservedFor"):
            text = "may not be specified when `allocated` is not set"
            problems.append(forbidden("status.reservedFor", text))
    elif allocated is not None and allocation != allocated:
        problems.append(immutable("status.allocation", allocation))
    return problems


def check_workload_controller(owner: Json) -> list[FieldProblem]:
    """Check a deployment, replica set, stateful set or daemon set."""
    spec = owner.get("spec", {})
    problems: list[FieldProblem] = []
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        problems.append(invalid("spec.replicas", replicas, NEGATIVE))
    selector = spec.get("selector")
    if selector is None:
        problems.append(required("spec.selector"))
        return problems
    return problems + check_selected_template(spec)


def check_selected_template(spec: Json) -> list[FieldProblem]:
    """Check that a selector matches the labels of the pod template.

    A controller whose selector does not match would create pods without end.
    """
    selector = spec.get("selector") or {}
    problems = check_label_selector(selector, "spec.selector")
    if problems:
        return problems
    chosen = Selector.from_label_selector(msgspec.convert(selector, LabelSelector))
    return _check_template_labels(spec, chosen)


def check_replication_controller(owner: Json) -> list[FieldProblem]:
    spec = owner.get("spec", {})
    problems: list[FieldProblem] = []
    replicas = spec.get("replicas")
    if not spec.get("selector"):
        problems.append(required("spec.selector"))
    if replicas is not None and replicas < 0:
        problems.append(invalid("spec.replicas", replicas, NEGATIVE))
    if spec.get("template") is None:
        problems.append(required("spec.template"))
    elif spec.get("selector"):
        problems += _check_template_labels(spec, Selector.from_map(spec["selector"]))
    return problems


def _check_template_labels(spec: Json, selector: Selector) -> list[FieldProblem]:
    labels = (spec.get("template", {}).get("metadata") or {}).get("labels") or {}
    if selector.matches(labels):
        return []
    text = "`selector` does not match template `labels`"
    return [invalid("spec.template.metadata.labels", dict(labels), text)]
