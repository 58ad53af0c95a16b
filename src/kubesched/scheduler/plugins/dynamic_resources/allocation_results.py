"""Convert a solution of the search to allocations of claims.

docs/reference/08 §8.11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubesched.api import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from kubesched.api.base import RawQuantity
from kubesched.scheduler.plugins.dynamic_resources.device_pools import PoolView, ViewedDevice
from kubesched.scheduler.plugins.dynamic_resources.device_requests import ClaimRequests
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import Pick, Solution

__all__ = ["allocation_of"]

_FROM_CLASS = "FromClass"
_FROM_CLAIM = "FromClaim"


def allocation_of(
    solution: Solution,
    claim: int,
    requests: ClaimRequests,
    views: Sequence[PoolView],
    node_name: str,
    share_id: Callable[[], str],
) -> AllocationResult:
    """Return the allocation of one claim of a solution, on a node of the group."""
    picks = solution.picks[claim]
    devices = [views[pick.view].devices[pick.device] for pick in picks]
    results = tuple(
        _result(pick, device, views[pick.view], share_id)
        for pick, device in zip(picks, devices, strict=True)
    )
    chosen = {
        number: alternative for (of, number), alternative in solution.chosen.items() if of == claim
    }
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=_configuration(requests, chosen)),
        node_selector=_node_selector(devices, node_name),
    )


def _result(
    pick: Pick, device: ViewedDevice, view: PoolView, share_id: Callable[[], str]
) -> DeviceRequestAllocationResult:
    driver, pool = view.pool.pool_id
    published = device.content.device
    consumed: dict[str, RawQuantity] = {name: str(amount) for name, amount in pick.consumed.items()}
    return DeviceRequestAllocationResult(
        request=pick.request.full_name,
        driver=driver,
        pool=pool,
        device=device.name,
        admin_access=True if pick.request.admin_access else None,
        tolerations=pick.request.tolerations,
        binding_conditions=published.binding_conditions,
        binding_failure_conditions=published.binding_failure_conditions,
        share_id=share_id() if pick.is_share else None,
        consumed_capacity=consumed or None,
    )


def _configuration(
    requests: ClaimRequests, chosen: dict[int, int]
) -> tuple[DeviceAllocationConfiguration, ...]:
    names: dict[str, list[str]] = {}  # class -> requests
    classes = {}
    full_names: list[tuple[str, str]] = []
    for number, choice in enumerate(requests.choices):
        request = choice.alternatives[chosen.get(number, 0)]
        full_names.append((choice.name, request.full_name))
        device_class = request.device_class
        assert device_class is not None, "checked before the search"
        classes[device_class.metadata.name] = device_class
        names.setdefault(device_class.metadata.name, []).append(request.full_name)
    found = [
        DeviceAllocationConfiguration(
            source=_FROM_CLASS, requests=tuple(names[name]), opaque=config.opaque
        )
        for name, device_class in classes.items()
        for config in device_class.spec.config
    ]
    for config in requests.spec.config:
        times = 1
        if config.requests:
            # Once per request that it names, as in the reference.
            times = sum(
                name in config.requests or full_name in config.requests
                for name, full_name in full_names
            )
        found += times * [
            DeviceAllocationConfiguration(
                source=_FROM_CLAIM, requests=config.requests, opaque=config.opaque
            )
        ]
    return tuple(found)


def _node_selector(devices: Sequence[ViewedDevice], node_name: str) -> NodeSelector | None:
    """Return the nodes that can use the devices; None: all nodes."""

    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for device in devices:
        published = device.content.device
        of = published if device.slice.is_per_device else device.slice.selection
        if of.node_name or published.binds_to_node:
            return _single_node_selector(node_name)
        for term in of.node_selector.node_selector_terms if of.node_selector else ():
            _add_missing(expressions, term.match_expressions)
            _add_missing(fields, term.match_fields)
    if not expressions and not fields:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def _single_node_selector(node_name: str) -> NodeSelector:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))


def _add_missing(
    found: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]
) -> None:
    for requirement in more:
        if not any(
            requirement.key == other.key
            and requirement.operator == other.operator
            and set(requirement.values) == set(other.values)
            for other in found
        ):
            found.append(requirement)
