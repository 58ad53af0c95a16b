"""What a pod asks for: sums over containers, init containers, sidecars and overhead.

The rules are those of docs/reference/05 §3.2 to §3.5. Sums are exact and rounded once, at the end.
Which parts of a pod count depends on who asks, so callers pass options; the ones that the
scheduler needs are defined here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from kubesched.api.base import RawQuantity, ResourceList
from kubesched.api.pod import Container, ContainerStatus, Pod, ResourceRequirements
from kubesched.api.quantity import (
    ZERO,
    Quantity,
    parse_milli_value,
    parse_quantity,
    parse_value,
    quantity_from_json,
)
from kubesched.api.resource_amounts import Resources
from kubesched.api.resource_names import CPU, MEMORY, is_pod_level_resource_name

__all__ = [
    "DEFAULT_MEMORY_REQUEST",
    "DEFAULT_MILLI_CPU_REQUEST",
    "FIT_REQUESTS",
    "NODE_REQUESTS",
    "SCORE_REQUESTS",
    "PodRequestOptions",
    "fit_requested",
    "is_restartable_init_container",
    "node_amounts",
    "plain_amounts",
    "pod_level_requests_set",
    "pod_nonzero_requested",
    "pod_requested",
    "pod_requests",
]

DEFAULT_MILLI_CPU_REQUEST: Final = 100
DEFAULT_MEMORY_REQUEST: Final = 200 * 1024 * 1024
_DEFAULTS: Final[Mapping[str, Quantity]] = {
    CPU: parse_quantity("100m"),
    MEMORY: parse_quantity("200Mi"),
}


class PodRequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which parts of a pod count.

    `use_status` counts what containers were given, if that differs from what they ask for;
    `pod_level` lets requests of the pod as a whole replace the sum of its containers, and
    `pod_level_status` does for these what `use_status` does for containers. `defaults` stand
    in for what a container does not mention. `node_allocatable_claims` adds what claims take
    from the node itself (alpha).
    """

    use_status: bool = False
    pod_level: bool = True
    pod_level_status: bool = False
    defaults: Mapping[str, Quantity] = {}
    node_allocatable_claims: bool = False


FIT_REQUESTS: Final = PodRequestOptions()
"""What must fit: the pod's wishes, whatever was granted so far."""

NODE_REQUESTS: Final = PodRequestOptions(
    use_status=True, pod_level_status=True, node_allocatable_claims=True
)
"""What a node is charged."""

SCORE_REQUESTS: Final = PodRequestOptions(pod_level=False, defaults=_DEFAULTS)
"""What NodeResourcesFit scores an incoming pod by; blind to requests of the pod as a whole."""


def plain_amounts(pod: Pod) -> tuple[Resources, tuple[int, int]] | None:
    """`node_amounts` of a pod of which every way to count comes to that; None for another pod.

    It has one container and nothing else that could count, and no status says what it was given.
    """
    status = pod.status
    if status.container_statuses or not _is_one_container(pod, NODE_REQUESTS):
        return None
    return _amounts_of_one(tuple(pod.spec.containers[0].resources.requests.items()))


def pod_requested(pod: Pod, options: PodRequestOptions = NODE_REQUESTS) -> Resources:
    """What a node is charged for the pod.

    Pods that ask for the same share the answer, which must not be edited.
    """
    if _is_one_container(pod, options):
        return _amounts_of_one(tuple(pod.spec.containers[0].resources.requests.items()))[0]
    return Resources.from_quantities(pod_requests(pod, options))


def fit_requested(pod: Pod, options: PodRequestOptions = FIT_REQUESTS) -> Resources:
    """What a node must have free for the pod."""
    return pod_requested(pod, options)


def pod_nonzero_requested(pod: Pod, options: PodRequestOptions = NODE_REQUESTS) -> tuple[int, int]:
    """(milli-CPU, bytes of memory) that a node is charged when nodes are scored.

    A container that does not mention one of them counts with a default; an explicit zero
    does not. Of a pod with requests as a whole, only what these leave open is defaulted.
    """
    if _is_one_container(pod, options):
        return _amounts_of_one(tuple(pod.spec.containers[0].resources.requests.items()))[1]
    defaults = _DEFAULTS
    if options.pod_level and pod_level_requests_set(pod):
        plain = pod_requests(pod, options)
        defaults = {name: amount for name, amount in _DEFAULTS.items() if name not in plain}
    total = pod_requests(pod, msgspec.structs.replace(options, defaults=defaults))
    return total.get(CPU, ZERO).milli_value, total.get(MEMORY, ZERO).value


def node_amounts(pod: Pod) -> tuple[Resources, tuple[int, int]]:
    """`pod_requested` and `pod_nonzero_requested` in one.

    Pods that ask for the same share the answer, which must not be edited.
    """
    if _is_one_container(pod, NODE_REQUESTS):
        return _amounts_of_one(tuple(pod.spec.containers[0].resources.requests.items()))
    return pod_requested(pod), pod_nonzero_requested(pod)


@lru_cache(maxsize=4096)
def _amounts_of_one(
    requests: tuple[tuple[str, RawQuantity], ...],
) -> tuple[Resources, tuple[int, int]]:
    amounts = dict(requests)
    return Resources.from_resource_list(amounts), _nonzero(amounts)


def pod_requests(pod: Pod, options: PodRequestOptions = FIT_REQUESTS) -> dict[str, Quantity]:
    """Exact amounts by resource; a resource that is asked for with zero is present."""
    total = _aggregate(pod, options)
    if options.pod_level and pod_level_requests_set(pod):
        total |= _pod_level(pod, options)
    _add(total, _quantities(pod.spec.overhead))
    return total


def pod_level_requests_set(pod: Pod) -> bool:
    """Whether the pod as a whole requests a resource that may be requested so."""
    resources = pod.spec.resources
    return resources is not None and any(map(is_pod_level_resource_name, resources.requests))


def is_restartable_init_container(container: Container) -> bool:
    """Whether an init container is a sidecar: it keeps running beside the others."""
    return container.restart_policy == "Always"


def _nonzero(requests: ResourceList) -> tuple[int, int]:
    cpu, memory = requests.get(CPU), requests.get(MEMORY)
    return (
        DEFAULT_MILLI_CPU_REQUEST if cpu is None else parse_milli_value(cpu),
        DEFAULT_MEMORY_REQUEST if memory is None else parse_value(memory),
    )


def _is_one_container(pod: Pod, options: PodRequestOptions) -> bool:
    """Whether the requests of the only container are all there is to count."""
    spec = pod.spec
    if (
        len(spec.containers) != 1
        or spec.init_containers
        or spec.overhead
        or spec.resources is not None
        or options.defaults
        or (options.node_allocatable_claims and pod.status.node_allocatable_resource_claim_statuses)
    ):
        return False
    if not options.use_status or not pod.status.container_statuses:
        return True
    requests = spec.containers[0].resources.requests
    return all(
        status.resources is None
        or (
            status.resources.requests == requests
            and (not status.allocated_resources or status.allocated_resources == requests)
        )
        for status in pod.status.container_statuses
    )


def _aggregate(pod: Pod, options: PodRequestOptions) -> dict[str, Quantity]:
    """The sum over containers, or the peak while init containers run if that is more."""
    spec = pod.spec
    statuses = _statuses(pod) if options.use_status else {}
    total: dict[str, Quantity] = {}
    for container in spec.containers:
        _add(total, _container_requests(pod, container, statuses, options))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.init_containers:
        if is_restartable_init_container(container):
            requests = _container_requests(pod, container, statuses, options)
            _add(total, requests)
            _add(sidecars, requests)
            _raise_to(peak, sidecars)
        else:
            requests = _container_requests(pod, container, {}, options)
            _add(requests, sidecars)
            _raise_to(peak, requests)
    _raise_to(total, peak)
    if options.node_allocatable_claims:
        for claim in pod.status.node_allocatable_resource_claim_statuses:
            _add(total, _quantities(claim.resources))
    return total


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    every = (*status.container_statuses, *status.init_container_statuses)
    return {each.name: each for each in every}


def _container_requests(
    pod: Pod,
    container: Container,
    statuses: Mapping[str, ContainerStatus],
    options: PodRequestOptions,
) -> dict[str, Quantity]:
    requests = _quantities(container.resources.requests)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        requests = _effective(pod, requests, status.resources, status.allocated_resources)
    for name, amount in options.defaults.items():
        requests.setdefault(name, amount)
    return requests


def _effective(
    pod: Pod,
    wanted: dict[str, Quantity],
    actual: ResourceRequirements,
    allocated: ResourceList,
) -> dict[str, Quantity]:
    """The most of what is wanted, in use and set aside; what cannot be had does not count."""
    most = {} if _is_resize_infeasible(pod) else wanted
    _raise_to(most, _quantities(actual.requests))
    _raise_to(most, _quantities(allocated))
    return most


def _is_resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _pod_level(pod: Pod, options: PodRequestOptions) -> dict[str, Quantity]:
    """What the pod as a whole requests of the resources that may be requested so."""
    resources, status = pod.spec.resources, pod.status
    assert resources is not None
    wanted = {
        name: quantity_from_json(raw)
        for name, raw in resources.requests.items()
        if is_pod_level_resource_name(name)
    }
    if not (options.pod_level_status and options.use_status and status.resources is not None):
        return wanted
    effective = _effective(pod, dict(wanted), status.resources, status.allocated_resources)
    return {name: effective.get(name, ZERO) for name in wanted}


def _quantities(amounts: Mapping[str, RawQuantity]) -> dict[str, Quantity]:
    return {name: quantity_from_json(raw) for name, raw in amounts.items()}


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        present = total.get(name)
        total[name] = amount if present is None else present + amount


def _raise_to(total: dict[str, Quantity], floor: Mapping[str, Quantity]) -> None:
    for name, amount in floor.items():
        present = total.get(name)
        if present is None or present < amount:
            total[name] = amount
