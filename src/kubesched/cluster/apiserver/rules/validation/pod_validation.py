"""Validation of pods: on creation, on update of the spec, and on update of the status."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubesched.cluster.apiserver.rules.validation.container_validation import (
    check_containers,
    check_init_containers,
    check_resource_requirements,
)
from kubesched.cluster.apiserver.rules.validation.metadata_validation import (
    check_labels,
    check_metadata,
    check_metadata_update,
)
from kubesched.cluster.apiserver.rules.validation.names import (
    dns_label,
    dns_subdomain,
    qualified_name,
)
from kubesched.cluster.apiserver.rules.validation.placement_validation import (
    check_affinity,
    check_scheduling_gates,
    check_tolerations,
    check_topology_spread,
)
from kubesched.cluster.apiserver.rules.validation.pod_update_validation import check_spec_change

__all__ = [
    "check_pod",
    "check_pod_spec",
    "check_pod_status_update",
    "check_pod_update",
    "check_restarts",
]

Json = Mapping[str, Any]

_MAX_INT32 = 2**31 - 1
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_HOSTNAME_LENGTH = 64
_SYSCTL_PART = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_SYSCTL_PART}[\\./])*{_SYSCTL_PART}$"
_SYSCTL_RE = re.compile(rf"({_SYSCTL_PART}[./])*{_SYSCTL_PART}")
_SYSCTL_LENGTH = 253
_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized", "ContainersReady"})


def check_pod(
    pod: Json, spec_problems: Sequence[FieldProblem], *, is_new: bool = True
) -> list[FieldProblem]:
    """Return the problems of a pod, including those of its spec."""
    problems = check_metadata(pod["metadata"], namespaced=True, name_rule=dns_subdomain)
    problems += spec_problems
    spec = pod["spec"]
    if is_new and spec.get("ephemeralContainers"):
        problems.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        problems.append(forbidden("spec.nodeName", text))
    return problems


def check_pod_update(new: Json, old: Json, *, compares: bool = True) -> list[FieldProblem]:
    problems = check_metadata_update(new["metadata"], old["metadata"])
    if new["spec"] is old["spec"] or new["spec"] == old["spec"]:
        return problems
    problems += check_pod_spec(new["spec"], "spec", compares=compares)
    return problems + check_spec_change(new["spec"], old["spec"])


def check_pod_status_update(new: Json, old: Json) -> list[FieldProblem]:
    problems = check_metadata_update(new["metadata"], old["metadata"])
    status, before = new.get("status", {}), old.get("status", {})
    for index, condition in enumerate(status.get("conditions", ())):
        kind = condition.get("type", "")
        if kind not in _SYSTEM_CONDITIONS:
            field = f"metadata.conditions[{index}].Type"
            problems += [invalid(field, kind, text) for text in qualified_name(kind)]
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != before.get("nominatedNodeName", ""):
        problems += [
            invalid("status.nominatedNodeName", nominated, text)
            for text in dns_subdomain(nominated)
        ]
    if before.get("qosClass") and status.get("qosClass", "") != before["qosClass"]:
        problems.append(immutable("status.qosClass", status.get("qosClass", "")))
    return problems + check_restarts(status, before, old["spec"].get("restartPolicy", ""))


def check_restarts(status: Json, before: Json, policy: str) -> list[FieldProblem]:
    """Check that a terminated container that cannot restart stays terminated."""
    if policy == "Always":
        return []
    now = {entry.get("name"): entry for entry in status.get("containerStatuses", ())}
    problems = []
    for index, entry in enumerate(before.get("containerStatuses", ())):
        ended = entry.get("state", {}).get("terminated")
        if ended is None or (ended.get("exitCode") and policy == "OnFailure"):
            continue
        later = now.get(entry.get("name"))
        if later is not None and later.get("state", {}).get("terminated") is None:
            field = f"status.containerStatuses[{index}].state"
            problems.append(forbidden(field, "may not be transitioned to non-terminated state"))
    return problems


def check_pod_spec(
    spec: Json,
    path: str,
    *,
    template: bool = False,
    compares: bool = True,
    has_other_volumes: bool = False,
) -> list[FieldProblem]:
    """Return the problems of a spec, in the order of the reference.

    `compares` is the gate TaintTolerationComparisonOperators. With `has_other_volumes` the pods
    get volumes that the spec does not have.
    """
    volumes = None
    if not has_other_volumes:
        volumes = {each.get("name", "") for each in spec.get("volumes") or ()}
    problems = _check_contents(spec, path, volumes, template=template)
    problems += _check_choices(spec, path)
    problems += _check_node_selection(spec, path)
    for field, rule in _NAMES:
        if value := spec.get(field):
            problems += [invalid(f"{path}.{field}", value, text) for text in rule(value)]
    if "hostnameOverride" in spec:
        problems += _check_hostname_override(spec, f"{path}.hostnameOverride")
    if sysctls := spec.get("securityContext", {}).get("sysctls"):
        problems += _check_sysctls(sysctls, f"{path}.securityContext.sysctls")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        text = f"must be between 1 and {_MAX_INT32}, inclusive"
        problems.append(invalid(f"{path}.activeDeadlineSeconds", deadline, text))
    if tolerations := spec.get("tolerations"):
        problems += check_tolerations(tolerations, f"{path}.tolerations", compares=compares)
    if overhead := spec.get("overhead"):
        problems += check_resource_requirements({"limits": overhead}, f"{path}.overhead")
    return problems


def _check_contents(
    spec: Json, path: str, mounted: Collection[str] | None, *, template: bool
) -> list[FieldProblem]:
    """Check volumes, claims and containers."""
    problems: list[FieldProblem] = []
    if volumes := spec.get("volumes"):
        problems += _check_volumes(volumes, f"{path}.volumes")
    if claims := spec.get("resourceClaims"):
        problems += _check_claims(claims, f"{path}.resourceClaims")
    problems += check_containers(spec, f"{path}.containers", mounted)
    if spec.get("initContainers"):
        problems += check_init_containers(spec, f"{path}.initContainers", mounted)
    if resources := spec.get("resources"):
        problems += check_resource_requirements(resources, f"{path}.resources")
    if spec.get("hostNetwork"):
        problems += _check_host_network(spec, path, template=template)
    return problems


def _check_node_selection(spec: Json, path: str) -> list[FieldProblem]:
    """Check the node selector, affinity, scheduling gates and topology spread."""
    problems: list[FieldProblem] = []
    if selector := spec.get("nodeSelector"):
        problems += check_labels(selector, f"{path}.nodeSelector")
    if affinity := spec.get("affinity"):
        problems += check_affinity(affinity, f"{path}.affinity")
    if gates := spec.get("schedulingGates"):
        problems += check_scheduling_gates(gates, f"{path}.schedulingGates")
    if constraints := spec.get("topologySpreadConstraints"):
        problems += check_topology_spread(constraints, f"{path}.topologySpreadConstraints")
    return problems


_NAMES = (
    ("serviceAccountName", dns_subdomain),
    ("nodeName", dns_subdomain),
    ("hostname", dns_label),
    ("subdomain", dns_label),
    ("priorityClassName", dns_subdomain),
    ("runtimeClassName", dns_subdomain),
)


def _check_hostname_override(spec: Json, path: str) -> list[FieldProblem]:
    name = spec["hostnameOverride"]
    problems = [invalid(path, name, text) for text in dns_subdomain(name)]
    if len(name) > _HOSTNAME_LENGTH:
        problems.append(too_long(path, _HOSTNAME_LENGTH))
    if spec.get("hostNetwork"):
        problems.append(forbidden(path, "may not be specified when hostNetwork is true"))
    if spec.get("setHostnameAsFQDN"):
        problems.append(forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
    return problems


def _check_sysctls(sysctls: Sequence[Json], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    names: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        at, name = f"{path}[{index}].name", sysctl.get("name", "")
        if not name:
            problems.append(required(at))
        elif len(name) > _SYSCTL_LENGTH or not _SYSCTL_RE.fullmatch(name):
            text = f"must have at most {_SYSCTL_LENGTH} characters and match regex {_SYSCTL}"
            problems.append(invalid(at, name, text))
        elif name in names:
            problems.append(duplicate(at, name))
        names.add(name)
    return problems


def _check_choices(spec: Json, path: str) -> list[FieldProblem]:
    problems = []
    if (policy := spec.get("restartPolicy", "")) not in _RESTART_POLICIES:
        problems.append(not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if (policy := spec.get("dnsPolicy", "")) not in _DNS_POLICIES:
        problems.append(not_supported(f"{path}.dnsPolicy", policy, _DNS_POLICIES))
    if (policy := spec.get("preemptionPolicy", "Never")) not in _PREEMPTION_POLICIES:
        problems.append(not_supported(f"{path}.preemptionPolicy", policy, _PREEMPTION_POLICIES))
    return problems


def _check_host_network(spec: Json, path: str, *, template: bool) -> list[FieldProblem]:
    """Check host ports. In a template they may be missing: new pods get them."""
    problems = []
    for index, container in enumerate(spec.get("containers", ())):
        for number, port in enumerate(container.get("ports", ())):
            if template and not port.get("hostPort"):
                continue
            if port.get("hostPort", 0) != port.get("containerPort", 0):
                field = f"{path}.containers[{index}].ports[{number}].hostPort"
                text = "must match `containerPort` when `hostNetwork` is true"
                problems.append(invalid(field, port.get("hostPort", 0), text))
    return problems


def _check_volumes(volumes: Sequence[Json], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        at = f"{path}[{index}]"
        name = volume.get("name", "")
        if not name:
            problems.append(required(f"{at}.name"))
        elif complaints := dns_label(name):
            problems += [invalid(f"{at}.name", name, text) for text in complaints]
        elif name in names:
            problems.append(duplicate(f"{at}.name", name))
        names.add(name)
        if (claim := volume.get("persistentVolumeClaim")) is not None and not claim.get(
            "claimName"
        ):
            problems.append(required(f"{at}.persistentVolumeClaim.claimName"))
    return problems


def _check_claims(claims: Sequence[Json], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        name = claim.get("name", "")
        if not name:
            problems.append(required(f"{at}.name"))
        else:
            problems += [invalid(f"{at}.name", name, text) for text in dns_label(name)]
            if name in names:
                problems.append(duplicate(f"{at}.name", name))
            names.add(name)
        sources = [
            field
            for field in ("resourceClaimName", "resourceClaimTemplateName")
            if claim.get(field) is not None
        ]
        if len(sources) > 1:
            text = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            problems.append(invalid(at, dict(claim), text))
        elif not sources:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            problems.append(invalid(at, dict(claim), text))
        for field in sources:
            problems += [
                invalid(f"{at}.{field}", claim[field], text) for text in dns_subdomain(claim[field])
            ]
    return problems
