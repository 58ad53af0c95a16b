"""Placement tests: nodes, pods that arrive in order, and claims about where they are placed.

    expect_placement(
        nodes=[make_node("a", zone="1"), make_node("b", zone="2")],
        pods=[make_pod("web-0", labels={"app": "web"}, images=["web"]), ...],
        then=[Spread({"app": "web"}, over=ZONE, domains=2)],
    )

runs the real scheduler in virtual time, and raises AssertionError with a line for each claim that
does not hold. `kubesched check` reads the same claims from YAML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubesched.api import ApiObject, Node, Pod
from kubesched.cluster.apiserver.rules.strategies.server_features import ALL_FEATURES
from kubesched.cluster.embedded_cluster import ClusterPart, EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.randomness import derive
from kubesched.framework import Plugin
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = [
    "Claim",
    "Never",
    "Only",
    "Pending",
    "PendingAtMost",
    "PerNode",
    "Placed",
    "PlacedPod",
    "Placement",
    "Spread",
    "expect_placement",
]

Labels = Mapping[str, str]

_SHOWN = 5
_WAIT_NS = 30 * SECOND


class PlacedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, its node, and how long it waited for the node."""

    name: str  # namespace/name
    labels: Labels
    node: str = ""  # empty: the pod is pending
    pending_s: float = 0.0
    reason: str = ""  # why the pod is pending


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of all pods, and the labels of all nodes."""

    pods: tuple[PlacedPod, ...]
    nodes: Mapping[str, Labels]  # labels of each node

    def select(self, labels: Labels) -> list[PlacedPod]:
        """Return the pods that have all of these labels."""
        return [pod for pod in self.pods if _matches(pod.labels, labels)]

    def node_of(self, name: str) -> str:
        """Return the node of a pod, `[namespace/]name`; empty if it has none."""
        key = name if "/" in name else f"default/{name}"
        return next(pod.node for pod in self.pods if pod.name == key)


class Claim(msgspec.Struct, frozen=True):
    """A statement about the placement of pods. `check` returns a violation, or an empty text."""

    pods: Labels = {}

    def check(self, placement: Placement) -> str:
        raise NotImplementedError

    def matching_pods(self, placement: Placement) -> tuple[list[PlacedPod], str]:
        """Return the pods that the claim selects, and a violation if there are none."""
        chosen = placement.select(self.pods)
        return chosen, "" if chosen else f"no pod has the labels {_shown(self.pods)}"


class Placed(Claim, frozen=True):
    """All of the pods have a node; with `count`, exactly this number of them."""

    count: int | None = None

    def check(self, placement: Placement) -> str:
        chosen, problem = self.matching_pods(placement)
        placed = sum(1 for pod in chosen if pod.node)
        wanted = len(chosen) if self.count is None else self.count
        if problem or placed == wanted:
            return problem
        return f"{placed} of {len(chosen)} pods have a node, not {wanted}{_waiting(chosen)}"


class Pending(Claim, frozen=True):
    """All of the pods, or exactly `count`, are pending; `reason` is part of their reasons."""

    count: int | None = None
    reason: str = ""

    def check(self, placement: Placement) -> str:
        chosen, problem = self.matching_pods(placement)
        waiting = [pod for pod in chosen if not pod.node]
        wanted = len(chosen) if self.count is None else self.count
        if problem:
            return problem
        if len(waiting) != wanted:
            return f"{len(waiting)} of {len(chosen)} pods are pending, not {wanted}"
        other = [pod for pod in waiting if self.reason not in pod.reason]
        if other:
            return f"{other[0].name} is pending for another reason: {other[0].reason}"
        return ""


class PendingAtMost(Claim, frozen=True):
    """No pod waits longer than this for a node."""

    seconds: float = 0.0

    def check(self, placement: Placement) -> str:
        chosen, problem = self.matching_pods(placement)
        slow = [pod for pod in chosen if pod.pending_s > self.seconds]
        if problem or not slow:
            return problem
        worst = max(slow, key=lambda pod: pod.pending_s)
        more = f" ({len(slow)} pods in all)" if len(slow) > 1 else ""
        return f"{worst.name} waited {worst.pending_s:g} s, more than {self.seconds:g} s{more}"


class Spread(Claim, frozen=True):
    """The pods are spread over values of a node label: at least `domains`, or within `skew`."""

    over: str = "topology.kubernetes.io/zone"
    domains: int | None = None
    skew: int | None = None

    def check(self, placement: Placement) -> str:
        chosen, problem = self.matching_pods(placement)
        counts = {
            labels[self.over]: 0 for labels in placement.nodes.values() if self.over in labels
        }
        for pod in chosen:
            domain = placement.nodes.get(pod.node, {}).get(self.over)
            if domain is not None:
                counts[domain] += 1
        used = sum(1 for count in counts.values() if count)
        shown = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
        if problem:
            return problem
        if self.domains is not None and used < self.domains:
            return f"spread over {used} values of {self.over}, not {self.domains} ({shown})"
        if (
            self.skew is not None
            and counts
            and max(counts.values()) - min(counts.values()) > (self.skew)
        ):
            return f"not even over {self.over} within {self.skew} ({shown})"
        return ""


class Never(Claim, frozen=True):
    """None of the pods is on a node with these labels."""

    nodes: Labels = {}

    def check(self, placement: Placement) -> str:
        wrong = [
            pod
            for pod in placement.select(self.pods)
            if pod.node and _matches(placement.nodes.get(pod.node, {}), self.nodes)
        ]
        return _listed(wrong, "on a node with " + _shown(self.nodes))


class Only(Claim, frozen=True):
    """Those pods that have a node are on nodes with these labels."""

    nodes: Labels = {}

    def check(self, placement: Placement) -> str:
        chosen, problem = self.matching_pods(placement)
        wrong = [
            pod
            for pod in chosen
            if pod.node and not _matches(placement.nodes.get(pod.node, {}), self.nodes)
        ]
        return problem or _listed(wrong, "on a node without " + _shown(self.nodes))


class PerNode(Claim, frozen=True):
    """No node has more than `at_most` of the pods."""

    at_most: int = 1

    def check(self, placement: Placement) -> str:
        counts = Counter(pod.node for pod in placement.select(self.pods) if pod.node)
        crowded = sorted(name for name, count in counts.items() if count > self.at_most)
        if not crowded:
            return ""
        return f"{counts[crowded[0]]} pods on {crowded[0]}, more than {self.at_most}"


def expect_placement(
    *,
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    then: Sequence[Claim] = (),
    objects: Iterable[ApiObject] = (),
    configuration: KubeSchedulerConfiguration | None = None,
    plugins: Iterable[type[Plugin]] = (),
    seed: int = 0,
    wait_s: float = _WAIT_NS / SECOND,
) -> Placement:
    """Schedule the pods in order, in virtual time, and check the claims.

    Raises:
        AssertionError: a line for each claim that does not hold.
    """

    async def main() -> Placement:
        clock = current_clock()
        store_only = EmbeddedCluster(
            clock,
            derive(seed, "store"),
            with_initial_objects=False,
            features=ALL_FEATURES,
            parts=ClusterPart.NONE,
        )
        registry = {plugin.name: plugin for plugin in plugins}
        live = LiveCluster(
            store_only, configuration=configuration, out_of_tree_registry=registry, seed=seed
        )
        api = live.api
        for each in (*nodes, *objects):
            await api.create(_without_identity(each))
        async with live.running():
            await live.scheduler.informers.wait_for_sync()
            for pod in pods:
                await api.create(_without_identity(pod))
            await clock.sleep(round(wait_s * SECOND))
        placed = (await api.list(Pod)).items
        found = (await api.list(Node)).items
        return Placement(
            pods=tuple(_placed(pod) for pod in placed),
            nodes={node.metadata.name: node.metadata.labels for node in found},
        )

    placement = virtual_loop.run(main, seed=seed)
    problems = [text for text in (claim.check(placement) for claim in then) if text]
    if problems:
        raise AssertionError("\n".join(problems))
    return placement


def _without_identity(each: ApiObject) -> ApiObject:
    metadata = msgspec.structs.replace(each.metadata, uid="", resource_version="")  # type: ignore[attr-defined]
    return msgspec.structs.replace(each, metadata=metadata)


def _placed(pod: Pod) -> PlacedPod:
    reason = next(
        (each.message for each in pod.status.conditions if each.type == "PodScheduled"), ""
    )
    return PlacedPod(
        name=f"{pod.metadata.namespace}/{pod.metadata.name}",
        labels=pod.metadata.labels,
        node=pod.spec.node_name,
        reason="" if pod.spec.node_name else reason,
    )


def _matches(labels: Labels, wanted: Labels) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def _shown(labels: Labels) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items()) or "any label"


def _waiting(pods: Sequence[PlacedPod]) -> str:
    first = next((pod for pod in pods if not pod.node), None)
    return f"; {first.name}: {first.reason}" if first is not None and first.reason else ""


def _listed(pods: Sequence[PlacedPod], where: str) -> str:
    if not pods:
        return ""
    names = ", ".join(f"{pod.name} ({pod.node})" for pod in pods[:_SHOWN])
    more = f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    return f"{where}: {names}{more}"
