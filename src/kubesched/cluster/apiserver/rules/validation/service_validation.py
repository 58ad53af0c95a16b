"""Validation of services, and of their IPAddress objects."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.names import (
    dns_label,
    dns_subdomain,
    label_value,
    port_name,
    port_number,
    qualified_name,
)

__all__ = [
    "address_name",
    "check_service",
    "check_service_network",
    "check_service_update",
    "is_headless",
    "needs_cluster_ip",
    "needs_health_check_port",
    "needs_node_ports",
    "parse_network",
]

Json = dict[str, Any]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_WITH_NODE_PORTS = ("LoadBalancer", "NodePort")
_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameNode", "PreferSameZone")
_NO_NETWORK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LONGEST_AFFINITY = 86400
_KUBELET_PORT = 10250
_NO_ADDRESS = "may not be set for ExternalName services"


def is_headless(spec: Json) -> bool:
    """Whether a service has the cluster IP `None`."""
    return spec.get("clusterIP") == "None" or (spec.get("clusterIPs") or [""])[0] == "None"


def needs_cluster_ip(spec: Json) -> bool:
    return bool(spec.get("type", "ClusterIP") != "ExternalName")


def needs_node_ports(spec: Json) -> bool:
    kind = spec.get("type")
    allocates = spec.get("allocateLoadBalancerNodePorts") is not False
    return kind == "NodePort" or (kind == "LoadBalancer" and allocates)


def needs_health_check_port(spec: Json) -> bool:
    is_local = spec.get("externalTrafficPolicy") == "Local"
    return spec.get("type") == "LoadBalancer" and is_local


def check_service(service: Json) -> list[FieldProblem]:
    """Return the problems of a service, before or after its addresses are allocated."""
    spec = service.get("spec", {})
    return [
        *_check_type(spec),
        *_check_ports(spec),
        *_check_selector(spec),
        *_check_affinity(spec),
        *_check_addresses(spec),
        *_check_external_addresses(spec),
        *_check_node_ports(spec),
        *_check_traffic(spec),
        *_check_balancer(spec),
    ]


def _check_type(spec: Json) -> Iterator[FieldProblem]:
    kind = spec.get("type", "ClusterIP")
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        yield required("spec.ports")
    if kind == "LoadBalancer":
        for index, port in enumerate(spec.get("ports") or ()):
            if port.get("port") == _KUBELET_PORT:
                text = "may not expose port 10250 externally since it is used by kubelet"
                yield invalid(f"spec.ports[{index}].port", _KUBELET_PORT, text)
    if kind in _WITH_NODE_PORTS and is_headless(spec):
        text = f"may not be set to 'None' for {kind} services"
        yield invalid("spec.clusterIPs[0]", "None", text)
    if kind == "ExternalName":
        yield from _check_external_name(spec)
    if kind not in _TYPES:
        yield not_supported("spec.type", kind, _TYPES)


def _check_external_name(spec: Json) -> Iterator[FieldProblem]:
    if spec.get("clusterIP") or spec.get("clusterIPs"):
        yield forbidden("spec.clusterIPs", _NO_ADDRESS)
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield forbidden(f"spec.{field}", _NO_ADDRESS)
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    else:
        yield from (invalid("spec.externalName", name, text) for text in dns_subdomain(name))


def _check_ports(spec: Json) -> Iterator[FieldProblem]:
    ports = spec.get("ports") or []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        elif name:
            yield from (invalid(f"{path}.name", name, text) for text in dns_label(name))
            if name in names:
                yield duplicate(f"{path}.name", name)
            names.add(name)
        number = port.get("port", 0)
        yield from (invalid(f"{path}.port", number, text) for text in port_number(number))
        protocol = port.get("protocol", "TCP")
        if protocol not in ("SCTP", "TCP", "UDP"):
            yield not_supported(f"{path}.protocol", protocol, ("SCTP", "TCP", "UDP"))
        target = port.get("targetPort", number)
        problems = port_name(target) if isinstance(target, str) else port_number(target)
        yield from (invalid(f"{path}.targetPort", target, text) for text in problems)
        if application := port.get("appProtocol"):
            problems = qualified_name(application)
            yield from (invalid(f"{path}.appProtocol", application, text) for text in problems)


def _check_selector(spec: Json) -> Iterator[FieldProblem]:
    for key, value in (spec.get("selector") or {}).items():
        yield from (invalid("spec.selector", key, text) for text in qualified_name(key))
        yield from (invalid("spec.selector", value, text) for text in label_value(value))


def _check_affinity(spec: Json) -> Iterator[FieldProblem]:
    affinity = spec.get("sessionAffinity", "None")
    if affinity not in ("ClientIP", "None"):
        yield not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    elif affinity == "None" and spec.get("sessionAffinityConfig") is not None:
        text = "must not be set when session affinity is None"
        yield forbidden("spec.sessionAffinityConfig", text)
    elif affinity == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        seconds = (config.get("clientIP") or {}).get("timeoutSeconds")
        if seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
            text = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
            yield invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text)


def _check_addresses(spec: Json) -> Iterator[FieldProblem]:
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if address and addresses and addresses[0] != address:
        yield invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    for index, each in enumerate(addresses or ([address] if address else [])):
        if each != "None" and not _is_address(each):
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(f"spec.clusterIPs[{index}]", each, text)


def _check_external_addresses(spec: Json) -> Iterator[FieldProblem]:
    for index, each in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{index}]"
        if not _is_address(each):
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(path, each, text)
            continue
        address = ipaddress.ip_address(each)
        if address.is_unspecified:
            yield invalid(path, each, f"may not be unspecified ({each})")
        if address.is_loopback:
            text = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
            yield invalid(path, each, text)
        if address.is_link_local:
            network = "169.254.0.0/16, fe80::/10"
            yield invalid(path, each, f"may not be in the link-local range ({network})")


def _check_node_ports(spec: Json) -> Iterator[FieldProblem]:
    ports = spec.get("ports") or []
    if spec.get("type", "ClusterIP") == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                text = "may not be used when `type` is 'ClusterIP'"
                yield forbidden(f"spec.ports[{index}].nodePort", text)
    node_ports: set[tuple[str, int]] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        protocol = port.get("protocol", "TCP")
        if node_port := port.get("nodePort"):
            if (protocol, node_port) in node_ports:
                yield duplicate(f"spec.ports[{index}].nodePort", node_port)
            node_ports.add((protocol, node_port))
    for index, port in enumerate(ports):
        key = port.get("protocol", "TCP"), port.get("port", 0)
        if key in numbers:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            yield duplicate(f"spec.ports[{index}]", shown, is_sorted=False)
        numbers.add(key)


def _check_traffic(spec: Json) -> Iterator[FieldProblem]:
    is_external = spec.get("type") in _WITH_NODE_PORTS or bool(spec.get("externalIPs"))
    policy = spec.get("externalTrafficPolicy")
    if policy and not is_external:
        text = "may only be set for externally-accessible services"
        yield invalid("spec.externalTrafficPolicy", policy, text)
    elif policy and policy not in _POLICIES:
        yield not_supported("spec.externalTrafficPolicy", policy, _POLICIES)
    number = spec.get("healthCheckNodePort")
    if number and not needs_health_check_port(spec):
        text = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        yield invalid("spec.healthCheckNodePort", number, text)
    policy = spec.get("internalTrafficPolicy")
    if policy and policy not in _POLICIES:
        yield not_supported("spec.internalTrafficPolicy", policy, _POLICIES)


def _check_balancer(spec: Json) -> Iterator[FieldProblem]:
    text = "may only be used when `type` is 'LoadBalancer'"
    is_balancer = spec.get("type") == "LoadBalancer"
    if spec.get("loadBalancerClass") is not None and not is_balancer:
        yield forbidden("spec.loadBalancerClass", text)
    ranges = spec.get("loadBalancerSourceRanges") or []
    if ranges and not is_balancer:
        yield forbidden("spec.LoadBalancerSourceRanges", text)
    for index, each in enumerate(ranges):
        if parse_network(each.strip()) is None:
            yield invalid(f"spec.LoadBalancerSourceRanges[{index}]", each, _NO_NETWORK)
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        text = "this cluster is not configured for dual-stack services"
        yield invalid("spec.ipFamilyPolicy", "RequireDualStack", text)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        yield not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def check_service_update(new: Json, old: Json) -> list[FieldProblem]:
    """Return the problems of a change: addresses do not change once they are set."""
    spec, before = new.get("spec", {}), old.get("spec", {})
    problems: list[FieldProblem] = []
    if needs_cluster_ip(spec) and needs_cluster_ip(before):
        addresses = spec.get("clusterIPs") or []
        problems += [
            invalid(f"spec.clusterIPs[{index}]", addresses, "may not change once set")
            for index, (stored, requested) in enumerate(
                zip(before.get("clusterIPs") or [], addresses, strict=False)
            )
            if stored != requested
        ]
    if needs_health_check_port(spec) and needs_health_check_port(before):
        number = spec.get("healthCheckNodePort")
        if number != before.get("healthCheckNodePort"):
            problems.append(immutable("spec.healthCheckNodePort", number))
    if spec.get("type") == before.get("type") == "LoadBalancer":
        name = spec.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            problems.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
    return problems


def address_name(name: str) -> tuple[str, ...]:
    """Check the name of an IPAddress object, which is the address in its canonical form."""
    if not _is_address(name):
        return (f'ParseAddr("{name}"): unable to parse IP',)
    if str(ipaddress.ip_address(name)) != name:
        return ("must be a canonical format IP address",)
    return ()


def check_service_network(network: Json) -> list[FieldProblem]:
    """Return the problems of a ServiceCIDR."""
    return [
        invalid(f"spec.cidrs[{index}]", each, _NO_NETWORK)
        for index, each in enumerate(network.get("spec", {}).get("cidrs") or ())
        if parse_network(each) is None
    ]


def parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return the network that a CIDR text names; None if it names none."""
    try:
        return ipaddress.ip_network(text) if "/" in text else None
    except ValueError:
        return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
