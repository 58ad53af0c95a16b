"""The resource requests of pods: sums over containers, sidecars and overhead.

The rules are those of docs/reference/05 §3.2 to §3.5. Sums are exact and rounded once, at the end.
Callers pass options that select which parts of a pod count; the options that the scheduler needs
are defined here.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from kubesched.api.sized_caches import MOST_WEIGHT, cached_unless

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
    """The parts of a pod that count.

    `use_status` counts the allocated resources of containers if they differ from the requests.
    `pod_level` lets requests on the pod level replace the sum of the containers, and
    `pod_level_status` is `use_status` for these. `defaults` apply to resources that a container
    does not request. `node_allocatable_claims` adds the node resources of claims (alpha).
    """

    use_status: bool = False
    pod_level: bool = True
    pod_level_status: bool = False
    defaults: Mapping[str, Quantity] = {}
    node_allocatable_claims: bool = False


# The amounts that must be free on a node: the pod's requests, whatever is allocated so far.
FIT_REQUESTS: Final = PodRequestOptions()

# The amounts that a node is charged.
NODE_REQUESTS: Final = PodRequestOptions(
    use_status=True, pod_level_status=True, node_allocatable_claims=True
)

# The amounts by which NodeResourcesFit scores an incoming pod; ignores pod-level requests.
SCORE_REQUESTS: Final = PodRequestOptions(pod_level=False, defaults=_DEFAULTS)


def plain_amounts(pod: Pod) -> tuple[Resources, tuple[int, int]] | None:
    """Return `node_amounts` if all options give this result; None for any other pod.

    Such a pod has one container, nothing else that could count, and no container status.
    """
    status = pod.status
    if status.container_statuses or not _is_one_container(pod, NODE_REQUESTS):
        return None
    return _amounts_of_one(tuple(pod.spec.containers[0].resources.requests.items()))


def pod_requested(pod: Pod, options: PodRequestOptions = NODE_REQUESTS) -> Resources:
    """Return the amounts that a node is charged for the pod.

    Pods with equal requests share the result; do not modify it.
    """
    if _is_one_container(pod, options):
        return _amounts_of_one(tuple(pod.spec.containers[0].resources.requests.items()))[0]
    return Resources.from_quantities(pod_requests(pod, options))


def fit_requested(pod: Pod, options: PodRequestOptions = FIT_REQUESTS) -> Resources:
    """Return the amounts that a node must have free for the pod."""
    return pod_requested(pod, options)


def pod_nonzero_requested(pod: Pod, options: PodRequestOptions = NODE_REQUESTS) -> tuple[int, int]:
    """Return (milli-CPU, bytes of memory) of the pod for scoring nodes.

    A container that does not request one of them counts with a default; an explicit zero counts
    as zero. If the pod has pod-level requests, defaults apply only to resources that these omit.
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
    """Return `pod_requested` and `pod_nonzero_requested`.

    Pods with equal requests share the result; do not modify it.
    """
    if _is_one_container(pod, NODE_REQUESTS):
        return _amounts_of_one(tuple(pod.spec.containers[0].resources.requests.items()))
    return pod_requested(pod), pod_nonzero_requested(pod)


def _are_many(requests: tuple[tuple[str, RawQuantity], ...]) -> bool:
    return sum(len(name) + len(str(raw)) for name, raw in requests) > MOST_WEIGHT


@cached_unless(_are_many, 4096)
def _amounts_of_one(
    requests: tuple[tuple[str, RawQuantity], ...],
) -> tuple[Resources, tuple[int, int]]:
    amounts = dict(requests)
    return Resources.from_resource_list(amounts), _nonzero(amounts)


def pod_requests(pod: Pod, options: PodRequestOptions = FIT_REQUESTS) -> dict[str, Quantity]:
    """Return exact amounts by resource; a resource with a request of zero is present."""
    total = _aggregate(pod, options)
    if options.pod_level and pod_level_requests_set(pod):
        total |= _pod_level(pod, options)
    _add(total, _quantities(pod.spec.overhead))
    return total


def pod_level_requests_set(pod: Pod) -> bool:
    """Whether the pod has pod-level requests of a resource that supports them."""
    resources = pod.spec.resources
    return resources is not None and any(map(is_pod_level_resource_name, resources.requests))


def is_restartable_init_container(container: Container) -> bool:
    """Whether an init container is a sidecar, which runs as long as the pod."""
    return container.restart_policy == "Always"


def _nonzero(requests: ResourceList) -> tuple[int, int]:
    cpu, memory = requests.get(CPU), requests.get(MEMORY)
    return (
        DEFAULT_MILLI_CPU_REQUEST if cpu is None else parse_milli_value(cpu),
        DEFAULT_MEMORY_REQUEST if memory is None else parse_value(memory),
    )


def _is_one_container(pod: Pod, options: PodRequestOptions) -> bool:
    """Whether the requests of a single container are the whole amount."""
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
    """Return the higher of the containers' sum and the initialization's peak."""
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
            _raise_to_maximum(peak, sidecars)
        else:
            requests = _container_requests(pod, container, {}, options)
            _add(requests, sidecars)
            _raise_to_maximum(peak, requests)
    _raise_to_maximum(total, peak)
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
        requests = _effective_requests(pod, requests, status.resources, status.allocated_resources)
    for name, amount in options.defaults.items():
        requests.setdefault(name, amount)
    return requests


def _effective_requests(
    pod: Pod,
    desired: dict[str, Quantity],
    actual: ResourceRequirements,
    allocated: ResourceList,
) -> dict[str, Quantity]:
    """Return the maximum of desired, actual and allocated.

    An infeasible resize is left out.
    """
    most = {} if _is_resize_infeasible(pod) else desired
    _raise_to_maximum(most, _quantities(actual.requests))
    _raise_to_maximum(most, _quantities(allocated))
    return most


def _is_resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _pod_level(pod: Pod, options: PodRequestOptions) -> dict[str, Quantity]:
    """Return the pod-level requests of the resources that support them."""
    resources, status = pod.spec.resources, pod.status
    assert resources is not None
    desired = {
        name: quantity_from_json(raw)
        for name, raw in resources.requests.items()
        if is_pod_level_resource_name(name)
    }
    if not (options.pod_level_status and options.use_status and status.resources is not None):
        return desired
    effective = _effective_requests(
        pod, dict(desired), status.resources, status.allocated_resources
    )
    return {name: effective.get(name, ZERO) for name in desired}


def _quantities(amounts: Mapping[str, RawQuantity]) -> dict[str, Quantity]:
    return {name: quantity_from_json(raw) for name, raw in amounts.items()}


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        present = total.get(name)
        total[name] = amount if present is None else present + amount


def _raise_to_maximum(total: dict[str, Quantity], floor: Mapping[str, Quantity]) -> None:
    for name, amount in floor.items():
        present = total.get(name)
        if present is None or present < amount:
            total[name] = amount
