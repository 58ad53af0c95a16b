"""Addresses and ports that a server gives to services. Nothing is routed to them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ObjectLookup

__all__ = ["KUBERNETES_ADDRESS", "with_addresses"]

_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
# Kept for the service that leads to the API server.
KUBERNETES_ADDRESS = str(_NETWORK[1])
# Addresses at the beginning that are given only to those who ask for one.
_RESERVED = 256
_NODE_PORTS = range(30000, 32768)


def with_addresses(service: Json, cluster: ObjectLookup) -> Json:
    """A service with a cluster IP of its own and node ports, as its type has them."""
    spec: Json = service["spec"]
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return service
    others = [each.get("spec", {}) for each in cluster.all("services")]
    address = spec.get("clusterIP") or _free_address(others)
    filled = {
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        **spec,
        "clusterIP": address,
        "clusterIPs": spec.get("clusterIPs") or [address],
    }
    allocates = spec.get("allocateLoadBalancerNodePorts", True)
    if kind == "NodePort" or (kind == "LoadBalancer" and allocates):
        filled["ports"] = _with_node_ports(spec.get("ports", ()), others)
        filled.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        filled.setdefault("allocateLoadBalancerNodePorts", True)
    return {**service, "spec": filled}


def _free_address(others: Iterable[Json]) -> str:
    taken = {each.get("clusterIP") for each in others}
    for number in range(_RESERVED, _NETWORK.num_addresses - 1):
        address = str(_NETWORK[number])
        if address not in taken:
            return address
    return ""


def _with_node_ports(ports: Iterable[Json], others: Iterable[Json]) -> list[Json]:
    taken = {port.get("nodePort") for each in others for port in each.get("ports", ())}
    filled = []
    for port in ports:
        if not port.get("nodePort"):
            free = next((number for number in _NODE_PORTS if number not in taken), 0)
            port = {**port, "nodePort": free}
        taken.add(port["nodePort"])
        filled.append(port)
    return filled
