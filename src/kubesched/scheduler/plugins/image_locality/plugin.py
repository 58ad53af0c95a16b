"""ImageLocality: prefer nodes that have the pod's images.

docs/reference/05 §7.10.

The weight of an image grows with its size and with the number of nodes that have it. The latter
prevents an image that only one node has from attracting every pod to that node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.foundation.util.ints import div_trunc
from kubesched.framework import (
    MAX_NODE_SCORE,
    CycleState,
    Handle,
    NodeInfo,
    NodeView,
    Plugin,
    PodPart,
    PodsOnNode,
    Reads,
)
from kubesched.framework.engine import NodeTable, kernels
from kubesched.scheduler.config.plugin_names import IMAGE_LOCALITY

__all__ = ["ImageLocality"]

_MIB = 1024 * 1024
_MIN_BYTES = 23 * _MIB
_MAX_BYTES_PER_CONTAINER = 1000 * _MIB
_MAX_CACHED = 64


class ImageLocality(Plugin):
    """Score plugin: the more bytes of the pod's images a node has, the better."""

    name = IMAGE_LOCALITY
    reads = Reads(
        pod=PodPart.CONTAINERS,
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._cache = _ScoreCache()

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        total_nodes = len(self.handle.snapshot.nodes)
        size = 0
        for name in _images_of(pod):
            if (image := node.image_states.get(name)) is not None:
                size += int(image.size_bytes * (image.node_count / total_nodes))
        most = _max_bytes(pod)
        size = _MIN_BYTES if size < _MIN_BYTES else min(size, most)
        return div_trunc(MAX_NODE_SCORE * (size - _MIN_BYTES), most - _MIN_BYTES)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        images = nodes.table.images
        present = tuple(name for name in _images_of(pod) if name in images)
        if not present:
            return np.zeros(len(nodes), dtype=np.int64)
        return nodes.at(self._cache.scores(nodes.table, present, _max_bytes(pod))).copy()

    def cache_version(self, nodes: NodeView) -> tuple[int, int]:
        # The spread of an image is a share of all nodes, so the number of nodes matters too.
        return nodes.table.images.version, len(nodes.table.row_of)


class _ScoreCache:
    """Scores of all rows per list of images, valid until an image or a node changes.

    Images change rarely and many pods use the same images, so most lookups hit.
    """

    __slots__ = ("_scores", "_version")

    def __init__(self) -> None:
        self._version: tuple[NodeTable, int, int, int] | None = None
        self._scores: dict[tuple[tuple[str, ...], int], NDArray[np.int64]] = {}

    def scores(self, table: NodeTable, images: tuple[str, ...], most: int) -> NDArray[np.int64]:
        """Return int64[row]. The array is shared: do not write to it."""
        version = (table, table.images.version, len(table), table.capacity)
        if self._version != version or len(self._scores) >= _MAX_CACHED:
            self._version = version
            self._scores.clear()
        scores = self._scores.get((images, most))
        if scores is None:
            scores = self._scores[images, most] = _scores_of_all_rows(table, images, most)
        return scores


def _scores_of_all_rows(table: NodeTable, images: tuple[str, ...], most: int) -> NDArray[np.int64]:
    sizes = np.zeros(table.capacity, dtype=np.int64)
    for name in images:
        holders = table.images.holders(name)
        assert holders is not None
        share = holders.size_bytes * (holders.node_count / len(table))
        # The rows of one image are distinct, so this adds to each at most once.
        sizes[holders.rows] += share.astype(np.int64)
    clamped = np.where(sizes < _MIN_BYTES, _MIN_BYTES, np.minimum(sizes, most))
    clamped -= _MIN_BYTES
    clamped *= MAX_NODE_SCORE
    return kernels.divide_toward_zero(clamped, most - _MIN_BYTES)


def normalized_image_name(name: str) -> str:
    """Return the name with the tag `latest` if it has no tag. The registry is not changed."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _images_of(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    for container in (*spec.init_containers, *spec.containers):
        yield normalized_image_name(container.image)
    for volume in spec.volumes:
        if volume.image is not None:
            yield normalized_image_name(volume.image.reference)


def _max_bytes(pod: Pod) -> int:
    """The size above which more bytes do not raise the score; volumes do not count."""
    return _MAX_BYTES_PER_CONTAINER * (len(pod.spec.init_containers) + len(pod.spec.containers))
