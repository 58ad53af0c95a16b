"""Facts that few rows have: host ports in use, images present.

A dense column per port or image would be mostly empty, so these are kept by port and by image,
with the rows that have them. The node table writes; plugins read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.api.host_ports import HostPort

__all__ = ["ImageFacts", "ImageHolders", "ImageRows", "PortRows"]

_NOBODY: Mapping[int, set[str]] = {}
_NO_IMAGES: Mapping[str, ImageFacts] = {}


class PortRows:
    """Who uses a host port: (protocol, port) -> row -> addresses."""

    __slots__ = ("_by_port", "_by_row")

    def __init__(self) -> None:
        self._by_port: dict[tuple[str, int], dict[int, set[str]]] = {}
        self._by_row: dict[int, frozenset[HostPort]] = {}

    def write(self, row: int, used: Collection[HostPort]) -> None:
        """Note all ports that are in use on the row's node, in place of those before."""
        before = self._by_row.get(row, frozenset())
        if not used and not before:
            return
        after = frozenset(used)
        for gone in before - after:
            self._withdraw(row, gone)
        for new in after - before:
            rows = self._by_port.setdefault((new.protocol, new.port), {})
            rows.setdefault(row, set()).add(new.ip)
        if after:
            self._by_row[row] = after
        else:
            del self._by_row[row]

    def holders(self, protocol: str, port: int) -> Mapping[int, set[str]]:
        """The rows where the port is in use, and on which addresses."""
        return self._by_port.get((protocol, port), _NOBODY)

    def _withdraw(self, row: int, gone: HostPort) -> None:
        key = (gone.protocol, gone.port)
        rows = self._by_port[key]
        rows[row].discard(gone.ip)
        if not rows[row]:
            del rows[row]
            if not rows:
                del self._by_port[key]


class ImageFacts(Protocol):
    """What is known of an image on a node."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def node_count(self) -> int:
        """On how many nodes the image was when this was noted."""
        ...


class ImageHolders(NamedTuple):
    """The rows that have an image, and what was noted for each. Read only."""

    rows: NDArray[np.intp]
    size_bytes: NDArray[np.float64]
    node_count: NDArray[np.float64]


class _ImageColumn:
    """The rows of one image, packed: a removed one is replaced by the last."""

    __slots__ = ("_index", "_node_count", "_rows", "_size_bytes")

    def __init__(self) -> None:
        self._index: dict[int, int] = {}  # row -> place in the arrays
        self._rows = np.zeros(4, dtype=np.intp)
        self._size_bytes = np.zeros(4, dtype=np.float64)
        self._node_count = np.zeros(4, dtype=np.float64)

    def __len__(self) -> int:
        return len(self._index)

    def put(self, row: int, facts: ImageFacts) -> None:
        place = self._index.get(row)
        if place is None:
            place = self._index[row] = len(self._index)
            if place == len(self._rows):
                self._grow()
            self._rows[place] = row
        self._size_bytes[place] = facts.size_bytes
        self._node_count[place] = facts.node_count

    def remove(self, row: int) -> None:
        place = self._index.pop(row)
        last = len(self._index)
        if place != last:
            for column in (self._rows, self._size_bytes, self._node_count):
                column[place] = column[last]
            self._index[int(self._rows[place])] = place

    def holders(self) -> ImageHolders:
        count = len(self._index)
        return ImageHolders(self._rows[:count], self._size_bytes[:count], self._node_count[:count])

    def _grow(self) -> None:
        extra = (0, len(self._rows))
        self._rows = np.pad(self._rows, extra)
        self._size_bytes = np.pad(self._size_bytes, extra)
        self._node_count = np.pad(self._node_count, extra)


class ImageRows:
    """Who has an image: name -> rows, with its size and spread as noted for each row."""

    __slots__ = ("_by_image", "_by_row")

    def __init__(self) -> None:
        self._by_image: dict[str, _ImageColumn] = {}
        self._by_row: dict[int, Mapping[str, ImageFacts]] = {}

    def write(self, row: int, images: Mapping[str, ImageFacts]) -> None:
        """Note all images on the row's node, in place of those before.

        The mapping is kept, so it must not change afterwards.
        """
        before = self._by_row.get(row, _NO_IMAGES)
        if before is images or before == images:
            return
        for name in before:
            if name not in images:
                column = self._by_image[name]
                column.remove(row)
                if not len(column):
                    del self._by_image[name]
        for name, facts in images.items():
            if before.get(name) != facts:
                if (held := self._by_image.get(name)) is None:
                    held = self._by_image[name] = _ImageColumn()
                held.put(row, facts)
        if images:
            self._by_row[row] = images
        else:
            self._by_row.pop(row, None)

    def holders(self, name: str) -> ImageHolders | None:
        """The rows that have the image; None: nobody."""
        column = self._by_image.get(name)
        return None if column is None else column.holders()
