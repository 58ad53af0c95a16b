"""Room: ask for less, or free some on a node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_priority
from kubesched.api.pod_requests import fit_requested
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kubesched.explain.amounts import as_quantity, shown_amount
from kubesched.explain.budgets import blocking_budgets
from kubesched.explain.details.context import nearest
from kubesched.explain.model import Removal
from kubesched.explain.suggestions.candidate import CLUSTER, POD, Candidate, Question
from kubesched.explain.suggestions.pod_edits import with_other_resource, with_request
from kubesched.framework import NodeInfo

__all__ = ["make_room"]

_MOST_DELETED = 5
_NODES_TRIED = 3


def make_room(question: Question) -> Iterator[Candidate]:
    resources = _asked(question.pod)
    nodes = question.candidates
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
    yield from _ask_for_less(question, names, asked, free, lacking & ~full)
    yield from _ask_for_another(question, resources)
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
            freed = _free_on_node(question, nodes.info(place), wanted)
            if freed is not None:
                yield freed


def _asked(pod: Pod) -> dict[str, int]:
    wanted = fit_requested(pod)
    amounts = {
        CPU: wanted.milli_cpu,
        MEMORY: wanted.memory,
        EPHEMERAL_STORAGE: wanted.ephemeral_storage,
        **wanted.scalar,
    }
    return {name: amount for name, amount in amounts.items() if amount > 0}


def _ask_for_another(question: Question, resources: dict[str, int]) -> Iterator[Candidate]:
    """The resource that was probably meant, if no node offers the one that is asked for."""
    for name in resources:
        if "/" not in name or question.nodes.allocatable(name).any():
            continue
        offered = sorted(
            {
                each
                for node in question.nodes
                if node.node is not None
                for each in node.node.status.allocatable
                if "/" in each
            }
        )
        near = nearest(name, offered)
        if near:
            yield Candidate(
                f"ask for {near} instead of {name}",
                POD,
                0.9,
                with_other_resource(question.pod, name, near),
            )


def _ask_for_less(
    question: Question,
    names: list[str],
    asked: NDArray[np.int64],
    free: NDArray[np.int64],
    lacking: NDArray[np.bool_],
) -> Iterator[Candidate]:
    """For each set of lacking resources the node where least has to be given up."""
    if not names or not lacking.any():
        return
    given_up = np.where(lacking, (asked - free) / asked, 0.0).sum(axis=0)
    hopeless = (lacking & (free <= 0)).any(axis=0) | ~lacking.any(axis=0)
    for pattern in np.unique(lacking[:, ~hopeless], axis=1).T:
        if not 1 <= int(pattern.sum()) <= 2:
            continue
        alike = (lacking == pattern[:, np.newaxis]).all(axis=0) & ~hopeless
        place = int(np.argmin(np.where(alike, given_up, np.inf)))
        pod: Pod | None = question.pod
        parts = []
        for number in np.flatnonzero(pattern).tolist():
            resource, most = names[number], int(free[number, place])
            pod = None if pod is None else with_request(pod, resource, most)
            shown = as_quantity(resource, most)
            was = shown_amount(resource, int(asked[number, 0]))
            parts.append(f"request {resource} <= {shown} (asks {was})")
        if pod is not None:
            # Two requests lowered are two changes, whatever the amounts.
            size = float(given_up[place]) + (len(parts) - 1)
            together = tuple(parts) if len(parts) > 1 else ()
            yield Candidate(", and ".join(parts), POD, size, pod, parts=together)


def _free_on_node(question: Question, node: NodeInfo, wanted: dict[str, int]) -> Candidate | None:
    """Delete the fewest, least important pods that free enough on one node."""
    by_importance = sorted(
        node.pods, key=lambda each: (pod_priority(each.pod), each.pod.metadata.name)
    )
    useful = [
        each
        for each in by_importance
        if not wanted or any(each.requested.amount(name) > 0 for name in wanted)
    ]
    enough = [
        each
        for each in useful
        if all(each.requested.amount(name) >= amount for name, amount in wanted.items())
    ]
    chosen = enough[:1]
    if not chosen:
        left = dict(wanted)
        for each in sorted(
            useful, key=lambda each: -max(each.requested.amount(name) for name in wanted)
        ):
            if not any(amount > 0 for amount in left.values()):
                break
            chosen.append(each)
            left = {name: amount - each.requested.amount(name) for name, amount in left.items()}
        if any(amount > 0 for amount in left.values()) or len(chosen) > _MOST_DELETED:
            return None
    if not chosen:
        return None
    what = " and ".join(f"{shown_amount(name, amount)} {name}" for name, amount in wanted.items())
    pods = [f"{each.pod.metadata.namespace}/{each.pod.metadata.name}" for each in chosen]
    against = blocking_budgets(question.model.objects, [each.pod for each in chosen])
    budgets = ", ".join(f"{b.metadata.namespace}/{b.metadata.name}" for b in against)
    text = f"free {what or 'a place for a pod'} on {node.name}, such as by moving {', '.join(pods)}"
    return Candidate(
        f"{text}, for which budget {budgets} has to be raised" if budgets else text,
        CLUSTER,
        1.0 + len(chosen),
        question.pod,
        tuple(Removal(Pod, each.pod.metadata.name, each.pod.metadata.namespace) for each in chosen),
        node=node.name,
    )
