"""Properties that few rows have: used host ports and present images.

A dense column per port or image would be mostly empty. Instead, the rows are stored by port and
by image. The node table writes; plugins read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.api.host_ports import HostPort

__all__ = ["ImageFacts", "ImageHolders", "ImageRows", "PackedRows", "PortRows"]

S = TypeVar("S", bound=np.generic)

_NO_ROWS: Mapping[str, PackedRows] = {}
_NO_IMAGES: Mapping[str, ImageFacts] = {}


class PackedRows:
    """A set of rows in an array without gaps."""

    __slots__ = ("_places", "_rows")

    def __init__(self) -> None:
        self._places: dict[int, int] = {}  # row -> place in the array
        self._rows = np.zeros(4, dtype=np.intp)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows, in no particular order. Read only."""
        return self._rows[: len(self._places)]

    def add(self, row: int) -> int:
        """Add the row if necessary, and return its place in the array."""
        place = self._places.get(row)
        if place is None:
            place = self._places[row] = len(self._places)
            if place == len(self._rows):
                self._grow()
            self._rows[place] = row
        return place

    def remove(self, row: int) -> None:
        place = self._places.pop(row)
        last = len(self._places)
        if place != last:
            self._move(last, place)
            self._places[int(self._rows[place])] = place

    def _move(self, source: int, target: int) -> None:
        self._rows[target] = self._rows[source]

    def _grow(self) -> None:
        self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))


class PortRows:
    """The rows that use a host port: (protocol, port) -> address -> rows."""

    __slots__ = ("_by_port", "_by_row")

    def __init__(self) -> None:
        self._by_port: dict[tuple[str, int], dict[str, PackedRows]] = {}
        self._by_row: dict[int, frozenset[HostPort]] = {}

    def write(self, row: int, used: Collection[HostPort]) -> None:
        """Replace the ports that are in use on the row's node."""
        before = self._by_row.get(row, frozenset())
        if not used and not before:
            return
        after = frozenset(used)
        for ip, protocol, port in before - after:
            by_ip = self._by_port[protocol, port]
            by_ip[ip].remove(row)
            if not by_ip[ip]:
                del by_ip[ip]
                if not by_ip:
                    del self._by_port[protocol, port]
        for ip, protocol, port in after - before:
            by_ip = self._by_port.setdefault((protocol, port), {})
            by_ip.setdefault(ip, PackedRows()).add(row)
        if after:
            self._by_row[row] = after
        else:
            del self._by_row[row]

    def holders(self, protocol: str, port: int) -> Mapping[str, PackedRows]:
        """Return the rows where the port is in use, by address."""
        return self._by_port.get((protocol, port), _NO_ROWS)


class ImageFacts(Protocol):
    """The properties of an image on a node."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def node_count(self) -> int:
        """The number of nodes that had the image when this was recorded."""
        ...


class ImageHolders(NamedTuple):
    """The rows that have an image, with the recorded properties. Read only."""

    rows: NDArray[np.intp]
    size_bytes: NDArray[np.float64]
    node_count: NDArray[np.float64]


class _ImageColumn(PackedRows):
    """The rows of one image, with the recorded properties.

    New rows are written to the arrays when these are read, or change otherwise: most images of a
    cluster are never read, and many rows are written faster at once.
    """

    __slots__ = ("_node_count", "_size_bytes", "_written")

    def __init__(self) -> None:
        super().__init__()
        self._size_bytes = np.zeros(0, dtype=np.float64)
        self._node_count = np.zeros(0, dtype=np.float64)
        self._written = 0  # places from here on are not in the arrays yet

    def put(self, row: int, facts: ImageFacts) -> None:
        """Add the row, or record other properties of it."""
        place = self._places.get(row)
        if place is None:
            self._places[row] = len(self._places)
        elif place < self._written:
            self._size_bytes[place] = facts.size_bytes
            self._node_count[place] = facts.node_count

    def write_new(self, facts_of: Callable[[int], ImageFacts]) -> None:
        """Write the rows to the arrays that are not there yet; `facts_of` is called for each."""
        count = len(self._places)
        if self._written == count:
            return
        # They are the last ones that were added, because `remove` is only called without any.
        rows = list(islice(reversed(self._places), count - self._written))[::-1]
        facts = [facts_of(row) for row in rows]
        self._rows = _extended(self._rows, self._written, rows)
        sizes, nodes = [each.size_bytes for each in facts], [each.node_count for each in facts]
        self._size_bytes = _extended(self._size_bytes, self._written, sizes)
        self._node_count = _extended(self._node_count, self._written, nodes)
        self._written = count

    def remove(self, row: int) -> None:
        assert self._written == len(self._places), "new rows are written before one is removed"
        super().remove(row)
        self._written -= 1

    def holders(self) -> ImageHolders:
        count = self._written
        return ImageHolders(self.rows, self._size_bytes[:count], self._node_count[:count])

    def _move(self, source: int, target: int) -> None:
        super()._move(source, target)
        self._size_bytes[target] = self._size_bytes[source]
        self._node_count[target] = self._node_count[source]


def _extended(array: NDArray[S], length: int, values: Sequence[float]) -> NDArray[S]:
    """Return the array with these values from the place `length` on, and perhaps spare places."""
    end = length + len(values)
    if end > len(array):
        larger = np.empty(max(end, 2 * length), dtype=array.dtype)
        larger[:length] = array[:length]
        array = larger
    array[length:end] = values
    return array


class ImageRows:
    """The rows that have an image, with the properties recorded for each row."""

    __slots__ = ("_by_image", "_by_row", "version")

    def __init__(self) -> None:
        self._by_image: dict[str, _ImageColumn] = {}
        self._by_row: dict[int, Mapping[str, ImageFacts]] = {}
        self.version = 0  # grows with every change

    def write(self, row: int, images: Mapping[str, ImageFacts]) -> None:
        """Replace the images on the row's node.

        The mapping is stored, so it must not change afterwards.
        """
        before = self._by_row.get(row, _NO_IMAGES)
        if before is images or before == images:
            return
        self.version += 1
        for name in before:
            if name not in images:
                column = self._by_image[name]
                self._write_new(name, column)
                column.remove(row)
                if not column:
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

    def __contains__(self, name: str) -> bool:
        """Whether some row has the image."""
        return name in self._by_image

    def holders(self, name: str) -> ImageHolders | None:
        """Return the rows that have the image, or None."""
        column = self._by_image.get(name)
        if column is None:
            return None
        self._write_new(name, column)
        return column.holders()

    def _write_new(self, name: str, column: _ImageColumn) -> None:
        by_row = self._by_row
        column.write_new(lambda row: by_row[row][name])
