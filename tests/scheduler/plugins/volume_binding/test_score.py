"""StorageCapacityScoring: scores by storage usage.

docs/reference/07 §12, cases 45 to 49.
"""

from __future__ import annotations

from kubesched.api.base import ApiObject
from kubesched.framework import CycleState, PodInfo
from kubesched.scheduler.config.args import UtilizationShapePoint
from kubesched.testing import make_csi_driver, make_csi_storage_capacity
from tests.scheduler.plugins.volume_binding.volume_fixture import VolumeHarness, claim, volume

GATES = {"StorageCapacityScoring": True}
Shape = tuple[tuple[int, int], ...]
RISING: Shape = ((0, 0), (100, 10))
DEFAULT: Shape = ((0, 10), (100, 0))


def scores(shape: Shape, claims: tuple[str, ...], *objects: ApiObject) -> list[int]:
    points = tuple(UtilizationShapePoint(utilization=at, score=score) for at, score in shape)
    harness = VolumeHarness(*objects, gates=GATES, shape=points)
    pod, nodes, state = harness.pod(*claims), harness.handle.snapshot.nodes, CycleState()
    harness.plugin.pre_filter(state, PodInfo(pod), nodes)
    assert harness.plugin.pre_score(state, PodInfo(pod), nodes).is_success
    each = [harness.plugin.score(state, pod, node) for node in nodes]
    assert harness.plugin.score_nodes(state, pod, nodes).tolist() == each
    return each


def space(name: str, capacity: str) -> ApiObject:
    return make_csi_storage_capacity(
        name, storage_class="dp", capacity=capacity, topology={"k": name}
    )


DRIVER = make_csi_driver("csi.example.com", storage_capacity=True)


def test_scores_of_existing_volumes() -> None:
    volumes = volume("a@n1:200Gi"), volume("b@n2:100Gi")
    assert scores(RISING, ("c",), claim("c", "50Gi"), *volumes) == [25, 50]
    steps = ((0, 0), (50, 3), (100, 5))
    assert scores(steps, ("c",), claim("c", "50Gi"), *volumes) == [15, 30]


def test_scores_of_volumes_to_provision() -> None:
    wanted = claim("c", "10Gi", storage_class="dp")
    spaces = DRIVER, space("n1", "100Gi"), space("n2", "20Gi")
    assert scores(DEFAULT, ("c",), wanted, *spaces) == [90, 50]


def test_only_existing_volumes_count_if_there_are_any() -> None:
    two = [claim(name, "50Gi", storage_class="dp") for name in ("c", "d")]
    spaces = DRIVER, space("n1", "100Gi"), space("n2", "200Gi")
    assert scores(RISING, ("c", "d"), *two, *spaces) == [100, 50]
    both = claim("c", "50Gi", storage_class="dp"), claim("s", "50Gi")
    volumes = volume("a@n1:200Gi"), volume("b@n2:100Gi")
    assert scores(RISING, ("c", "s"), *both, *spaces, *volumes) == [25, 50]


def test_without_claims_or_without_the_gate_scores_are_zero() -> None:
    assert scores(RISING, ()) == [0, 0]
    harness = VolumeHarness()
    pod, nodes, state = harness.pod(), harness.handle.snapshot.nodes, CycleState()
    harness.plugin.pre_filter(state, PodInfo(pod), nodes)
    assert harness.plugin.pre_score(state, PodInfo(pod), nodes).is_skip
