"""Host ports of pods, and conflicts between them (docs/reference/05 §4.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from kubesched.api.pod import Container, Pod
from kubesched.api.pod_requests import is_restartable_init_container

__all__ = ["WILDCARD_IP", "HostPort", "host_ports", "ports_conflict"]

WILDCARD_IP: Final = "0.0.0.0"


class HostPort(NamedTuple):
    """A port on an address of the host; `0.0.0.0` means all addresses."""

    ip: str
    protocol: str
    port: int


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of a running pod: those of sidecars, then of containers."""
    spec = pod.spec
    ports = _ports_of(spec.containers)
    if spec.init_containers:
        sidecars = filter(is_restartable_init_container, spec.init_containers)
        ports = _ports_of(sidecars) + ports
    return ports


def ports_conflict(wanted: Iterable[HostPort], used: Collection[HostPort]) -> bool:
    """Whether a port in `wanted` is in use, by protocol, number and address.

    Addresses are compared as text; only `0.0.0.0` means all of them.
    """
    numbers: set[tuple[str, int]] | None = None  # built at most once: both sides may be large
    for port in wanted:
        if port.ip != WILDCARD_IP:
            if port in used or port._replace(ip=WILDCARD_IP) in used:
                return True
        else:
            if numbers is None:
                numbers = {(other.protocol, other.port) for other in used}
            if (port.protocol, port.port) in numbers:
                return True
    return False


def _ports_of(containers: Iterable[Container]) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port.host_ip or WILDCARD_IP, port.protocol or "TCP", port.host_port)
        for container in containers
        if container.ports
        for port in container.ports
        if port.host_port > 0
    )
