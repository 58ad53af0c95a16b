"""The oracle: the fewest nodes by exhaustive search, with an independent version of the rules.

It reads only the objects that `tests/plan/clusters.py` makes: selectors are one label `app`, terms
are required ones with `matchLabels`. A pod that stays breaks no rule; a pod that is moved must
satisfy every rule in the final placement.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from kubesched.api import Node, PersistentVolume, Pod, PodDisruptionBudget

ZONE = "topology.kubernetes.io/zone"


class UndecidedError(Exception):
    """The search took too many steps."""


class _Kind(NamedTuple):
    """Pods of one app with equal requests: the rules of the app apply to each of them."""

    app: str
    pod: Pod
    cpu: int
    memory: int
    ports: frozenset[int]
    apart: tuple[tuple[str, str], ...]  # (app, topology key)
    near: tuple[tuple[str, str], ...]
    spread: tuple[str, ...]  # topology keys


def fewest_nodes(objects: list[Any], most_steps: int = 400_000) -> int:
    """Return the fewest nodes in use of all final placements.

    Raises:
        UndecidedError: the search exceeded its limit.
    """
    return _Search(objects, most_steps).run()


def _amount(text: str) -> int:
    """Thousandths of a cpu, or MiB."""
    for suffix, factor in (("Gi", 1024), ("Mi", 1), ("m", 0.001)):
        if text.endswith(suffix):
            number = float(text.removesuffix(suffix)) * factor
            return round(number * 1000) if suffix == "m" else round(number)
    return round(float(text) * 1000)


def _kind(pod: Pod) -> _Kind:
    container = pod.spec.containers[0]
    requests = {name: str(amount) for name, amount in container.resources.requests.items()}
    affinity = pod.spec.affinity

    def terms(part: Any) -> tuple[tuple[str, str], ...]:
        if part is None:
            return ()
        return tuple(
            (term.label_selector.match_labels["app"], term.topology_key)
            for term in part.required_during_scheduling_ignored_during_execution
        )

    return _Kind(
        pod.metadata.labels["app"],
        pod,
        _amount(requests["cpu"]),
        _amount(requests["memory"]),
        frozenset(port.host_port for port in container.ports),
        terms(affinity and affinity.pod_anti_affinity),
        terms(affinity and affinity.pod_affinity),
        tuple(each.topology_key for each in pod.spec.topology_spread_constraints),
    )


class _Search:
    def __init__(self, objects: list[Any], most_steps: int) -> None:
        self.steps = most_steps
        self.leaves = 0
        self.dead: set[object] = set()
        self.nodes = [each for each in objects if isinstance(each, Node)]
        self.index = {node.metadata.name: n for n, node in enumerate(self.nodes)}
        pods = [each for each in objects if isinstance(each, Pod)]
        budgets = [each for each in objects if isinstance(each, PodDisruptionBudget)]
        self.zones = {  # of volumes, by the names of their claims
            volume.spec.claim_ref.name: _only_zone(volume)
            for volume in objects
            if isinstance(volume, PersistentVolume)
        }
        sizes = Counter(pod.metadata.labels["app"] for pod in pods)
        frozen = {each.metadata.name for each in budgets if not _allows(each, sizes)}
        self.free = [
            [
                _amount(str(node.status.allocatable["cpu"])),
                _amount(str(node.status.allocatable["memory"])),
            ]
            for node in self.nodes
        ]
        self.kinds: dict[str, _Kind] = {}
        self.now: dict[str, Counter[int]] = defaultdict(
            Counter
        )  # movable pods: app -> node -> count
        self.fixed: dict[str, Counter[int]] = defaultdict(Counter)
        self.kept: set[int] = set()
        for pod in pods:
            kind = _kind(pod)
            self.kinds[kind.app] = kind
            place = self.index[pod.spec.node_name]
            if _is_agent(pod):
                self._take(place, kind, 1)
            elif _stays(pod) or kind.app in frozen:
                self.fixed[kind.app][place] += 1
                self.kept.add(place)
                self._take(place, kind, 1)
            else:
                self.now[kind.app][place] += 1
        self.order = sorted(
            self.now, key=lambda app: (-max(self.kinds[app].cpu, self.kinds[app].memory), app)
        )

    def run(self) -> int:
        optional = [n for n in range(len(self.nodes)) if n not in self.kept]
        for extra in range(len(optional) + 1):
            for chosen in itertools.combinations(optional, extra):
                open_nodes = sorted({*self.kept, *chosen})
                if self._is_possible(open_nodes):
                    return len(open_nodes)
        raise AssertionError("the current placement is one")

    def _is_possible(self, open_nodes: list[int]) -> bool:
        return self._place(0, open_nodes, {})

    def _place(self, depth: int, open_nodes: list[int], placed: dict[str, Counter[int]]) -> bool:
        if depth == len(self.order):
            self.leaves += 1
            return self._holds(placed)
        state = (depth, tuple(tuple(self.free[n]) for n in open_nodes), tuple(open_nodes))
        if state in self.dead or not self._has_room(depth, open_nodes):
            return False
        leaves = self.leaves
        kind = self.kinds[self.order[depth]]
        count = sum(self.now[kind.app].values())
        for spread in self._spreads(kind, count, open_nodes, placed):
            self.steps -= 1
            if self.steps < 0:
                raise UndecidedError
            for node, number in spread.items():
                self._take(node, kind, number)
            placed[kind.app] = spread
            found = self._place(depth + 1, open_nodes, placed)
            for node, number in spread.items():
                self._take(node, kind, -number)
            del placed[kind.app]
            if found:
                return True
        if self.leaves == leaves and not any(self.kinds[app].ports for app in self.order[depth:]):
            self.dead.add(state)  # the resources alone exclude it, wherever the others are
        return False

    def _has_room(self, depth: int, open_nodes: list[int]) -> bool:
        left = self.order[depth:]
        return all(
            sum(getattr(self.kinds[app], amount) * sum(self.now[app].values()) for app in left)
            <= sum(max(self.free[n][place], 0) for n in open_nodes)
            for place, amount in ((0, "cpu"), (1, "memory"))
        )

    def _spreads(
        self, kind: _Kind, count: int, nodes: list[int], placed: dict[str, Counter[int]]
    ) -> Iterator[Counter[int]]:
        """Yield the distributions of equal pods over nodes that room and node rules allow."""
        if not nodes:
            if not count:
                yield Counter()
            return
        node, rest = nodes[0], nodes[1:]
        fits = min(
            count,
            self.free[node][0] // kind.cpu,
            self.free[node][1] // kind.memory,
        )
        if not self._accepts(kind, node):
            fits = min(fits, self.now[kind.app][node])
        if kind.ports:
            used = any(
                kind.ports & self.kinds[app].ports and where[node]
                for app, where in (*placed.items(), *self.fixed.items())
            )
            fits = 0 if used else min(fits, 1)
        for number in range(fits, -1, -1):
            for others in self._spreads(kind, count - number, rest, placed):
                yield others + Counter({node: number})

    def _accepts(self, kind: _Kind, node: int) -> bool:
        spec, labels = kind.pod.spec, self.nodes[node].metadata.labels
        selected = all(
            labels.get(key) == value for key, value in (spec.node_selector or {}).items()
        )
        for volume in spec.volumes:
            claim = volume.persistent_volume_claim
            if claim is not None and labels[ZONE] != self.zones[claim.claim_name]:
                return False
        return selected and (bool(spec.tolerations) or not self.nodes[node].spec.taints)

    def _holds(self, placed: dict[str, Counter[int]]) -> bool:
        """Whether every pod that moved satisfies the rules between pods."""
        everywhere: dict[str, Counter[int]] = defaultdict(Counter)
        for source in (placed, self.fixed):
            for app, where in source.items():
                everywhere[app] += where
        for app, where in placed.items():
            for node in where:
                if where[node] > self.now[app][node] and not self._may_come(
                    self.kinds[app], node, everywhere
                ):
                    return False
        return True

    def _may_come(self, kind: _Kind, node: int, everywhere: dict[str, Counter[int]]) -> bool:
        """Whether a pod on the node is there by the rules, all other pods being in their places."""

        def others(app: str, key: str, domain: str) -> int:
            found = sum(
                count
                for place, count in everywhere[app].items()
                if self.nodes[place].metadata.labels[key] == domain
            )
            return found - (app == kind.app and self.nodes[node].metadata.labels[key] == domain)

        labels = self.nodes[node].metadata.labels
        for app, key in kind.apart:
            if others(app, key, labels[key]):
                return False
        for other in self.kinds.values():
            for app, key in other.apart:
                if app == kind.app and others(other.app, key, labels[key]):
                    return False
        total = sum(sum(everywhere[app].values()) for app, _ in kind.near)
        is_first = bool(kind.near) and total == 1 and all(app == kind.app for app, _ in kind.near)
        for app, key in kind.near:
            if not is_first and not others(app, key, labels[key]):
                return False
        for key in kind.spread:
            domains = {each.metadata.labels[key] for each in self._counted(kind)}
            counts = {domain: others(kind.app, key, domain) for domain in domains}
            if counts.get(labels[key], 0) + 1 - min(counts.values()) > 1:
                return False
        return True

    def _counted(self, kind: _Kind) -> list[Node]:
        selector = kind.pod.spec.node_selector
        return [
            node
            for node in self.nodes
            if all(
                node.metadata.labels.get(key) == value for key, value in (selector or {}).items()
            )
        ]

    def _take(self, node: int, kind: _Kind, number: int) -> None:
        self.free[node][0] -= number * kind.cpu
        self.free[node][1] -= number * kind.memory


def _only_zone(volume: PersistentVolume) -> str:
    (term,) = volume.spec.node_affinity.required.node_selector_terms
    (expression,) = term.match_expressions
    (zone,) = expression.values
    return str(zone)


def _is_agent(pod: Pod) -> bool:
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)


def _stays(pod: Pod) -> bool:
    """Whether a pod cannot be moved: local storage, no owner, or an annotation."""
    has_local_storage = any(volume.empty_dir is not None for volume in pod.spec.volumes)
    annotation = pod.metadata.annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict")
    return has_local_storage or not pod.metadata.owner_references or annotation == "false"


def _allows(budget: PodDisruptionBudget, sizes: Counter[str]) -> bool:
    size = sizes[budget.metadata.name]
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    if most is not None:
        return bool(math.ceil(size / 2) if most == "50%" else most)
    return size > int(least or 0)
