"""Which images are on which nodes (spec 04 §4.3)."""

from __future__ import annotations

from kubesched.api import Node
from kubesched.framework import ImageState

__all__ = ["ImageTable"]


class _Image:
    __slots__ = ("nodes", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes  # as the first node that has it reported
        self.nodes: set[str] = set()


class ImageTable:
    """Image name -> size and nodes, over the whole cluster."""

    def __init__(self) -> None:
        self._images: dict[str, _Image] = {}
        self.version = 0

    def add(self, node: Node) -> None:
        for reported in node.status.images:
            for name in reported.names:
                image = self._images.get(name)
                if image is None:
                    image = self._images[name] = _Image(reported.size_bytes)
                image.nodes.add(node.metadata.name)
                self.version += 1

    def remove(self, node: Node) -> None:
        for reported in node.status.images:
            for name in reported.names:
                image = self._images.get(name)
                if image is None:
                    continue
                image.nodes.discard(node.metadata.name)
                if not image.nodes:
                    del self._images[name]
                self.version += 1

    def states(self, node: Node) -> dict[str, ImageState]:
        """The images of a node with the counts of this moment."""
        return {
            name: ImageState(image.size_bytes, len(image.nodes))
            for reported in node.status.images
            for name in reported.names
            if (image := self._images.get(name)) is not None
        }
