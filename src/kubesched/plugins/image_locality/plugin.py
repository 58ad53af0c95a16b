"""ImageLocality: prefer nodes that have the pod's images (spec 05 §7.10).

An image counts the more, the larger it is and the more nodes have it: a popular image is
worth having, while one that sits on a single node must not draw every pod there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.config.plugin_names import IMAGE_LOCALITY
from kubesched.engine import kernels
from kubesched.framework import MAX_NODE_SCORE, CycleState, NodeInfo, NodeView, Plugin
from kubesched.util.ints import div_trunc

__all__ = ["ImageLocality"]

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST_PER_CONTAINER = 1000 * _MIB


class ImageLocality(Plugin):
    name = IMAGE_LOCALITY
    # How widely an image is spread is a share of all nodes, so their number matters too.
    node_local = False

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
        table = nodes.table
        sizes: NDArray[np.int64] | None = None
        for name in _images_of(pod):
            if (holders := table.images.holders(name)) is None:
                continue
            if sizes is None:
                sizes = np.zeros(table.capacity, dtype=np.int64)
            share = holders.size_bytes * (holders.node_count / len(table))
            # Rows of one image are distinct, so none is added to twice.
            sizes[holders.rows] += share.astype(np.int64)
        if sizes is None:
            return np.zeros(len(nodes), dtype=np.int64)
        most = _most_for(pod)
        size = nodes.at(sizes)
        clamped = np.where(size < _LEAST, _LEAST, np.minimum(size, most))
        clamped -= _LEAST
        clamped *= MAX_NODE_SCORE
        return kernels.divide_toward_zero(clamped, most - _LEAST)

    def sign_pod(self, pod: Pod) -> Mapping[str, Sequence[str]]:
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        names = {normalized_image_name(each.image) for each in containers}
        return {"v1.Pod.Spec.CanonicalImageNames()": sorted(names)}


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
