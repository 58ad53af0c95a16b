"""Validation of containers: names, ports, requests and limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.mount_validation import (
    check_mounts,
    check_variables,
)
from kubesched.cluster.apiserver.rules.validation.names import (
    dns_label,
    port_name,
    port_number,
    qualified_name,
)

__all__ = [
    "check_containers",
    "check_init_containers",
    "check_quantity",
    "check_resource_requirements",
]

NEGATIVE = "must be greater than or equal to 0"

_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD_RESOURCES = _CONTAINER_RESOURCES | frozenset({"storage", "pods"})
_HUGE_PAGES = "hugepages-"
_ATTACHABLE = "attachable-volumes-"


def check_containers(
    spec: Mapping[str, Any], path: str, volumes: Collection[str] | None = None
) -> list[FieldProblem]:
    """`volumes` are the names of those that can be mounted; None if others can be, too."""
    containers = spec.get("containers")
    if not containers:
        return [required(path)]
    claims = [claim.get("name", "") for claim in spec.get("resourceClaims", ())]
    problems: list[FieldProblem] = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        problems += _check_container(container, claims, volumes, at)
        name = container.get("name", "")
        if name in names:
            problems.append(duplicate(f"{at}.name", name))
        names.add(name)
        if container.get("restartPolicy") is not None and not container.get("restartPolicyRules"):
            problems += _check_restart_policy(container, at)
    return problems + _check_host_ports(containers, path)


def _check_restart_policy(container: Mapping[str, Any], at: str) -> list[FieldProblem]:
    policy = container["restartPolicy"]
    if policy in ("Always", "OnFailure", "Never"):
        return []
    choices = ("Always", "OnFailure", "Never")
    return [not_supported(f"{at}.restartPolicy", policy, choices)]


def check_init_containers(
    spec: Mapping[str, Any], path: str, volumes: Collection[str] | None = None
) -> list[FieldProblem]:
    claims = [claim.get("name", "") for claim in spec.get("resourceClaims", ())]
    names = {container.get("name", "") for container in spec.get("containers", ())}
    problems: list[FieldProblem] = []
    for index, container in enumerate(spec.get("initContainers", ())):
        at = f"{path}[{index}]"
        problems += _check_container(container, claims, volumes, at)
        if container.get("restartPolicy") is not None:
            problems += _check_restart_policy(container, at)
        name = container.get("name", "")
        if name in names:
            problems.append(duplicate(f"{at}.name", name))
        elif name:
            names.add(name)
        problems += _check_host_ports([container], path)
    return problems


def _check_container(
    container: Mapping[str, Any], claims: Sequence[str], volumes: Collection[str] | None, at: str
) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    name = container.get("name", "")
    if not name:
        problems.append(required(f"{at}.name"))
    else:
        problems += [invalid(f"{at}.name", name, text) for text in dns_label(name)]
    image = container.get("image", "")
    if not image:
        problems.append(required(f"{at}.image"))
    elif image != image.strip():
        text = "must not have leading or trailing whitespace"
        problems.append(invalid(f"{at}.image", image, text))
    if ports := container.get("ports"):
        problems += _check_ports(ports, f"{at}.ports")
    if variables := container.get("env"):
        problems += check_variables(variables, f"{at}.env")
    if (mounts := container.get("volumeMounts")) and volumes is not None:
        problems += check_mounts(mounts, volumes, f"{at}.volumeMounts")
    if (policy := container.get("imagePullPolicy")) not in ("Always", "IfNotPresent", "Never"):
        problems.append(
            not_supported(f"{at}.imagePullPolicy", policy, ("Always", "IfNotPresent", "Never"))
        )
    if resources := container.get("resources"):
        problems += check_resource_requirements(resources, f"{at}.resources", claims)
    return problems


def _check_ports(ports: Sequence[Mapping[str, Any]], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        if name := port.get("name"):
            if complaints := port_name(name):
                problems += [invalid(f"{at}.name", name, text) for text in complaints]
            elif name in names:
                problems.append(duplicate(f"{at}.name", name))
            names.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            problems.append(required(f"{at}.containerPort"))
        else:
            problems += [
                invalid(f"{at}.containerPort", number, text) for text in port_number(number)
            ]
        if host := port.get("hostPort", 0):
            problems += [invalid(f"{at}.hostPort", host, text) for text in port_number(host)]
        if (protocol := port.get("protocol")) not in ("SCTP", "TCP", "UDP"):
            problems.append(not_supported(f"{at}.protocol", protocol, ("SCTP", "TCP", "UDP")))
    return problems


def _check_host_ports(containers: Sequence[Mapping[str, Any]], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            used = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if used in taken:
                problems.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", used))
            taken.add(used)
    return problems


def check_resource_requirements(
    resources: Mapping[str, Any], path: str, claims: Sequence[str] = ()
) -> list[FieldProblem]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    problems: list[FieldProblem] = []
    for name, raw in limits.items():
        at = f"{path}.limits[{name}]"
        problems += _check_resource_name(name, at)
        problems += check_quantity(name, raw, at)
    for name, raw in requests.items():
        at = f"{path}.requests[{name}]"
        problems += _check_resource_name(name, at)
        problems += check_quantity(name, raw, at)
        problems += _check_request(name, raw, limits.get(name), path)
    huge = any(name.startswith(_HUGE_PAGES) for name in (*limits, *requests))
    if huge and not any(name in ("cpu", "memory") for name in (*limits, *requests)):
        problems.append(forbidden(path, "HugePages require cpu or memory"))
    for index, claim in enumerate(resources.get("claims", ())):
        if claim.get("name", "") not in claims:
            field = f"{path}.claims[{index}].name"
            problems.append(
                FieldProblem(field, "FieldValueNotFound", f'Not found: "{claim.get("name", "")}"')
            )
    return problems


def _check_request(name: str, raw: Any, limit: Any, path: str) -> list[FieldProblem]:
    if limit is None:
        if not _may_overcommit(name):
            text = "Limit must be set for non overcommitable resources"
            return [required(f"{path}.limits", text)]
        return []
    requested, most = parse_quantity(raw), parse_quantity(limit)
    if requested != most and not _may_overcommit(name):
        text = f"must be equal to {name} limit of {most}"
        return [invalid(f"{path}.requests", str(requested), text)]
    if requested > most:
        text = f"must be less than or equal to {name} limit of {most}"
        return [invalid(f"{path}.requests", str(requested), text)]
    return []


def check_quantity(name: str, raw: Any, path: str) -> list[FieldProblem]:
    quantity = parse_quantity(raw)
    if quantity.sign < 0:
        return [invalid(path, str(quantity), NEGATIVE)]
    if _is_extended(name) and quantity.milli_value % 1000:
        return [
            FieldProblem(
                path, "FieldValueInvalid", f"Invalid value: {quantity}: must be an integer"
            )
        ]
    return []


def _may_overcommit(name: str) -> bool:
    return _is_native(name) and not name.startswith(_HUGE_PAGES)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    return not _is_native(name) and not name.startswith("requests.")


def _check_resource_name(name: str, path: str) -> list[FieldProblem]:
    if name in _CONTAINER_RESOURCES:
        return []
    problems = [invalid(path, name, text) for text in qualified_name(name)]
    if problems:
        return problems
    if "/" not in name:
        if name.startswith(_HUGE_PAGES):
            return []
        if name not in _STANDARD_RESOURCES and not name.startswith(_ATTACHABLE):
            text = "must be a standard resource type or fully qualified"
            problems.append(invalid(path, name, text))
        return [*problems, invalid(path, name, "must be a standard resource for containers")]
    if not _is_native(name) and not _is_extended(name):
        return [invalid(path, name, "doesn't follow extended resource name standard")]
    return []
