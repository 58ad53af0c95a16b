"""Requests for devices in place of extended resources (docs/reference/08 §7.2).

A container that asks for an extended resource which a device class serves gets a request for that
class. Init containers that end before others start reuse what those have.
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
    """What a claim for extended resources asks for, and which container gets what of it."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[Mapping, ...]


class _Own(NamedTuple):
    """A request of one container for one resource."""

    place: int  # of the container
    name: str
    amount: int


def extended_requests(pod: Pod, classes: Iterable[tuple[str, str]]) -> ExtendedRequests:
    """The requests for these resources; each comes with the name of its class."""
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


def _requests_of(pod: Pod, resource: str) -> tuple[list[_Own], list[Mapping]]:
    """The requests for one resource, those of containers that end first in front."""
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    long_lived: list[_Own] = []
    short_lived: list[_Own] = []
    for place, container in enumerate(containers):
        count = _amount(container, resource)
        if count > 0:
            ends_first = place < len(spec.init_containers) and container.restart_policy != "Always"
            own = _Own(place, _request_name(place, container, resource), count)
            (short_lived if ends_first else long_lived).append(own)
    mappings = [
        Mapping(
            container_name=containers[own.place].name, resource_name=resource, request_name=own.name
        )
        for own in long_lived
    ]
    largest: _Own | None = None
    pending: list[tuple[str, str]] = []  # container, the request it uses ("": its own)
    for own in short_lived:
        container_name = containers[own.place].name
        missing = own.amount
        for other in long_lived:
            if other.place < own.place:
                continue
            if missing <= 0:
                break
            pending.append((container_name, other.name))
            missing -= other.amount
        if missing > 0:
            pending.append((container_name, ""))
            if largest is None or missing > largest.amount:
                largest = _Own(own.place, own.name, missing)
    for container_name, used in pending:
        assert used or largest is not None
        name = used or (largest.name if largest is not None else "")
        mappings.append(
            Mapping(container_name=container_name, resource_name=resource, request_name=name)
        )
    kept = long_lived if largest is None else [largest, *long_lived]
    return kept, mappings


def _amount(container: Container, resource: str) -> int:
    """How many devices the container asks for; a fraction of one is not a number of devices."""
    raw = container.resources.requests.get(resource)
    quantity = ZERO if raw is None else quantity_from_json(raw)
    return quantity.value if Quantity.from_value(quantity.value) == quantity else 0


def _request_name(place: int, container: Container, resource: str) -> str:
    names = sorted(container.resources.requests)
    return f"container-{place}-request-{names.index(resource)}"
