"""ImageLocality: nodes that have the pod's images score higher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from kubesched.api import ContainerImage, ImageVolumeSource, Pod, Volume
from kubesched.framework import CycleState
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.plugins.image_locality import ImageLocality
from kubesched.scheduler.plugins.image_locality.plugin import normalized_image_name
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_container,
    make_node,
    make_pod,
    run_score,
)

MIB = 1024 * 1024


class Case(NamedTuple):
    pod: Pod
    images: list[Mapping[str, int]]  # per node, in MiB
    want: list[int]


VOLUME = Volume(name="v", image=ImageVolumeSource(reference="data:v1"))
CASES = {
    "an image on one of two nodes": Case(
        make_pod("p", images=["web:v1", "other"]), [{"web:v1": 250}, {}], [5, 0]
    ),
    "a large image on one of three nodes": Case(
        make_pod("p", images=["web:v1", "other"]), [{"web:v1": 4000}, {}, {}], [66, 0, 0]
    ),
    "an image on all nodes counts in full": Case(
        make_pod("p", images=["web:v1"]), [{"web:v1": 511}, {"web:v1": 511}], [49, 49]
    ),
    "more bytes than can count": Case(
        make_pod("p", images=["web:v1"]), [{"web:v1": 5000}, {"web:v1": 5000}], [100, 100]
    ),
    "too few bytes to count": Case(
        make_pod("p", images=["web:v1"]), [{"web:v1": 20}, {"web:v1": 20}], [0, 0]
    ),
    "an image volume": Case(
        make_pod("p", images=["web:v1"], volumes=[VOLUME]), [{"data:v1": 300}, {}], [12, 0]
    ),
    "an image used twice counts twice": Case(
        make_pod("p", images=["web:v1", "web:v1"]), [{"web:v1": 523}], [51]
    ),
    "init containers count": Case(
        make_pod("p", images=["x"], init_containers=[make_container("i", image="web:v1")]),
        [{"web:v1": 1046}],
        [51],
    ),
    "no tag means latest": Case(make_pod("p", images=["web"]), [{"web:latest": 511}], [49]),
    "names of nodes are taken as they are": Case(
        make_pod("p", images=["web"]), [{"web": 511}], [0]
    ),
    "no image is present": Case(make_pod("p", images=["web:v1"]), [{}, {"db:v1": 900}], [0, 0]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_score(case: Case) -> None:
    handle = FakeHandle(
        make_node(f"n{i}", images={name: size * MIB for name, size in images.items()})
        for i, images in enumerate(case.images)
    )
    assert run_score(ImageLocality(handle=handle), case.pod, handle.snapshot.nodes) == case.want


def test_the_spread_counts_all_nodes_not_only_the_scored_ones() -> None:
    handle = FakeHandle(
        [make_node("a", images={"web:v1": 500 * MIB}), *(make_node(f"n{i}") for i in range(3))]
    )
    nodes = handle.snapshot.nodes
    alone = nodes.at_rows(nodes.table.rows_of(["a"]))
    pod = make_pod("p", images=["web:v1"])
    want = 100 * (125 - 23) // (1000 - 23)
    assert run_score(ImageLocality(handle=handle), pod, alone) == [want]


def test_every_name_of_an_image_counts() -> None:
    image = ContainerImage(names=("web:v1", "web@sha256:00"), size_bytes=511 * MIB)
    handle = FakeHandle([make_node("n", images=[image])])
    for name in image.names:
        pod = make_pod("p", images=[name])
        assert run_score(ImageLocality(handle=handle), pod, handle.snapshot.nodes) == [49]


NAMES = {
    "root": "root:latest",
    "root:tag": "root:tag",
    "gcr.io:5000/root": "gcr.io:5000/root:latest",
    "gcr.io:5000/root:tag": "gcr.io:5000/root:tag",
    "root@sha256:0123": "root@sha256:0123",
}


@pytest.mark.parametrize(("name", "want"), NAMES.items())
def test_normalized_image_name(name: str, want: str) -> None:
    assert normalized_image_name(name) == want


def test_scores_without_any_image_are_zero_for_every_node() -> None:
    handle = FakeHandle([make_node("a"), make_node("b")])
    scores = ImageLocality(handle=handle).score_nodes(
        CycleState(), make_pod("p", images=["x"]), handle.snapshot.nodes
    )
    assert scores.tolist() == [0, 0]


def test_scores_follow_changes_of_images_and_nodes() -> None:
    cache = Cache()
    plugin = ImageLocality(handle=FakeHandle(snapshot=cache.snapshot))
    pod = make_pod("p", images=["web:v1"])

    def scores() -> list[int]:
        return run_score(plugin, pod, cache.update_snapshot().nodes)

    with_image = {"web:v1": 600 * MIB}
    cache.add_node(make_node("a", images=with_image))
    assert scores() == [59]
    cache.add_node(make_node("b"))  # half of the nodes have the image
    assert scores() == [28, 0]
    cache.update_node(make_node("b", images=with_image))
    cache.update_node(make_node("a", images=with_image))
    assert scores() == [59, 59]
    cache.remove_node(make_node("a"))
    assert scores() == [100]  # recorded when two nodes had it; now there is one node


def test_contract() -> None:
    check_plugin(ImageLocality)
