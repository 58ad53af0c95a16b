"""Explains missing resources: what the pod requests, and the most that is free on a node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.api import Container, Pod
from kubesched.api.pod_facts import controller_of, pod_priority
from kubesched.api.pod_requests import fit_requested
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kubesched.framework import Cause, NodeInfo, PodInfo
from kubesched.framework.causes import InsufficientResource, TooManyPods
from kubesched.framework.explaining import (
    Detail,
    Explaining,
    RejectedNodes,
    Remedy,
    Removal,
)
from kubesched.scheduler.plugins.helpers.budget_limits import blocking_budgets
from kubesched.scheduler.plugins.helpers.pod_edits import (
    with_other_resource,
    with_request,
)
from kubesched.scheduler.plugins.helpers.requested_amounts import requested_amounts
from kubesched.scheduler.plugins.helpers.wording import (
    as_quantity,
    nearest,
    shown_amount,
)

__all__ = ["NodeResourcesFitExplaining"]


_EVERYWHERE = (CPU, MEMORY, EPHEMERAL_STORAGE, "pods")

_MOST_DELETED = 5

_NODES_TRIED = 3


class NodeResourcesFitExplaining(Explaining):
    """Compares requests with free amounts, and proposes to reduce requests or to move pods."""

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        match cause:
            case InsufficientResource(resource=resource):
                return _insufficient(rejected, resource)
            case TooManyPods():
                return _too_many_pods(rejected)
        return Detail()

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return _remedies(rejected)


def _insufficient(rejected: RejectedNodes, resource: str) -> Detail:
    nodes = rejected.view
    allocatable = nodes.allocatable(resource)
    free = allocatable - nodes.requested(resource)
    best, largest = int(np.argmax(free)), int(np.argmax(allocatable))
    most = max(int(free[best]), 0)
    amount = fit_requested(rejected.pod).amount(resource)
    asked = shown_amount(resource, amount)
    available = f"{shown_amount(resource, most)} on {nodes.names[best]}"
    detail = ""
    if amount > int(allocatable[largest]):
        shown = shown_amount(resource, int(allocatable[largest]))
        detail = f"even empty, none of these has more than {shown} (on {nodes.names[largest]})"
    there_is = _describe_free_amount(rejected, resource, most, best)
    origin = _origin(rejected, resource)
    return Detail(
        asked,
        available,
        detail,
        sentence=f"Insufficient {resource}: asks {asked}{origin}, and {there_is}",
        cause=InsufficientResource(resource, asked=amount, free=most),
    )


def _origin(rejected: RejectedNodes, resource: str) -> str:
    """Return the init container or the overhead that determines the amount.

    Empty if it is the sum.
    """
    pod = rejected.pod
    asked = fit_requested(pod).amount(resource)
    plain = replace(pod, spec=replace(pod.spec, overhead={}))
    overhead = asked - fit_requested(plain).amount(resource)
    parts = []
    for each in pod.spec.init_containers:
        alone = replace(plain, spec=replace(plain.spec, init_containers=(), containers=(each,)))
        without = replace(plain, spec=replace(plain.spec, init_containers=()))
        if (
            each.restart_policy != "Always"
            and fit_requested(alone).amount(resource) == asked - overhead
            and fit_requested(without).amount(resource) < asked - overhead
        ):
            parts.append(f"for init container {each.name} alone")
            break
    else:
        if init := _init_beside_sidecars(plain, resource, asked - overhead):
            parts.append(f"for init container {init} beside the sidecars before it")
    if overhead:
        parts.append(f"{shown_amount(resource, overhead)} of it overhead of its runtime class")
    return f" ({', '.join(parts)})" if parts else ""


def _init_beside_sidecars(pod: Pod, resource: str, asked: int) -> str:
    """Name the init container that needs the amount together with the sidecars before it."""
    sidecars: list[Container] = []
    every = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    running = replace(pod, spec=replace(pod.spec, init_containers=tuple(every)))
    if not every or fit_requested(running).amount(resource) >= asked:
        return ""
    for each in pod.spec.init_containers:
        if each.restart_policy == "Always":
            sidecars.append(each)
            continue
        beside = replace(pod.spec, init_containers=(), containers=(*sidecars, each))
        if sidecars and fit_requested(replace(pod, spec=beside)).amount(resource) == asked:
            return each.name
    return ""


def _describe_free_amount(rejected: RejectedNodes, resource: str, most: int, best: int) -> str:
    """Describe the free amount, or why the node can never have enough."""
    asked = fit_requested(rejected.pod).amount(resource)
    allocatable = rejected.nodes.allocatable(resource)
    largest = int(np.argmax(allocatable))
    if not int(allocatable[largest]):
        other = nearest(resource, _offered(rejected)) if resource not in _EVERYWHERE else ""
        hint = f"; did you mean {other}?" if other else ""
        return f"no node offers any{hint}"
    if asked > int(allocatable[largest]):
        shown = shown_amount(resource, int(allocatable[largest]))
        return f"even the largest node, {rejected.nodes.names[largest]}, has only {shown} in all"
    name = rejected.view.names[best]
    if most == 0:
        return f"none is free on {name}" if len(rejected.positions) == 1 else "none is free"
    return f"at most {shown_amount(resource, most)} is free (on {name})"


def _offered(rejected: RejectedNodes) -> list[str]:
    """Return the names of further resources that some node has."""
    found = {
        name
        for node in rejected.nodes
        if node.node is not None
        for name in node.node.status.allocatable
    }
    return sorted(found.difference(_EVERYWHERE))


def _too_many_pods(rejected: RejectedNodes) -> Detail:
    nodes = rejected.view
    free = nodes.allowed_pods - nodes.pod_count
    best = int(np.argmax(free))
    allowed, name = int(nodes.allowed_pods[best]), nodes.names[best]
    available = f"{max(int(free[best]), 0)} of {allowed} on {name}"
    sentence = f"Too many pods: {name} runs as many as it may, {int(nodes.pod_count[best])}"
    if allowed == 0:
        sentence = f"Too many pods: {name} takes none at all (it offers 0 pods)"
    return Detail("1 pod", available, sentence=sentence, cause=TooManyPods(allowed))


def _remedies(rejected: RejectedNodes) -> Iterator[Remedy]:
    resources = requested_amounts(rejected.pod)
    nodes = rejected.view
    if not len(nodes):
        return
    names = list(resources)
    asked = np.array([resources[name] for name in names], dtype=np.int64)[:, np.newaxis]
    free = np.zeros((0, len(nodes)), dtype=np.int64)
    allocatable = free
    if names:
        allocatable = np.stack([nodes.allocatable(name) for name in names])
        free = allocatable - np.stack([nodes.requested(name) for name in names])
    lacking = free < asked
    full = nodes.pod_count >= nodes.allowed_pods
    yield from _request_less(rejected, names, asked, free, lacking & ~full)
    yield from _request_another(rejected, resources)
    possible = ((allocatable >= asked).all(axis=0)) & (nodes.allowed_pods > 0)
    if possible.any():
        shortage = np.where(lacking, (asked - free) / np.maximum(asked, 1), 0.0).sum(axis=0)
        order = np.argsort(np.where(possible, shortage, np.inf), kind="stable")
        for place in order[: min(_NODES_TRIED, int(possible.sum()))].tolist():
            wanted = {
                name: int(asked[number, 0] - free[number, place])
                for number, name in enumerate(names)
                if lacking[number, place]
            }
            freed = _free_on_node(rejected, nodes.info(place), wanted)
            if freed is not None:
                yield freed


def _request_another(rejected: RejectedNodes, resources: dict[str, int]) -> Iterator[Remedy]:
    """Propose the resource that was probably intended, if no node offers the requested one."""
    for name in resources:
        if "/" not in name or rejected.nodes.allocatable(name).any():
            continue
        offered = sorted(
            {
                each
                for node in rejected.nodes
                if node.node is not None
                for each in node.node.status.allocatable
                if "/" in each
            }
        )
        near = nearest(name, offered)
        if near:
            yield Remedy(
                f"ask for {near} instead of {name}",
                0.9,
                with_other_resource(rejected.pod, name, near),
            )


def _request_less(
    rejected: RejectedNodes,
    names: list[str],
    asked: NDArray[np.int64],
    free: NDArray[np.int64],
    lacking: NDArray[np.bool_],
) -> Iterator[Remedy]:
    """Propose smaller requests: for each set of lacking resources, where least is cut."""
    if not names or not lacking.any():
        return
    cut = np.where(lacking, (asked - free) / asked, 0.0).sum(axis=0)
    impossible = (lacking & (free <= 0)).any(axis=0) | ~lacking.any(axis=0)
    for pattern in np.unique(lacking[:, ~impossible], axis=1).T:
        if not 1 <= int(pattern.sum()) <= 2:
            continue
        alike = (lacking == pattern[:, np.newaxis]).all(axis=0) & ~impossible
        place = int(np.argmin(np.where(alike, cut, np.inf)))
        pod: Pod | None = rejected.pod
        parts = []
        for number in np.flatnonzero(pattern).tolist():
            resource, most = names[number], int(free[number, place])
            pod = None if pod is None else with_request(pod, resource, most)
            shown = as_quantity(resource, most)
            was = shown_amount(resource, int(asked[number, 0]))
            parts.append(f"request {resource} <= {shown} (asks {was})")
        if pod is not None:
            # Two reduced requests are two changes, whatever the amounts.
            size = float(cut[place]) + (len(parts) - 1)
            together = tuple(parts) if len(parts) > 1 else ()
            yield Remedy(", and ".join(parts), size, pod, parts=together)


def _fewest_pods(pod: Pod, node: NodeInfo, wanted: dict[str, int]) -> list[PodInfo]:
    """Return one pod that is large enough, or else the largest pods; empty if those are too many.

    Pods of the same controller are left out, because it would recreate them.
    """
    own = controller_of(pod)
    others = [each for each in node.pods if own is None or controller_of(each.pod) != own]
    by_importance = sorted(
        others, key=lambda each: (pod_priority(each.pod), each.pod.metadata.name)
    )
    useful = [
        each
        for each in by_importance
        if not wanted or any(each.requested.amount(name) > 0 for name in wanted)
    ]
    for each in useful:
        if all(each.requested.amount(name) >= amount for name, amount in wanted.items()):
            return [each]
    return _largest_pods(useful, wanted)


def _largest_pods(useful: list[PodInfo], wanted: dict[str, int]) -> list[PodInfo]:
    """Return the largest pods that are enough together; none if that is too many."""
    chosen: list[PodInfo] = []
    left = dict(wanted)
    for each in sorted(
        useful, key=lambda each: -max(each.requested.amount(name) for name in wanted)
    ):
        if max(left.values()) <= 0:
            break
        chosen.append(each)
        left = {name: amount - each.requested.amount(name) for name, amount in left.items()}
    is_enough = max(left.values(), default=0) <= 0
    return chosen if is_enough and len(chosen) <= _MOST_DELETED else []


def _free_on_node(rejected: RejectedNodes, node: NodeInfo, wanted: dict[str, int]) -> Remedy | None:
    """Propose to move the fewest, least important pods whose requests suffice on one node."""
    chosen = _fewest_pods(rejected.pod, node, wanted)
    if not chosen:
        return None
    what = " and ".join(f"{shown_amount(name, amount)} {name}" for name, amount in wanted.items())
    pods = [f"{each.pod.metadata.namespace}/{each.pod.metadata.name}" for each in chosen]
    against = blocking_budgets(rejected.objects, [each.pod for each in chosen])
    budgets = ", ".join(f"{b.metadata.namespace}/{b.metadata.name}" for b in against)
    text = f"free {what or 'a place for a pod'} on {node.name}, such as by moving {', '.join(pods)}"
    return Remedy(
        f"{text}, for which budget {budgets} has to be raised" if budgets else text,
        1.0 + len(chosen),
        rejected.pod,
        tuple(Removal(Pod, each.pod.metadata.name, each.pod.metadata.namespace) for each in chosen),
        node=node.name,
    )
