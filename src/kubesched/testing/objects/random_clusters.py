"""Seeded random clusters and pods, for property tests and plugin checks.

They use few labels, zones and names, so that the terms of pods often match other pods. They include
unusual values: nodes without labels or resources, requests of zero, requirements that cannot be
fulfilled, sections that are present but empty. An API server would accept every object. The same
generator state gives the same cluster.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.api import (
    Affinity,
    Node,
    NodeSelectorTerm,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from kubesched.api.base import ApiObject, RawQuantity
from kubesched.testing.objects.builders import (
    HOSTNAME,
    REGION,
    ZONE,
    make_container,
    make_node,
    make_owner,
    make_pod,
    make_port,
    make_spread,
)
from kubesched.testing.objects.random_cluster_objects import random_other_objects
from kubesched.testing.objects.selector_builders import (
    Expression,
    make_affinity,
    make_node_selector,
    make_node_term,
    make_pod_term,
    make_selector,
)

__all__ = ["RandomCluster", "random_cluster", "random_node", "random_pod"]

NAMESPACES = ("default", "team-a", "team-b")
APPS = ("web", "db", "batch")
ZONES = ("zone-a", "zone-b", "zone-c")
IMAGES = ("registry.example/web:v1", "registry.example/db:v2", "nginx", "batch@sha256:00")
PORTS = (80, 443, 8080)
TAINT_KEYS = ("dedicated", "spot")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
GPU = "example.com/gpu"
MIB = 1024 * 1024

Claims = Sequence[tuple[str, str]]  # (namespace, name) of claims that exist


class RandomCluster(msgspec.Struct, frozen=True):
    """Nodes, the pods on them, and the objects around them."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    others: tuple[ApiObject, ...]

    @property
    def objects(self) -> tuple[ApiObject, ...]:
        return (*self.others, *self.nodes, *self.pods)

    @property
    def claims(self) -> Claims:
        return [
            (other.metadata.namespace, other.metadata.name)
            for other in self.others
            if isinstance(other, PersistentVolumeClaim)
        ]


def random_cluster(rng: random.Random, *, nodes: int = 8, pods: int = 20) -> RandomCluster:
    """Return a random cluster with this many nodes, and pods on them."""
    made = tuple(random_node(rng, f"node-{number}") for number in range(nodes))
    others = random_other_objects(rng, NAMESPACES, [node.metadata.name for node in made], ZONES)
    empty = RandomCluster(made, (), others)
    taken: dict[str, set[int]] = {}
    placed = []
    for number in range(pods if made else 0):
        node = rng.choice(made).metadata.name
        pod = random_pod(rng, f"running-{number}", claims=empty.claims, node_name=node)
        ports = _host_ports(pod)
        if ports & taken.setdefault(node, set()):
            # The scheduler would not have placed two pods with one port on a node.
            pod = _without_ports(pod)
        else:
            taken[node] |= ports
        placed.append(pod)
    return RandomCluster(made, tuple(placed), others)


def random_node(rng: random.Random, name: str) -> Node:
    labels: dict[str, str] = {}
    if _chance(rng, 0.85):
        labels[ZONE] = rng.choice(ZONES)
        labels[REGION] = "region-1"
    if _chance(rng, 0.5):
        labels["disk"] = rng.choice(("ssd", "hdd", ""))
    if _chance(rng, 0.4):
        labels["rank"] = rng.choice(("1", "7", "-3", "many"))
    extended: dict[str, RawQuantity] = {}
    if _chance(rng, 0.3):
        extended[GPU] = rng.choice((0, 1, 8))
    images = {image: rng.choice((0, 30, 300, 1500)) * MIB for image in IMAGES if _chance(rng, 0.3)}
    return make_node(
        name,
        labels=labels,
        hostname_label=_chance(rng, 0.95),
        annotations={"note": "x"} if _chance(rng, 0.2) else None,
        cpu=rng.choice(("0", "500m", "2", "4", "16")),
        memory=rng.choice(("0", "512Mi", "4Gi", "32Gi", 64_000_000_000)),
        pods=rng.choice((0, 1, 5, 110, 110)),
        ephemeral_storage=rng.choice((None, "10Gi")),
        extended=extended,
        taints=[
            f"{key}={rng.choice(('a', 'b', ''))}:{rng.choice(EFFECTS)}"
            for key in TAINT_KEYS
            if _chance(rng, 0.2)
        ],
        unschedulable=_chance(rng, 0.1),
        images=images,
    )


def random_pod(rng: random.Random, name: str, *, claims: Claims = (), node_name: str = "") -> Pod:
    """Return a random pod: pending, or running on `node_name`."""
    namespace = rng.choice(NAMESPACES)
    app = rng.choice(APPS)
    wish = _Wishes(rng)
    own_claims = [claim for home, claim in claims if home == namespace]
    return make_pod(
        name,
        namespace=namespace,
        labels={"app": app, **({"tier": rng.choice("ab")} if _chance(rng, 0.4) else {})},
        owner=make_owner("ReplicaSet", app, namespace=namespace) if _chance(rng, 0.4) else None,
        creation_timestamp="2026-01-01T00:00:00Z",
        deletion_timestamp="2026-01-02T00:00:00Z" if node_name and _chance(rng, 0.05) else None,
        requests=wish.requests(),
        images=wish.some((), lambda: rng.sample(IMAGES, rng.randint(1, 2)), 0.4),
        host_ports=wish.some((), wish.ports, 0.2),
        init_containers=wish.some((), wish.init_containers, 0.15),
        overhead=wish.some(None, lambda: {"cpu": "50m", "memory": "16Mi"}, 0.1),
        node_selector=wish.some(None, wish.node_selector, 0.15),
        affinity=wish.some(None, wish.affinity, 0.4),
        tolerations=wish.some((), wish.tolerations, 0.3),
        spread=wish.some((), wish.spread, 0.25),
        gates=wish.some((), lambda: ["example.com/hold"], 0 if node_name else 0.05),
        priority=rng.choice((None, None, 0, 10, -5, 2_000_000_000)),
        preemption_policy=rng.choice((None, None, "Never")),
        pvcs=wish.some((), lambda: [rng.choice(own_claims)], 0.15 if own_claims else 0),
        node_name=node_name,
        start_time="2026-01-01T00:00:10Z" if node_name else None,
    )


class _Wishes:
    """The parts of a random pod."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def some(self, nothing: Any, make: Callable[[], Any], likely: float) -> Any:
        return make() if _chance(self._rng, likely) else nothing

    def requests(self) -> list[dict[str, RawQuantity]]:
        return [self._container_requests() for _ in range(self._rng.choice((1, 1, 1, 2)))]

    def _container_requests(self) -> dict[str, RawQuantity]:
        rng = self._rng
        amounts: dict[str, RawQuantity] = {}
        if _chance(rng, 0.7):
            amounts["cpu"] = rng.choice(("0", "1m", "100m", "1", "1500m", "64"))
        if _chance(rng, 0.6):
            amounts["memory"] = rng.choice(("0", "64Mi", "1Gi", "1.5Gi", 123_456_789))
        if _chance(rng, 0.1):
            amounts["ephemeral-storage"] = rng.choice(("1Gi", "20Gi"))
        if _chance(rng, 0.1):
            amounts[GPU] = rng.choice((0, 1, 2))
        if _chance(rng, 0.03):
            amounts["example.com/unheard-of"] = 1
        return amounts

    def init_containers(self) -> list[Any]:
        restart = self._rng.choice((None, "Always"))
        return [make_container("init", requests=self._container_requests(), restart_policy=restart)]

    def ports(self) -> list[Any]:
        rng = self._rng
        return [
            make_port(
                port,
                protocol=rng.choice(("TCP", "TCP", "UDP", "")),
                host_ip=rng.choice(("", "", "0.0.0.0", "127.0.0.1")),
            )
            for port in rng.sample(PORTS, rng.randint(1, 2))
        ]

    def node_selector(self) -> dict[str, str]:
        return self._rng.choice(({}, {"disk": "ssd"}, {ZONE: "zone-a"}, {"disk": "none"}))

    def tolerations(self) -> list[str]:
        return self._rng.sample(
            ("", "dedicated", "dedicated=a:NoSchedule", "spot=:PreferNoSchedule", "spot:NoExecute"),
            self._rng.randint(1, 2),
        )

    def spread(self) -> list[TopologySpreadConstraint]:
        return [self._spread_constraint() for _ in range(self._rng.choice((1, 1, 2)))]

    def _spread_constraint(self) -> TopologySpreadConstraint:
        rng = self._rng
        hard = _chance(rng, 0.5)
        return make_spread(
            rng.choice((ZONE, HOSTNAME, "disk")),
            max_skew=rng.choice((1, 1, 2, 5)),
            when="DoNotSchedule" if hard else "ScheduleAnyway",
            labels=rng.choice((None, {}, {"app": rng.choice(APPS)})),
            min_domains=rng.choice((None, 1, 4)) if hard else None,
            node_affinity_policy=rng.choice((None, "Honor", "Ignore")),
            node_taints_policy=rng.choice((None, "Honor", "Ignore")),
            match_label_keys=rng.choice(((), (), ("tier",))),
        )

    def affinity(self) -> Affinity:
        terms, weighted, some = self._pod_terms, self._weighted_pod_terms, self.some
        return make_affinity(
            node=some(None, self._node_terms, 0.3),
            node_preferred=some(None, self._weighted_node_terms, 0.2),
            near=some(None, terms, 0.25),
            near_preferred=some(None, weighted, 0.25),
            apart=some(None, terms, 0.25),
            apart_preferred=some(None, weighted, 0.25),
        )

    def _node_terms(self) -> Any:
        return make_node_selector(*(self._node_term() for _ in range(self._rng.choice((1, 1, 2)))))

    def _weighted_node_terms(self) -> list[tuple[int, NodeSelectorTerm]]:
        rng = self._rng
        return [(rng.choice((1, 50, 100)), self._node_term()) for _ in range(rng.choice((0, 1, 2)))]

    def _node_term(self) -> NodeSelectorTerm:
        rng = self._rng
        if _chance(rng, 0.15):
            field: Expression = ("metadata.name", rng.choice(("In", "NotIn")), "node-1")
            return make_node_term(fields=[field])
        expressions: tuple[Expression, ...] = (
            (ZONE, "In", "zone-a", "zone-b"),
            (ZONE, "NotIn", "zone-a"),
            ("disk", "Exists"),
            ("disk", "DoesNotExist"),
            ("rank", "Gt", "2"),
            ("rank", "Lt", "5"),
        )
        return make_node_term(*rng.sample(expressions, rng.choice((0, 1, 1, 2))))

    def _pod_terms(self) -> list[PodAffinityTerm]:
        return [self._pod_term() for _ in range(self._rng.choice((0, 1, 1, 2)))]

    def _weighted_pod_terms(self) -> list[tuple[int, PodAffinityTerm]]:
        return [(self._rng.choice((1, 20, 100)), term) for term in self._pod_terms()]

    def _pod_term(self) -> PodAffinityTerm:
        rng = self._rng
        expression: Expression = ("app", "NotIn", rng.choice(APPS))
        return make_pod_term(
            rng.choice((ZONE, ZONE, HOSTNAME, "disk")),
            rng.choice(
                (None, {}, {"app": rng.choice(APPS)}, make_selector(None, expression)),
            ),
            namespaces=rng.choice(((), (), ("team-a", "team-b"))),
            namespace_selector=rng.choice((None, None, {}, {"team": "a"})),
        )


def _host_ports(pod: Pod) -> set[int]:
    return {port.host_port for container in pod.spec.containers for port in container.ports}


def _without_ports(pod: Pod) -> Pod:
    containers = tuple(replace(container, ports=()) for container in pod.spec.containers)
    return replace(pod, spec=replace(pod.spec, containers=containers))


def _chance(rng: random.Random, likely: float) -> bool:
    return rng.random() < likely
