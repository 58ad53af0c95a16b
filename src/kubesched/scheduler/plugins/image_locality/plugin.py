"""ImageLocality: prefer nodes that have the pod's images (docs/reference/05 §7.10).

An image counts the more, the larger it is and the more nodes have it: a popular image is
worth having, while one that sits on a single node must not draw every pod there.
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
_LEAST = 23 * _MIB
_MOST_PER_CONTAINER = 1000 * _MIB
_MOST_REMEMBERED = 64


class ImageLocality(Plugin):
    name = IMAGE_LOCALITY
    reads = Reads(
        pod=PodPart.CONTAINERS,
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._memo = _Memo()

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        total_nodes = len(self.handle.snapshot.nodes)
        size = 0
        for name in _images_of(pod):
            if (image := node.image_states.get(name)) is not None:
                size += int(image.size_bytes * (image.node_count / total_nodes))
        most = _most_for(pod)
        size = _LEAST if size < _LEAST else min(size, most)
        return div_trunc(MAX_NODE_SCORE * (size - _LEAST), most - _LEAST)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        images = nodes.table.images
        present = tuple(name for name in _images_of(pod) if name in images)
        if not present:
            return np.zeros(len(nodes), dtype=np.int64)
        return nodes.at(self._memo.scores(nodes.table, present, _most_for(pod))).copy()

    def cache_version(self, nodes: NodeView) -> tuple[int, int]:
        # How widely an image is spread is a share of all nodes, so their number matters too.
        return nodes.table.images.version, len(nodes.table)


class _Memo:
    """Scores of all rows by images, while no image moves and no node comes or goes.

    Images change rarely and many pods have the same ones, so this saves most of the work.
    """

    __slots__ = ("_for", "_known")

    def __init__(self) -> None:
        self._for: tuple[NodeTable, int, int, int] | None = None
        self._known: dict[tuple[tuple[str, ...], int], NDArray[np.int64]] = {}

    def scores(self, table: NodeTable, images: tuple[str, ...], most: int) -> NDArray[np.int64]:
        """Read only, int64[row]."""
        now = (table, table.images.version, len(table), table.capacity)
        if self._for != now or len(self._known) >= _MOST_REMEMBERED:
            self._for = now
            self._known.clear()
        scores = self._known.get((images, most))
        if scores is None:
            scores = self._known[images, most] = _scores_of_all_rows(table, images, most)
        return scores


def _scores_of_all_rows(table: NodeTable, images: tuple[str, ...], most: int) -> NDArray[np.int64]:
    sizes = np.zeros(table.capacity, dtype=np.int64)
    for name in images:
        holders = table.images.holders(name)
        assert holders is not None
        share = holders.size_bytes * (holders.node_count / len(table))
        # Rows of one image are distinct, so none is added to twice.
        sizes[holders.rows] += share.astype(np.int64)
    clamped = np.where(sizes < _LEAST, _LEAST, np.minimum(sizes, most))
    clamped -= _LEAST
    clamped *= MAX_NODE_SCORE
    return kernels.divide_toward_zero(clamped, most - _LEAST)


def normalized_image_name(name: str) -> str:
    """The name with the tag `latest` if it has none; no registry is assumed."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _images_of(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    for container in (*spec.init_containers, *spec.containers):
        yield normalized_image_name(container.image)
    for volume in spec.volumes:
        if volume.image is not None:
            yield normalized_image_name(volume.image.reference)


def _most_for(pod: Pod) -> int:
    """Where more bytes no longer help; volumes do not raise it."""
    return _MOST_PER_CONTAINER * (len(pod.spec.init_containers) + len(pod.spec.containers))
