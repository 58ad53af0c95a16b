"""Allocation of cluster IPs and node ports for services. No traffic is routed to them.

Allocated values are read from the stored services, so a deleted service releases its values.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import invalid
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ObjectLookup
from kubesched.cluster.apiserver.rules.validation.service_validation import (
    is_headless,
    needs_cluster_ip,
    needs_health_check_port,
    needs_node_ports,
    parse_network,
)

__all__ = [
    "KUBERNETES_ADDRESS",
    "MANAGED_ADDRESS",
    "SERVICE_NETWORK",
    "allocate_addresses",
    "inherit_addresses",
]

SERVICE_NETWORK: Final = ipaddress.IPv4Network("10.0.0.0/16")
# Reserved for the service `kubernetes`, which is the API server.
KUBERNETES_ADDRESS = str(SERVICE_NETWORK[1])
# The label of IPAddress objects of a service.
MANAGED_ADDRESS = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io")
# The number of addresses at the beginning of a network that services get only on request, or when
# all others are taken; and the same for node ports.
_RESERVED_ADDRESSES = 256
_RESERVED_PORTS = 86
_NODE_PORTS = range(30000, 32768)
_PORT_RANGE = f"{_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
_KIND = "Service"


def allocate_addresses(service: Json, cluster: ObjectLookup, old: Json | None = None) -> Json:
    """Add a cluster IP and node ports, as the type of a service needs them.

    Values of the stored service `old` are not considered taken.

    Raises:
        ApiError: 422 if a requested value is not valid or is taken.
    """
    if not needs_cluster_ip(service["spec"]):
        return service
    own = service["metadata"].get("namespace"), service["metadata"].get("name")
    others = [
        each.get("spec", {})
        for each in cluster.all("services")
        if old is None or (each["metadata"].get("namespace"), each["metadata"].get("name")) != own
    ]
    spec = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", **service["spec"]}
    filled = {**service, "spec": spec}
    if not is_headless(spec):
        _allocate_cluster_ip(filled, others, cluster)
    spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
    taken = {number for each in others for number in _ports_of(each)}
    if needs_node_ports(spec):
        spec["ports"] = _with_node_ports(filled, taken)
    if needs_health_check_port(spec):
        _allocate_health_check_port(filled, taken)
    return filled


def _allocate_cluster_ip(service: Json, others: Iterable[Json], cluster: ObjectLookup) -> None:
    spec = service["spec"]
    taken = {each.get("clusterIP") for each in others}
    taken |= {
        each["metadata"]["name"]
        for each in cluster.all("ipaddresses.networking.k8s.io")
        if MANAGED_ADDRESS not in each["metadata"].get("labels", {}).items()
    }
    networks = _networks(cluster)
    address = spec.get("clusterIP", "")
    if not address:
        spec["clusterIP"] = next((each for each in _candidates(networks) if each not in taken), "")
        if not spec["clusterIP"]:
            raise _refused(
                service, "spec.clusterIPs", [], "failed to allocate a serviceIP: range is full"
            )
        return
    requested = ipaddress.ip_address(address)
    why = ""
    if not any(requested in network for network in networks):
        why = "the provided network does not match the current range"
    elif address in taken:
        why = "provided IP is already allocated"
    if why:
        text = f"failed to allocate IP {address}: {why}"
        raise _refused(service, "spec.clusterIPs", [address], text)


def _networks(cluster: ObjectLookup) -> list[ipaddress.IPv4Network]:
    """Return the network of services, and those that users have added as ServiceCIDRs."""
    added = [
        parse_network(text)
        for each in cluster.all("servicecidrs.networking.k8s.io")
        if "deletionTimestamp" not in each["metadata"]
        for text in each["spec"].get("cidrs", ())
    ]
    networks = (each for each in added if isinstance(each, ipaddress.IPv4Network))
    return list(dict.fromkeys([SERVICE_NETWORK, *networks]))


def _candidates(networks: Iterable[ipaddress.IPv4Network]) -> Iterator[str]:
    """Yield the addresses to try: those at the beginning of a network last."""
    for network in networks:
        last = network.num_addresses - 1
        reserved = min(_RESERVED_ADDRESSES, max(16, network.num_addresses // 16), last)
        for number in itertools.chain(range(reserved, last), range(1, reserved)):
            yield str(network[number])


def _ports_of(spec: Json) -> Iterator[int]:
    """Yield the node ports of a service."""
    for port in spec.get("ports") or ():
        if number := port.get("nodePort"):
            yield number
    if number := spec.get("healthCheckNodePort"):
        yield number


def _free_port(taken: set[int]) -> int:
    start, stop = _NODE_PORTS.start, _NODE_PORTS.stop
    ordered = itertools.chain(
        range(start + _RESERVED_PORTS, stop), range(start, start + _RESERVED_PORTS)
    )
    return next((number for number in ordered if number not in taken), 0)


def _with_node_ports(service: Json, taken: set[int]) -> list[Json]:
    """Return the ports with node ports.

    Ports with the same number and different protocols share one, unless they request others.
    """
    ports = service["spec"].get("ports") or []
    shared: dict[int, int] = {}
    for port in ports:
        if port.get("nodePort"):
            shared.setdefault(port["port"], port["nodePort"])
    own: set[int] = set()
    filled = []
    for index, port in enumerate(ports):
        number = port.get("nodePort") or shared.get(port["port"], 0)
        if not number:
            number = _free_port(taken | own | set(shared.values()))
        elif number not in own:
            field = f"spec.ports[{index}].nodePort"
            if number not in _NODE_PORTS:
                text = (
                    "provided port is not in the valid range. The range of valid ports is "
                    + _PORT_RANGE
                )
                raise _refused(service, field, number, text)
            if number in taken:
                raise _refused(service, field, number, "provided port is already allocated")
        own.add(number)
        shared[port["port"]] = number
        filled.append({**port, "nodePort": number})
    taken |= own
    return filled


def _allocate_health_check_port(service: Json, taken: set[int]) -> None:
    spec = service["spec"]
    number = spec.get("healthCheckNodePort")
    if not number:
        spec["healthCheckNodePort"] = _free_port(taken)
        return
    why = ""
    if number not in _NODE_PORTS:
        why = f"provided port is not in the valid range. The range of valid ports is {_PORT_RANGE}"
    elif number in taken:
        why = "provided port is already allocated"
    if why:
        raise api_errors.internal_error(
            f"failed to allocate requested HealthCheck NodePort {number}: {why}"
        )


def _refused(service: Json, field: str, value: object, text: str) -> Exception:
    name = service["metadata"].get("name", "")
    return api_errors.invalid(_KIND, name, [invalid(field, value, text)])


# Updates


def inherit_addresses(new: Json, old: Json) -> Json:
    """Fill in the values that an update omits, and drop those that the new type does not have.

    Allocated values are dropped only if the update does not change them: otherwise they are an
    error of the user, which validation reports.
    """
    spec, before = dict(new["spec"]), old.get("spec", {})
    if needs_cluster_ip(spec) and needs_cluster_ip(before):
        _inherit_cluster_ip(spec, before)
    elif needs_cluster_ip(before):
        _drop_unchanged(spec, before, ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"))
    if needs_node_ports(spec) and needs_node_ports(before):
        _inherit_node_ports(spec, before)
    elif needs_node_ports(before) and not _wants_node_ports(spec):
        _drop_node_ports(spec, before)
    if needs_health_check_port(spec) and needs_health_check_port(before):
        if not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = before.get("healthCheckNodePort")
    elif needs_health_check_port(before):
        _drop_unchanged(spec, before, ("healthCheckNodePort",))
    _drop_other_types(spec, before)
    return {**new, "spec": spec}


def _drop_other_types(spec: Json, before: Json) -> None:
    """Drop unchanged settings that a service of the new type does not have."""
    if spec.get("type") != "LoadBalancer" and before.get("type") == "LoadBalancer":
        _drop_unchanged(spec, before, ("allocateLoadBalancerNodePorts", "loadBalancerClass"))
    if spec.get("type") not in ("NodePort", "LoadBalancer") and not spec.get("externalIPs"):
        _drop_unchanged(spec, before, ("externalTrafficPolicy",))
    if spec.get("type") == "ExternalName":
        _drop_unchanged(spec, before, ("internalTrafficPolicy",))


def _wants_node_ports(spec: Json) -> bool:
    """Whether the type has node ports, even if the service disables their allocation."""
    return spec.get("type") in ("NodePort", "LoadBalancer")


def _inherit_cluster_ip(spec: Json, before: Json) -> None:
    for key in ("ipFamilies", "ipFamilyPolicy"):
        if key in before and not spec.get(key):
            spec[key] = before[key]
    address, addresses = spec.get("clusterIP"), spec.get("clusterIPs")
    if not address and not addresses:
        spec |= {key: before[key] for key in ("clusterIP", "clusterIPs") if key in before}
    elif not address and addresses:
        spec["clusterIP"] = addresses[0]
    elif not addresses or (
        address != before.get("clusterIP") and addresses == before.get("clusterIPs")
    ):
        spec["clusterIPs"] = [address]


def _inherit_node_ports(spec: Json, before: Json) -> None:
    """Copy missing node ports from the old ports of the same name."""
    ports = spec.get("ports") or []
    stored = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports") or ()}
    used = {port.get("nodePort") for port in ports}
    filled = []
    for port in ports:
        number = stored.get(port.get("name", ""), 0)
        if not port.get("nodePort") and number and number not in used:
            used.add(number)
            port = {**port, "nodePort": number}
        filled.append(port)
    spec["ports"] = filled


def _drop_node_ports(spec: Json, before: Json) -> None:
    stored = [port.get("nodePort", 0) for port in before.get("ports") or ()]
    ports = spec.get("ports") or []
    if [port.get("nodePort", 0) for port in ports] == stored:
        spec["ports"] = [
            {key: value for key, value in port.items() if key != "nodePort"} for port in ports
        ]


def _drop_unchanged(spec: Json, before: Json, keys: Iterable[str]) -> None:
    for key in keys:
        if key in spec and spec[key] == before.get(key):
            del spec[key]
