"""Capacity: how many copies of pods fit, on which nodes, and what rejects the next copy."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from kubesched.api import Node, Pod
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.clusters.own_claims import with_claims
from kubesched.explain.copies import Copies, copy_of
from kubesched.explain.explanation import VerdictGroup, rejection_row
from kubesched.explain.groups import verdict_groups
from kubesched.explain.plugin_explanations import PluginExplanations
from kubesched.explain.rendering.frames import frame
from kubesched.explain.rendering.result import Result
from kubesched.explain.verdicts import find_all_verdicts
from kubesched.framework import PodInfo
from kubesched.scheduler.plugins.helpers.node_copies import node_like

__all__ = ["Fit", "NodesNeeded", "fit_pods"]

_ENDLESS = 1_000_000
_SHAPES_TRIED = 4


class NodesNeeded(Result, frozen=True, kw_only=True):
    """The number of new nodes of one shape that would hold the remaining copies."""

    like: str
    count: int


class Fit(Result, frozen=True, kw_only=True):
    """How many copies fit.

    `stopped_by` has the reasons against another copy, by groups of nodes.
    """

    pods: tuple[str, ...]
    asked: int | None  # None: as many as possible
    fits: int
    nodes: dict[str, int]  # node -> number of copies that it would get
    stopped_by: tuple[VerdictGroup, ...] = ()
    message: str = ""
    nodes_needed: tuple[NodesNeeded, ...] = ()

    def to_pandas(self) -> Any:
        """A pandas frame with a row for each node; needs the extra `pandas`."""
        return _fit_frame(self)

    def _repr_html_(self) -> str:
        return _fit_html(self)

    def __repr__(self) -> str:
        wanted = "" if self.asked is None else f" of {self.asked}"
        return f"<Fit of {', '.join(self.pods)}: {self.fits}{wanted} on {len(self.nodes)} nodes>"


def fit_pods(model: ClusterModel, pods: Sequence[Pod], replicas: int | None) -> Fit:
    """Place copies of the pods in turn, until one fits no node or all are placed.

    The result counts whole sets of the given pods.
    """
    copies = Copies(model)
    wanted = _ENDLESS if replicas is None else replicas
    message = ""
    stopped: tuple[VerdictGroup, ...] = ()
    needed: tuple[NodesNeeded, ...] = ()
    try:
        if replicas is None and len(pods) == 1:
            copies.fill(pods[0])
        fits = len(copies) // len(pods)
        while fits < wanted:
            failed = _place_set(pods, fits, copies)
            if failed is not None:
                pod, message = failed
                stopped = _stopped_by(model, pod)
                break
            fits += 1
        by_node = +copies.by_node
        if replicas is not None and fits < replicas:
            needed = _nodes_needed(model, pods, replicas - fits, fits)
    finally:
        copies.take_back()
    return Fit(
        pods=tuple(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods),
        asked=replicas,
        fits=fits,
        nodes=dict(sorted(by_node.items(), key=lambda item: (-item[1], item[0]))),
        stopped_by=stopped,
        message=message,
        nodes_needed=needed,
    )


def _place_set(pods: Sequence[Pod], number: int, copies: Copies) -> tuple[Pod, str] | None:
    """Place one copy of each pod; return the one that does not fit, and why, or None."""
    for place, pod in enumerate(pods):
        if message := copies.try_one(pod, number):
            copies.take_back(place)
            return copy_of(pod, number), message
    return None


def _stopped_by(model: ClusterModel, pod: Pod) -> tuple[VerdictGroup, ...]:
    pod, claims = with_claims(model.objects, pod)
    with model.changed(claims):
        info, framework = PodInfo(pod), model.framework_of(pod)
        verdicts = find_all_verdicts(framework, info, model.snapshot.nodes)
        explanations = PluginExplanations.of_framework(framework)
        return verdict_groups(model, info, verdicts, model.search(pod), explanations)


def _nodes_needed(
    model: ClusterModel, pods: Sequence[Pod], missing: int, number: int
) -> tuple[NodesNeeded, ...]:
    """Compute for each large shape of node how many new nodes would fit the missing copies."""
    shapes: dict[object, Node] = {}
    for node in sorted(model.objects.list(Node), key=lambda each: each.metadata.name):
        shapes.setdefault(tuple(sorted(node.status.allocatable.items(), key=str)), node)
    largest = sorted(shapes.values(), key=lambda node: str(node.status.allocatable.get("cpu")))
    found = []
    for node in largest[-_SHAPES_TRIED:]:
        count = _count_needed(model, pods, missing, number, node)
        if count:
            found.append(NodesNeeded(like=node.metadata.name, count=count))
    return tuple(sorted(found, key=lambda each: (each.count, each.like)))


def _count_needed(
    model: ClusterModel, pods: Sequence[Pod], missing: int, number: int, node: Node
) -> int:
    copies = Copies(model)
    new: list[str] = []
    left = missing
    try:
        while left > 0:
            name = f"{node.metadata.name}-new-{len(new) + 1}"
            model.objects.put(node_like(node, name))
            new.append(name)
            before = left
            while left > 0 and _place_set(pods, number, copies) is None:
                number += 1
                left -= 1
            if left == before:
                return 0  # a node of this shape fits no copy
        return len(new)
    finally:
        copies.take_back()
        for name in reversed(new):
            model.objects.remove(Node, name)
        model.cache.update_snapshot()


def _fit_frame(fit: Fit) -> Any:
    """Return a row for each node that gets copies."""
    rows = [{"node": node, "copies": count} for node, count in fit.nodes.items()]
    return frame(rows, ["node", "copies"])


def _fit_html(fit: Fit) -> str:
    """Return the HTML for a notebook."""
    wanted = "" if fit.asked is None else f" of {fit.asked}"
    rows = "".join(
        f"<tr><td>{escape(node)}</td><td>{count}</td></tr>" for node, count in fit.nodes.items()
    )
    stopped = "".join(rejection_row(group) for group in fit.stopped_by if group.rejections)
    return (
        f"<h1>{escape(', '.join(fit.pods))}: {fit.fits}{wanted} fit</h1>"
        f"<table><tr><th>node</th><th>copies</th></tr>{rows}</table>"
        + (f"<h2>What stops the next one</h2><table>{stopped}</table>" if stopped else "")
    )
