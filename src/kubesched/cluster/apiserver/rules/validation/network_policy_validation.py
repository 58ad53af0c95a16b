"""Validation of network policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.names import port_name, port_number
from kubesched.cluster.apiserver.rules.validation.service_validation import parse_network

__all__ = ["check_network_policy"]

Json = dict[str, Any]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_DIRECTIONS = {"ingress": "from", "egress": "to"}
_PEERS = ("podSelector", "namespaceSelector", "ipBlock")


def check_network_policy(policy: Json) -> list[FieldProblem]:
    """Return the problems of a network policy."""
    spec = policy.get("spec", {})
    problems: list[FieldProblem] = []
    for direction, peers in _DIRECTIONS.items():
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                problems += _check_port(port, f"{path}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                problems += _check_peer(peer, f"{path}.{peers}[{number}]")
    for index, kind in enumerate(spec.get("policyTypes") or ()):
        if kind not in ("Egress", "Ingress"):
            allowed = ("Egress", "Ingress")
            problems.append(not_supported(f"spec.policyTypes[{index}]", kind, allowed))
    return problems


def _check_port(port: Json, path: str) -> Iterator[FieldProblem]:
    protocol = port.get("protocol", "TCP")
    if protocol not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        if end is not None:
            text = "may not be specified when `port` is not specified"
            yield invalid(f"{path}.endPort", end, text)
        return
    if isinstance(number, str):
        yield from (invalid(f"{path}.port", number, text) for text in port_name(number))
        if end is not None:
            text = "may not be specified when `port` is non-numeric"
            yield invalid(f"{path}.endPort", end, text)
        return
    yield from (invalid(f"{path}.port", number, text) for text in port_number(number))
    if end is not None:
        if end < number:
            yield invalid(f"{path}.endPort", end, "must be greater than or equal to `port`")
        yield from (invalid(f"{path}.endPort", end, text) for text in port_number(end))


def _check_peer(peer: Json, path: str) -> Iterator[FieldProblem]:
    given = [key for key in _PEERS if peer.get(key) is not None]
    if not given:
        yield required(path, "must specify a peer")
    block = peer.get("ipBlock")
    if block is None:
        return
    if len(given) > 1:
        yield forbidden(path, "may not specify both ipBlock and another peer")
    cidr = block.get("cidr", "")
    if not cidr:
        yield required(f"{path}.ipBlock.cidr")
        return
    network = parse_network(cidr)
    text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    if network is None:
        yield invalid(f"{path}.ipBlock.cidr", cidr, text)
        return
    for index, each in enumerate(block.get("except") or ()):
        inner = parse_network(each)
        place = f"{path}.ipBlock.except[{index}]"
        if inner is None:
            yield invalid(place, each, text)
        elif (
            inner.version != network.version
            or inner.prefixlen <= network.prefixlen
            or inner.network_address not in network
        ):
            yield invalid(place, each, "must be a strict subset of `cidr`")
