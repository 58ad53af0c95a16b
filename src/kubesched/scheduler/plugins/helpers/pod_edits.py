"""Copies of a pod with one change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from kubesched.api import (
    Affinity,
    Container,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from kubesched.api.base import ResourceList
from kubesched.api.pod_requests import fit_requested
from kubesched.scheduler.plugins.helpers.wording import (
    as_quantity,
)

__all__ = [
    "with_constraint",
    "with_other_resource",
    "with_pod_term",
    "with_request",
    "with_required_terms",
    "with_toleration",
    "without_host_network",
    "without_host_port",
    "without_node_selector",
    "without_pod_term",
]


T = TypeVar("T")


def with_spec(pod: Pod, **changes: object) -> Pod:
    return replace(pod, spec=replace(pod.spec, **changes))


def with_request(pod: Pod, resource: str, amount: int) -> Pod | None:
    """Return the pod with a sum of requests that does not exceed an amount; None if impossible.

    The request of the container with the largest request is reduced.
    """
    own = pod.spec.resources
    if own is not None and resource in own.requests:
        lowered = {**own.requests, resource: as_quantity(resource, amount)}
        # A server refuses containers that request more than the pod.
        containers = with_request(with_spec(pod, resources=None), resource, amount)
        if containers is None:
            return None
        limits = _limits_with(own.limits, resource, amount)
        return with_spec(containers, resources=replace(own, requests=lowered, limits=limits))
    for _ in range(len(pod.spec.containers) + len(pod.spec.init_containers)):
        excess = fit_requested(pod).amount(resource) - amount
        if excess <= 0:
            return pod
        lowered_pod = _lower_largest(pod, resource, excess)
        if lowered_pod is None:
            return None
        pod = lowered_pod
    return pod if fit_requested(pod).amount(resource) <= amount else None


def _lower_largest(pod: Pod, resource: str, excess: int) -> Pod | None:
    """Reduce the request of one container by the excess; None if no request is that large."""
    for field in ("containers", "init_containers"):
        containers: tuple[Container, ...] = getattr(pod.spec, field)
        asked = [_requested(each, resource) for each in containers]
        if not asked or max(asked) < excess:
            continue
        place = asked.index(max(asked))
        changed = _with_container_request(containers[place], resource, asked[place] - excess)
        lowered = with_spec(pod, **{field: _replaced(containers, place, changed)})
        if fit_requested(lowered).amount(resource) < fit_requested(pod).amount(resource):
            return lowered
    return None


def _requested(container: Container, resource: str) -> int:
    alone = Pod(spec=replace(Pod().spec, containers=(container,)))
    return fit_requested(alone).amount(resource)


def _limits_with(limits: ResourceList, resource: str, amount: int) -> ResourceList:
    """Return limits with a changed request: for devices and huge pages both are equal."""
    if ("/" in resource or resource.startswith("hugepages-")) and resource in limits:
        return {**limits, resource: as_quantity(resource, amount)}
    return limits


def _with_container_request(container: Container, resource: str, amount: int) -> Container:
    requests = {**container.resources.requests, resource: as_quantity(resource, amount)}
    limits = _limits_with(container.resources.limits, resource, amount)
    return replace(
        container, resources=replace(container.resources, requests=requests, limits=limits)
    )


def with_other_resource(pod: Pod, old: str, new: str) -> Pod:
    """Return the pod with a request for one resource replaced by another."""

    def renamed(container: Container) -> Container:
        own = container.resources
        return replace(
            container,
            resources=replace(
                own,
                requests={new if key == old else key: each for key, each in own.requests.items()},
                limits={new if key == old else key: each for key, each in own.limits.items()},
            ),
        )

    return with_spec(
        pod,
        containers=_each(pod.spec.containers, renamed),
        init_containers=_each(pod.spec.init_containers, renamed),
    )


def with_toleration(pod: Pod, toleration: Toleration) -> Pod:
    return with_spec(pod, tolerations=(*pod.spec.tolerations, toleration))


def without_node_selector(pod: Pod, key: str) -> Pod:
    left = {k: v for k, v in (pod.spec.node_selector or {}).items() if k != key}
    return with_spec(pod, node_selector=left or None)


def with_required_terms(pod: Pod, terms: Sequence[NodeSelectorTerm]) -> Pod:
    """The pod with other required node affinity; without terms it has none."""
    affinity = pod.spec.affinity or Affinity()
    own = affinity.node_affinity
    assert own is not None
    required = NodeSelector(node_selector_terms=tuple(terms)) if terms else None
    changed = replace(own, required_during_scheduling_ignored_during_execution=required)
    return with_spec(pod, affinity=replace(affinity, node_affinity=changed))


def with_constraint(pod: Pod, place: int, constraint: TopologySpreadConstraint | None) -> Pod:
    """Return the pod with one spread constraint replaced, or removed."""
    given = pod.spec.topology_spread_constraints
    return with_spec(pod, topology_spread_constraints=_replaced(given, place, constraint))


def without_pod_term(pod: Pod, side: str, place: int) -> Pod:
    """The pod without one required term of `pod_affinity` or `pod_anti_affinity`."""
    return with_pod_term(pod, side, place, None)


def with_pod_term(pod: Pod, side: str, place: int, term: PodAffinityTerm | None) -> Pod:
    """The pod with one required term of `pod_affinity` or `pod_anti_affinity` changed."""
    affinity = pod.spec.affinity
    assert affinity is not None
    part = getattr(affinity, side)
    terms = part.required_during_scheduling_ignored_during_execution
    left = replace(
        part, required_during_scheduling_ignored_during_execution=_replaced(terms, place, term)
    )
    return with_spec(pod, affinity=replace(affinity, **{side: left}))


def without_host_network(pod: Pod) -> Pod:
    """The pod in the pod network, without the host ports that a server adds to hostNetwork."""
    ports = {
        (port.protocol or "TCP", port.host_port)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for port in container.ports
        if port.host_port
    }
    for protocol, number in sorted(ports):
        pod = without_host_port(pod, protocol, number)
    return with_spec(pod, host_network=False)


def without_host_port(pod: Pod, protocol: str, port: int) -> Pod:
    def freed(container: Container) -> Container:
        ports = tuple(
            replace(each, host_port=0)
            if each.host_port == port and (each.protocol or "TCP") == protocol
            else each
            for each in container.ports
        )
        return replace(container, ports=ports)

    return with_spec(
        pod,
        containers=_each(pod.spec.containers, freed),
        init_containers=_each(pod.spec.init_containers, freed),
    )


def _each(values: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    return tuple(change(value) for value in values)


def _replaced(values: Sequence[T], place: int, value: T | None) -> tuple[T, ...]:
    """Return the values with one replaced, or removed if there is no replacement."""
    kept = () if value is None else (value,)
    return (*values[:place], *kept, *values[place + 1 :])
