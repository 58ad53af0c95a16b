"""Device requests that replace extended resources (docs/reference/08 §7.2).

A container that requests an extended resource which a device class serves gets a request for that
class. Init containers that end before other containers start reuse the devices of those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kubesched.api import (
    Container,
    ContainerExtendedResourceRequest,
    DeviceRequest,
    ExactDeviceRequest,
    Pod,
)
from kubesched.api.quantity import ZERO, Quantity, quantity_from_json
from kubesched.scheduler.plugins.dynamic_resources.device_requests import EXACT_COUNT

__all__ = ["ExtendedRequests", "extended_requests"]

Mapping = ContainerExtendedResourceRequest


class ExtendedRequests(NamedTuple):
    """The requests of a claim for extended resources, and which container uses which."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[Mapping, ...]


class _ContainerRequest(NamedTuple):
    """The request of one container for one resource."""

    place: int  # of the container
    name: str
    amount: int


def extended_requests(pod: Pod, classes: Iterable[tuple[str, str]]) -> ExtendedRequests:
    """Return the requests for these pairs of resource and class name."""
    requests: list[DeviceRequest] = []
    mappings: list[Mapping] = []
    for resource, class_name in sorted(classes):
        own, mapped = _requests_of(pod, resource)
        mappings += mapped
        requests += [
            DeviceRequest(
                name=each.name,
                exactly=ExactDeviceRequest(
                    device_class_name=class_name, allocation_mode=EXACT_COUNT, count=each.amount
                ),
            )
            for each in own
        ]
    requests.sort(key=lambda request: request.name)
    return ExtendedRequests(tuple(requests), tuple(mappings))


def _requests_of(pod: Pod, resource: str) -> tuple[list[_ContainerRequest], list[Mapping]]:
    """Return the requests for one resource, and the mappings of containers to them."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    long_lived, short_lived = _by_lifetime(pod, resource)
    mappings = [
        Mapping(
            container_name=containers[own.place].name, resource_name=resource, request_name=own.name
        )
        for own in long_lived
    ]
    largest: _ContainerRequest | None = None
    pending: list[tuple[str, str]] = []  # container, the request it uses ("": the largest)
    for own in short_lived:
        container_name = containers[own.place].name
        reused, missing = _reuse(own, long_lived)
        pending += [(container_name, name) for name in reused]
        if missing > 0:
            pending.append((container_name, ""))
            if largest is None or missing > largest.amount:
                largest = _ContainerRequest(own.place, own.name, missing)
    for container_name, used in pending:
        assert used or largest is not None
        name = used or (largest.name if largest is not None else "")
        mappings.append(
            Mapping(container_name=container_name, resource_name=resource, request_name=name)
        )
    requests = long_lived if largest is None else [largest, *long_lived]
    return requests, mappings


def _by_lifetime(
    pod: Pod, resource: str
) -> tuple[list[_ContainerRequest], list[_ContainerRequest]]:
    """Return the requests of long-lived and of short-lived containers."""
    spec = pod.spec
    long_lived: list[_ContainerRequest] = []
    short_lived: list[_ContainerRequest] = []
    for place, container in enumerate((*spec.init_containers, *spec.containers)):
        count = _amount(container, resource)
        if count > 0:
            ends_first = place < len(spec.init_containers) and container.restart_policy != "Always"
            own = _ContainerRequest(place, _request_name(place, container, resource), count)
            (short_lived if ends_first else long_lived).append(own)
    return long_lived, short_lived


def _reuse(own: _ContainerRequest, long_lived: list[_ContainerRequest]) -> tuple[list[str], int]:
    """Return later containers' requests that this one reuses, and the rest."""
    missing = own.amount
    used = []
    for other in long_lived:
        if other.place < own.place:
            continue
        if missing <= 0:
            break
        used.append(other.name)
        missing -= other.amount
    return used, missing


def _amount(container: Container, resource: str) -> int:
    """Return the number of devices that the container requests.

    A fractional amount counts as 0.
    """
    raw = container.resources.requests.get(resource)
    quantity = ZERO if raw is None else quantity_from_json(raw)
    return quantity.value if Quantity.from_value(quantity.value) == quantity else 0


def _request_name(place: int, container: Container, resource: str) -> str:
    names = sorted(container.resources.requests)
    return f"container-{place}-request-{names.index(resource)}"
