"""Random clusters are repeatable, consistent, and cover rare combinations."""

from __future__ import annotations

import random
from collections.abc import Callable

from kubesched.api import Pod
from kubesched.api.codec import decode, encode
from kubesched.framework import PodInfo
from kubesched.testing import make_snapshot, random_cluster, random_pod


def test_a_seed_determines_the_cluster() -> None:
    first, second = (random_cluster(random.Random(5)) for _ in range(2))
    assert first == second
    assert first != random_cluster(random.Random(6))


def test_a_cluster_has_the_requested_size_and_its_pods_are_placed() -> None:
    cluster = random_cluster(random.Random(1), nodes=5, pods=12)
    names = {node.metadata.name for node in cluster.nodes}
    assert len(names) == 5
    assert len({pod.metadata.uid for pod in cluster.pods}) == 12
    assert {pod.spec.node_name for pod in cluster.pods} <= names
    assert len(make_snapshot(cluster.nodes, cluster.pods).nodes) == 5


def test_no_two_pods_of_a_node_hold_one_port() -> None:
    for seed in range(20):
        cluster = random_cluster(random.Random(seed), nodes=2, pods=30)
        for node in make_snapshot(cluster.nodes, cluster.pods).nodes:
            ports = [port for info in node.pods for port in info.host_ports]
            assert len(ports) == len(set(ports))


def test_objects_survive_serialization() -> None:
    cluster = random_cluster(random.Random(3))
    assert all(decode(encode(stored), type(stored)) == stored for stored in cluster.objects)


def test_random_pods_cover_the_fields_that_plugins_read() -> None:
    rng = random.Random(0)
    claims = [("default", "c"), ("team-a", "c"), ("team-b", "c")]
    pods = [random_pod(rng, f"p{number}", claims=claims) for number in range(300)]
    infos = [PodInfo(pod) for pod in pods]

    def some(wanted: Callable[[Pod], object]) -> bool:
        return any(map(wanted, pods))

    assert any(info.required_affinity_terms for info in infos)
    assert any(info.required_anti_affinity_terms for info in infos)
    assert any(info.preferred_affinity_terms for info in infos)
    assert any(info.has_affinity and not info.required_affinity_terms for info in infos)
    assert some(lambda pod: pod.spec.topology_spread_constraints)
    assert some(lambda pod: pod.spec.tolerations)
    assert some(lambda pod: pod.spec.node_selector == {})
    assert some(lambda pod: pod.spec.volumes)
    assert some(lambda pod: pod.spec.scheduling_gates)
    assert some(_has_field_term)
    assert all(not info.affinity_errors for info in infos)


def _has_field_term(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return False
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return required is not None and any(term.match_fields for term in required.node_selector_terms)
