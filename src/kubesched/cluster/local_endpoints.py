"""Endpoints of an embedded cluster: processes on this machine that the API server may connect to.

The pods of the cluster are simulated and serve nothing. A Service leads to a real process by the
annotation `kubesched.io/endpoint`, by an external name, or by endpoints that a client has written.
Other machines are never contacted, because the objects may be a dump of a production cluster.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

from kubesched.api.discovery import EndpointSlice
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.errors import KubeschedError

__all__ = [
    "ENDPOINT_ANNOTATION",
    "LocalAddress",
    "SimulatedPodsError",
    "address_of_service",
    "check_local_address",
]

Json = dict[str, Any]

ENDPOINT_ANNOTATION = "kubesched.io/endpoint"
_SERVICE_LABEL = "kubernetes.io/service-name"


class SimulatedPodsError(KubeschedError):
    """A Service has no endpoints but simulated pods."""


class LocalAddress(NamedTuple):
    """The address of a process on this machine."""

    host: str
    port: int

    def check(self) -> LocalAddress:
        """Raises KubeschedError if the address is not one of this machine."""
        if not _is_own(self.host):
            raise KubeschedError(
                f"{self.host}:{self.port} is not an address of this machine, and an embedded "
                "cluster calls no others"
            )
        return self


def check_local_address(host: str, port: int) -> None:
    """Raises KubeschedError if an address is not one of this machine."""
    LocalAddress(host, port).check()


def address_of_service(store: Store, namespace: str, name: str, port: int) -> LocalAddress:
    """Return the address of a process behind a port of a Service.

    Raises:
        SimulatedPodsError: there are endpoints, and all of them are pods.
        KubeschedError: there is no such Service or port, or it has no endpoints.
    """
    resource = store.catalog.by_url("", "v1", "services")
    record = store.find_record(resource, namespace, name)
    if record is None:
        raise KubeschedError(f'service "{name}" not found')
    metadata, spec = record.data["metadata"], record.data["spec"]
    if written := metadata.get("annotations", {}).get(ENDPOINT_ANNOTATION):
        return _parsed(written, name).check()
    if spec.get("type") == "ExternalName":
        return LocalAddress(spec.get("externalName", ""), port).check()
    declared = [each for each in spec.get("ports") or () if each.get("port") == port]
    if not declared:
        raise KubeschedError(f'no service port {port} found for service "{name}"')
    return _first_endpoint(store, namespace, name, declared[0].get("name", ""))


def _first_endpoint(store: Store, namespace: str, service: str, port_name: str) -> LocalAddress:
    has_pods = False
    for slice_ in _slices(store, namespace, service):
        numbers = [
            each["port"]
            for each in slice_.get("ports") or ()
            if each.get("name", "") == port_name and each.get("port")
        ]
        for endpoint in slice_.get("endpoints") or () if numbers else ():
            if (endpoint.get("targetRef") or {}).get("kind") == "Pod":
                has_pods = True
            elif (endpoint.get("conditions") or {}).get("ready") is not False:
                return LocalAddress(endpoint["addresses"][0], numbers[0]).check()
    if has_pods:
        raise SimulatedPodsError(
            f'the pods of service "{service}" are simulated and serve nothing; the annotation '
            f"{ENDPOINT_ANNOTATION}: HOST:PORT of the service can name a process on this machine"
        )
    raise KubeschedError(f'no endpoints available for service "{service}"')


def _slices(store: Store, namespace: str, service: str) -> Iterator[Json]:
    resource = store.catalog.by_type(EndpointSlice)
    for record in store.collection(resource).objects.values():
        metadata = record.data["metadata"]
        if (
            metadata["namespace"] == namespace
            and metadata.get("labels", {}).get(_SERVICE_LABEL) == service
        ):
            yield record.data


def _parsed(text: str, service: str) -> LocalAddress:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise KubeschedError(
            f'service "{service}": annotation {ENDPOINT_ANNOTATION}: {text!r} is not HOST:PORT'
        )
    return LocalAddress(host.strip("[]"), int(port))


def _is_own(host: str) -> bool:
    """Whether a host is an address or a name of this machine. Names are not looked up."""
    if host.lower() in ("localhost", socket.gethostname().lower()):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    # Only an address of an own interface can be bound.
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return not address.is_unspecified
