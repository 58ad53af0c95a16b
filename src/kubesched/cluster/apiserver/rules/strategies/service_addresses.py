"""Allocation of cluster IPs and node ports for services. No traffic is routed to them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ObjectLookup

__all__ = ["KUBERNETES_ADDRESS", "allocate_addresses"]

_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
# Reserved for the service `kubernetes`, which is the API server.
KUBERNETES_ADDRESS = str(_NETWORK[1])
# The number of addresses at the beginning of the network that only explicit requests get.
_RESERVED = 256
_NODE_PORTS = range(30000, 32768)


def allocate_addresses(service: Json, cluster: ObjectLookup) -> Json:
    """Add a cluster IP and, depending on the type of the service, node ports."""
    spec: Json = service["spec"]
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return service
    existing = [each.get("spec", {}) for each in cluster.all("services")]
    address = spec.get("clusterIP") or _free_address(existing)
    filled = {
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        **spec,
        "clusterIP": address,
        "clusterIPs": spec.get("clusterIPs") or [address],
    }
    allocates = spec.get("allocateLoadBalancerNodePorts", True)
    if kind == "NodePort" or (kind == "LoadBalancer" and allocates):
        filled["ports"] = _with_node_ports(spec.get("ports", ()), existing)
        filled.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        filled.setdefault("allocateLoadBalancerNodePorts", True)
    return {**service, "spec": filled}


def _free_address(existing: Iterable[Json]) -> str:
    taken = {each.get("clusterIP") for each in existing}
    for number in range(_RESERVED, _NETWORK.num_addresses - 1):
        address = str(_NETWORK[number])
        if address not in taken:
            return address
    return ""


def _with_node_ports(ports: Iterable[Json], existing: Iterable[Json]) -> list[Json]:
    taken = {port.get("nodePort") for each in existing for port in each.get("ports", ())}
    filled = []
    for port in ports:
        if not port.get("nodePort"):
            free = next((number for number in _NODE_PORTS if number not in taken), 0)
            port = {**port, "nodePort": free}
        taken.add(port["nodePort"])
        filled.append(port)
    return filled
