"""The table of images on nodes (docs/reference/04 §4.3)."""

from __future__ import annotations

from kubesched.api import Node
from kubesched.framework import ImageState

__all__ = ["ImageTable"]


class _Image:
    __slots__ = ("size_bytes", "state")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes  # as reported by the first node that has it
        self.state = ImageState(size_bytes, 0)  # shared by all nodes

    def count(self, step: int) -> int:
        nodes = self.state.node_count + step
        self.state = ImageState(self.size_bytes, nodes)
        return nodes


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
            image.count(1)
            self.version += 1

    def remove(self, node: Node) -> None:
        for name in _named(node):
            image = self._images.get(name)
            if image is None:
                continue
            if not image.count(-1):
                del self._images[name]
            self.version += 1

    def states(self, node: Node) -> dict[str, ImageState]:
        """Return the images of a node with the present counts."""
        return {
            name: image.state
            for reported in node.status.images
            for name in reported.names
            if (image := self._images.get(name)) is not None
        }


def _named(node: Node) -> dict[str, int]:
    """Return the sizes of a node's images by name; the first mention of a name counts."""
    sizes: dict[str, int] = {}
    for reported in node.status.images:
        for name in reported.names:
            sizes.setdefault(name, reported.size_bytes)
    return sizes
