"""The table of images on nodes (docs/reference/04 §4.3)."""

from __future__ import annotations

from itertools import islice
from typing import Final

from kubesched.api import Node
from kubesched.framework import ImageState

__all__ = ["MOST_NAMES", "ImageTable"]

# Of the images of a node. A kubelet reports at most 50 images with five names each.
MOST_NAMES: Final = 2_000


class _Image:
    __slots__ = ("_state", "node_count", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes  # as reported by the first node that has it
        self.node_count = 0
        self._state = ImageState(size_bytes, 0)

    @property
    def state(self) -> ImageState:
        """The present state, shared by all nodes that are written while it is the same."""
        if self._state.node_count != self.node_count:
            self._state = ImageState(self.size_bytes, self.node_count)
        return self._state


class ImageTable:
    """The size and the number of nodes of every image in the cluster.

    A node is removed with the same object that it was added with.
    """

    def __init__(self) -> None:
        self._images: dict[str, _Image] = {}
        self.version = 0

    def add(self, node: Node) -> None:
        for name, size_bytes in _named(node).items():
            image = self._images.get(name)
            if image is None:
                image = self._images[name] = _Image(size_bytes)
            image.node_count += 1
            self.version += 1

    def remove(self, node: Node) -> None:
        for name in _named(node):
            image = self._images.get(name)
            if image is None:
                continue
            image.node_count -= 1
            if not image.node_count:
                del self._images[name]
            self.version += 1

    def states(self, node: Node) -> dict[str, ImageState]:
        """Return the images of a node with the present counts."""
        return {
            name: image.state
            for name in _named(node)
            if (image := self._images.get(name)) is not None
        }


def _named(node: Node) -> dict[str, int]:
    """Return the sizes of a node's images by name; the first mention of a name counts."""
    sizes: dict[str, int] = {}
    mentions = (
        (name, reported.size_bytes) for reported in node.status.images for name in reported.names
    )
    for name, size_bytes in islice(mentions, MOST_NAMES):
        sizes.setdefault(name, size_bytes)
    return sizes
