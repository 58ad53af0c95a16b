"""ResourceQuota rules: the usage of an object, scopes, and the check against hard limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.api.pod_requests import pod_requests
from kubesched.api.quantity import ZERO, Quantity, parse_quantity
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource

__all__ = [
    "Usage",
    "compute_usage",
    "describe_excess",
    "is_in_scope",
    "missing_requirements",
    "pod_usage",
]

Json = dict[str, Any]
Usage = dict[str, Quantity]

_ONE = Quantity.from_value(1)
_COUNTED = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_NATIVE = frozenset({*_COMPUTE, "storage"})


def compute_usage(resource: Resource, document: Json) -> Usage:
    """Return the usage of an object, under every name that a quota can limit."""
    counted = resource.group_resource
    used: Usage = {f"count/{counted}": _ONE}
    if counted == "pods":
        if document.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return used
        return {**used, **pod_usage(document)}
    if counted in _COUNTED:
        used[counted] = _ONE
    if counted == "services":
        used |= _service(document)
    elif counted == "persistentvolumeclaims":
        used |= _claim(document)
    elif counted == "resourceclaims.resource.k8s.io":
        used |= _devices(document)
    return used


def pod_usage(document: Json) -> Usage:
    """Return the usage of a pod that has not finished."""
    used: Usage = {"pods": _ONE}
    pod = msgspec.convert(document, Pod)
    for name, amount in pod_requests(pod).items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = amount
        used[f"requests.{name}"] = amount
    limits: Usage = {}
    for container in document["spec"].get("containers", ()):
        for name, raw in container.get("resources", {}).get("limits", {}).items():
            limits[name] = limits.get(name, ZERO) + parse_quantity(raw)
    for container in document["spec"].get("initContainers", ()):
        for name, raw in container.get("resources", {}).get("limits", {}).items():
            limits[name] = max(limits.get(name, ZERO), parse_quantity(raw))
    used |= {f"limits.{name}": amount for name, amount in limits.items() if name in _NATIVE}
    return used


def _service(document: Json) -> Usage:
    spec = document.get("spec", {})
    kind, ports = spec.get("type"), Quantity.from_value(len(spec.get("ports", ())))
    if kind == "NodePort":
        return {"services.nodeports": ports}
    if kind == "LoadBalancer":
        own = spec.get("allocateLoadBalancerNodePorts", True)
        return {"services.loadbalancers": _ONE, "services.nodeports": ports if own else ZERO}
    return {}


def _claim(document: Json) -> Usage:
    spec = document.get("spec", {})
    raw = spec.get("resources", {}).get("requests", {}).get("storage")
    size = ZERO if raw is None else parse_quantity(raw)
    used = {"requests.storage": size}
    if name := spec.get("storageClassName"):
        prefix = f"{name}.storageclass.storage.k8s.io/"
        used |= {prefix + "persistentvolumeclaims": _ONE, prefix + "requests.storage": size}
    return used


def _devices(document: Json) -> Usage:
    used: Usage = {}
    for request in document.get("spec", {}).get("devices", {}).get("requests", ()):
        each = request.get("exactly") or {}
        name = each.get("deviceClassName")
        if name:
            key = f"{name}.deviceclass.resource.k8s.io/devices"
            used[key] = used.get(key, ZERO) + Quantity.from_value(each.get("count", 1))
    return used


def is_in_scope(quota: Json, resource: Resource, document: Json) -> bool:
    """Whether a quota's scopes select an object."""
    spec = quota["spec"]
    required = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes", ())]
    required += spec.get("scopeSelector", {}).get("matchExpressions", ())
    if not required:
        return True
    plural = resource.group_resource
    if plural == "persistentvolumeclaims":
        return all(_claim_matches(each, document) for each in required)
    return plural == "pods" and all(_pod_matches(each, document) for each in required)


def _matches(requirement: Mapping[str, Any], value: str) -> bool:
    match requirement.get("operator"):
        case "In":
            return value in requirement.get("values", ())
        case "NotIn":
            return value not in requirement.get("values", ())
        case "DoesNotExist":
            return not value
    return bool(value)


def _claim_matches(requirement: Mapping[str, Any], claim: Json) -> bool:
    if requirement["scopeName"] != "VolumeAttributesClass":
        return False
    names = _attributes_classes(claim) or [""]
    if requirement.get("operator") == "NotIn":
        return all(_matches(requirement, name) for name in names)
    return any(_matches(requirement, name) for name in names)


def _attributes_classes(claim: Json) -> list[str]:
    """Return the requested, the current and the target volume attributes class of a claim."""
    status = claim.get("status", {})
    named = (
        claim.get("spec", {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        status.get("modifyVolumeStatus", {}).get("targetVolumeAttributesClassName"),
    )
    return [name for name in named if name]


def _pod_matches(requirement: Mapping[str, Any], pod: Json) -> bool:
    spec = pod["spec"]
    match requirement["scopeName"]:
        case "Terminating":
            return (spec.get("activeDeadlineSeconds") or -1) >= 0
        case "NotTerminating":
            return (spec.get("activeDeadlineSeconds") or -1) < 0
        case "BestEffort":
            return bool(pod.get("status", {}).get("qosClass") == "BestEffort")
        case "NotBestEffort":
            return bool(pod.get("status", {}).get("qosClass") != "BestEffort")
        case "PriorityClass":
            return _matches(requirement, spec.get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            return _crosses_namespaces(spec)
    return False


def _crosses_namespaces(spec: Json) -> bool:
    for part in ("podAffinity", "podAntiAffinity"):
        terms = spec.get("affinity", {}).get(part, {})
        for each in terms.get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            if each.get("namespaces") or each.get("namespaceSelector") is not None:
                return True
        for each in terms.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            term = each.get("podAffinityTerm", {})
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False


def missing_requirements(quota: Json, pod: Json) -> str:
    """List the requests and limits that a quota requires and a pod's containers lack."""
    hard = quota["spec"].get("hard", {})
    missing: dict[str, list[str]] = {}
    for key in sorted(hard):
        part, _, name = key.rpartition(".")
        if part not in ("", "requests", "limits") or name not in ("cpu", "memory"):
            continue
        field = part or "requests"
        for container in (
            *pod["spec"].get("containers", ()),
            *pod["spec"].get("initContainers", ()),
        ):
            if name not in container.get("resources", {}).get(field, {}):
                missing.setdefault(key, []).append(container["name"])
    return "; ".join(f"{key} for: {','.join(names)}" for key, names in missing.items())


def describe_excess(quota: Json, added: Usage) -> str:
    """Describe how additional usage would exceed a quota; empty if it would not."""
    hard = quota["spec"].get("hard", {})
    used = quota.get("status", {}).get("used", {})
    beyond = [
        name
        for name in sorted(hard)
        if name in added
        and not added[name].is_zero
        and parse_quantity(used.get(name, "0")) + added[name] > parse_quantity(hard[name])
    ]
    if not beyond:
        return ""
    requested = ",".join(f"{name}={added[name]}" for name in beyond)
    in_use = ",".join(f"{name}={used.get(name, '0')}" for name in beyond)
    limited = ",".join(f"{name}={hard[name]}" for name in beyond)
    name = quota["metadata"]["name"]
    return f"exceeded quota: {name}, requested: {requested}, used: {in_use}, limited: {limited}"
