"""The oracle: the fewest nodes by exhaustive search, with an independent version of the rules.

It reads only the objects that `tests/plan/clusters.py` makes: selectors are one label `app`, terms
are required ones with `matchLabels`. A pod that stays breaks no rule; a pod that is moved must
satisfy every rule in the final placement.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from kubesched.api import Node, PersistentVolume, Pod, PodDisruptionBudget

DEVICE = "example.com/gpu"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


class _Kind(NamedTuple):
    """Pods of one app with equal requests: the rules of the app apply to each of them."""

    app: str
    pod: Pod
    amounts: tuple[int, ...]  # cpu, memory, devices, pods
    ports: frozenset[int]
    apart: tuple[tuple[str, str], ...]  # (app, topology key)
    near: tuple[tuple[str, str], ...]
    spread: tuple[Any, ...]  # constraints


def fewest_nodes(objects: list[Any], pinned: Collection[str] = ()) -> int:
    """Return the fewest nodes in use of all final placements; pods of `pinned` apps stay."""
    return _Search(objects, pinned).run()


def _amount(text: str) -> int:
    """Thousandths of a cpu, or MiB."""
    for suffix, factor in (("Gi", 1024), ("Mi", 1), ("m", 0.001)):
        if text.endswith(suffix):
            number = float(text.removesuffix(suffix)) * factor
            return round(number * 1000) if suffix == "m" else round(number)
    return round(float(text) * 1000)


def _amounts(amounts: Mapping[str, Any]) -> tuple[int, ...]:
    """Cpu, memory and devices."""
    cpu, memory = _amount(str(amounts["cpu"])), _amount(str(amounts["memory"]))
    return cpu, memory, int(str(amounts.get(DEVICE, 0)))


def _kind(pod: Pod) -> _Kind:
    container = pod.spec.containers[0]
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
        (*_amounts(container.resources.requests), 1),
        frozenset(port.host_port for port in container.ports),
        terms(affinity and affinity.pod_anti_affinity),
        terms(affinity and affinity.pod_affinity),
        pod.spec.topology_spread_constraints,
    )


class _Search:
    def __init__(self, objects: list[Any], pinned: Collection[str]) -> None:
        self.broken = 0  # placements that have room, but violate a rule between pods
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
            [*_amounts(node.status.allocatable), int(str(node.status.allocatable["pods"]))]
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
            elif _stays(pod) or kind.app in frozen or kind.app in pinned:
                self.fixed[kind.app][place] += 1
                self.kept.add(place)
                self._take(place, kind, 1)
            else:
                self.now[kind.app][place] += 1
        self.order = sorted(self.now, key=lambda app: (-max(self.kinds[app].amounts), app))
        self.accepts = {
            app: [self._accepts(self.kinds[app], node) for node in self.nodes] for app in self.order
        }
        self.decided = self._decided()

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
            return True
        state = (depth, tuple(tuple(self.free[n]) for n in open_nodes), tuple(open_nodes))
        if state in self.dead or not self._has_room(depth, open_nodes, placed):
            return False
        broken = self.broken
        kind = self.kinds[self.order[depth]]
        count = sum(self.now[kind.app].values())
        for spread in self._spreads(kind, count, open_nodes, placed):
            for node, number in spread.items():
                self._take(node, kind, number)
            placed[kind.app] = spread
            if self._holds(self.decided[depth], placed):
                found = self._place(depth + 1, open_nodes, placed)
            else:
                found = False
                self.broken += 1
            for node, number in spread.items():
                self._take(node, kind, -number)
            del placed[kind.app]
            if found:
                return True
        if self.broken == broken and not any(self.kinds[app].ports for app in self.order[depth:]):
            self.dead.add(state)  # the resources alone exclude it, wherever the others are
        return False

    def _has_room(self, depth: int, open_nodes: list[int], placed: dict[str, Counter[int]]) -> bool:
        """Whether the other pods might have room: in sum, by size, and each app by itself."""
        left = [(self.kinds[app], sum(self.now[app].values())) for app in self.order[depth:]]
        for place in range(len(self.free[0])):
            free = [max(self.free[n][place], 0) for n in open_nodes]
            sizes = [(kind.amounts[place], count) for kind, count in left if kind.amounts[place]]
            if sum(size * count for size, count in sizes) > sum(free):
                return False
            for least in {size for size, _ in sizes}:
                large = sum(count for size, count in sizes if size >= least)
                if large > sum(room // least for room in free):
                    return False
        return all(
            sum(self._most(kind, node, placed) for node in open_nodes) >= count
            for kind, count in left
        )

    def _spreads(
        self, kind: _Kind, count: int, nodes: list[int], placed: dict[str, Counter[int]]
    ) -> Iterator[Counter[int]]:
        """Yield the distributions of equal pods over nodes that room and node rules allow."""
        most = [min(count, self._most(kind, node, placed)) for node in nodes]
        after = [sum(most[place:]) for place in range(1, len(most) + 1)]

        def choose(place: int, left: int, chosen: Counter[int]) -> Iterator[Counter[int]]:
            if not left:
                yield Counter(chosen)
                return
            if place == len(nodes):
                return
            for number in range(min(left, most[place]), max(0, left - after[place]) - 1, -1):
                if number:
                    chosen[nodes[place]] = number
                yield from choose(place + 1, left - number, chosen)
                chosen.pop(nodes[place], None)

        yield from choose(0, count, Counter())

    def _most(self, kind: _Kind, node: int, placed: dict[str, Counter[int]]) -> int:
        """Return how many pods of the app the node might have, beside the placed ones."""
        now = self.now[kind.app][node]
        fits = min(
            room // amount
            for room, amount in zip(self.free[node], kind.amounts, strict=True)
            if amount
        )
        if not self.accepts[kind.app][node]:
            fits = min(fits, now)
        if (kind.app, HOSTNAME) in kind.apart:
            fits = min(fits, max(1, now))
        if kind.ports:
            used = any(
                kind.ports & self.kinds[app].ports and where[node]
                for app, where in (*placed.items(), *self.fixed.items())
            )
            fits = 0 if used else min(fits, 1)
        return max(fits, 0)

    def _accepts(self, kind: _Kind, node: Node) -> bool:
        spec, labels = kind.pod.spec, node.metadata.labels
        for volume in spec.volumes:
            claim = volume.persistent_volume_claim
            if claim is not None and labels[ZONE] != self.zones[claim.claim_name]:
                return False
        return _selects(kind.pod, labels) and (bool(spec.tolerations) or not node.spec.taints)

    def _decided(self) -> list[list[str]]:
        """Return for each place of the order the apps whose rules later apps do not change."""
        involved: dict[str, set[str]] = {app: {app} for app in self.order}
        for kind in self.kinds.values():
            for other, _ in (*kind.apart, *kind.near):
                if kind.app in involved:
                    involved[kind.app].add(other)
            for other, _ in kind.apart:
                if other in involved:
                    involved[other].add(kind.app)
        place = {app: number for number, app in enumerate(self.order)}
        last = {app: max(place.get(other, 0) for other in involved[app]) for app in self.order}
        return [[app for app in self.order if last[app] == number] for number in place.values()]

    def _holds(self, apps: list[str], placed: dict[str, Counter[int]]) -> bool:
        """Whether every pod of the apps that moved satisfies the rules between pods."""
        everywhere: dict[str, Counter[int]] = defaultdict(Counter)
        for source in (placed, self.fixed):
            for app, where in source.items():
                everywhere[app] += where
        for app in apps:
            where = placed[app]
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
        for each in kind.spread:
            key = each.topology_key
            domains = {other.metadata.labels[key] for other in self._counted(kind)}
            counts = {domain: others(kind.app, key, domain) for domain in domains}
            least = min(counts.values()) if len(domains) >= (each.min_domains or 1) else 0
            if counts.get(labels[key], 0) + 1 - least > each.max_skew:
                return False
        return True

    def _counted(self, kind: _Kind) -> list[Node]:
        return [node for node in self.nodes if _selects(kind.pod, node.metadata.labels)]

    def _take(self, node: int, kind: _Kind, number: int) -> None:
        for place, amount in enumerate(kind.amounts):
            self.free[node][place] -= number * amount


def _only_zone(volume: PersistentVolume) -> str:
    (term,) = volume.spec.node_affinity.required.node_selector_terms
    (expression,) = term.match_expressions
    (zone,) = expression.values
    return str(zone)


def _selects(pod: Pod, labels: Mapping[str, str]) -> bool:
    """Whether the node selector and the node affinity of a pod accept a node."""
    selector, affinity = pod.spec.node_selector or {}, pod.spec.affinity
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    own = affinity and affinity.node_affinity
    if not own:
        return True
    (term,) = own.required_during_scheduling_ignored_during_execution.node_selector_terms
    (expression,) = term.match_expressions
    return (labels[expression.key] in expression.values) == (expression.operator == "In")


def _is_agent(pod: Pod) -> bool:
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)


def _stays(pod: Pod) -> bool:
    """Whether a pod cannot be moved: local storage, claimed devices, no owner, an annotation."""
    has_local_storage = any(volume.empty_dir is not None for volume in pod.spec.volumes)
    annotation = pod.metadata.annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict")
    is_bound = has_local_storage or bool(pod.spec.resource_claims)
    return is_bound or not pod.metadata.owner_references or annotation == "false"


def _allows(budget: PodDisruptionBudget, sizes: Counter[str]) -> bool:
    size = sizes[budget.metadata.name]
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    if most is not None:
        return bool(math.ceil(size / 2) if most == "50%" else most)
    return size > int(least or 0)
