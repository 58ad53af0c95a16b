"""A priority queue whose members are found, replaced and removed by key.

The smallest sort key is first; members with equal sort keys leave in the order of insertion.
Replacing a member does not change its position if its sort key is unchanged; otherwise it counts as
newly added. The sort key is read when a member is added or updated, never later.

Members mostly arrive in order. They are then appended to a deque, from which the first one is
removed at no cost. A member that arrives out of order is added to a heap. Removal leaves a stale
entry, which is skipped when it becomes the first; when most entries are stale, both structures are
rebuilt. So add, update, delete and pop cost at most O(log n) amortised, all of it in `heapq`, and
lookups are one dict access.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

__all__ = ["KeyedHeap"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MIN_SIZE_TO_REBUILD = 64


class KeyedHeap(Generic[K, V]):
    """Members ordered by `sort_key`, addressed by `key`."""

    def __init__(
        self,
        *,
        key: Callable[[V], K],
        sort_key: Callable[[V], Any],
        numbers: Iterator[int] | None = None,
    ) -> None:
        """Heaps that share `numbers` order equal members by when they were added to either."""
        self._key = key
        self._sort_key = sort_key
        self._numbers = itertools.count() if numbers is None else numbers
        # An entry is current while its number equals the number of its key in the member table.
        self._line: deque[tuple[Any, int, K]] = deque()  # in order
        self._heap: list[tuple[Any, int, K]] = []
        self._members: dict[K, tuple[Any, int, V]] = {}

    def order_by(self, sort_key: Callable[[V], Any]) -> None:
        """Use another sort key from now on; the heap must be empty."""
        assert not self._members, "members have places by the old sort key"
        self.clear()
        self._sort_key = sort_key

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: object) -> bool:
        return key in self._members

    def __iter__(self) -> Iterator[V]:
        """Iterate over the members in the order of insertion, not in sort order."""
        return (value for _, _, value in self._members.values())

    def get(self, key: K) -> V | None:
        member = self._members.get(key)
        return None if member is None else member[2]

    def add(self, value: V) -> bool:
        """Insert, or replace the member with this key; True if the key is new."""
        key = self._key(value)
        order = self._sort_key(value)
        present = self._members.get(key)
        if present is not None and present[0] == order:
            self._members[key] = (order, present[1], value)
            return False
        number = next(self._numbers)
        self._members[key] = (order, number, value)
        line = self._line
        if not line or not order < line[-1][0]:
            line.append((order, number, key))
        else:
            heapq.heappush(self._heap, (order, number, key))
        if present is not None:
            self._rebuild_if_mostly_dead()
        return present is None

    def update(self, value: V) -> None:
        """Replace the member with this key.

        Raises:
            KeyError: there is no such member.
        """
        key = self._key(value)
        if key not in self._members:
            raise KeyError(key)
        self.add(value)

    def delete(self, key: K) -> V | None:
        """Remove and return the member with this key, or None if there is none."""
        member = self._members.pop(key, None)
        if member is None:
            return None
        self._rebuild_if_mostly_dead()
        return member[2]

    def peek(self) -> V | None:
        """Return the first member without removing it, or None if there is none."""
        line, heap, members = self._line, self._heap, self._members
        while line or heap:
            is_in_line = line and (not heap or line[0] < heap[0])
            _, number, key = line[0] if is_in_line else heap[0]
            member = members.get(key)
            if member is not None and member[1] == number:
                return member[2]
            self._take_first()
        return None

    def first_order(self) -> tuple[Any, int] | None:
        """Return the sort key of the first member, and its number; None if the queue is empty."""
        if self.peek() is None:
            return None
        return (self._line[0] if self._line_is_first() else self._heap[0])[:2]

    def pop(self) -> V:
        """Remove and return the first member.

        Raises:
            IndexError: the heap is empty.
        """
        line, heap, members = self._line, self._heap, self._members
        while line or heap:
            _, number, key = line.popleft() if not heap else self._take_first()
            member = members.get(key)
            if member is not None and member[1] == number:
                del members[key]
                return member[2]
        raise IndexError("pop from an empty heap")

    def in_order(self) -> list[V]:
        """Return the members in the order that `pop` would give them."""
        return [value for _, _, value in sorted(self._members.values(), key=_order_and_number)]

    def _line_is_first(self) -> bool:
        """Whether the first entry, current or stale, is in the deque; there must be one."""
        line, heap = self._line, self._heap
        return bool(line) and (not heap or line[0] < heap[0])

    def _take_first(self) -> tuple[Any, int, K]:
        return self._line.popleft() if self._line_is_first() else heapq.heappop(self._heap)

    def clear(self) -> None:
        self._line.clear()
        self._heap.clear()
        self._members.clear()

    def check_invariants(self) -> None:
        """Assert that every member has exactly one current entry, and that all are in order."""
        alive = [
            key
            for order, number, key in (*self._line, *self._heap)
            if (member := self._members.get(key)) is not None and member[:2] == (order, number)
        ]
        assert len(alive) == len(set(alive)) == len(self._members)
        for before, after in itertools.pairwise(self._line):
            assert before[:2] < after[:2]
        for child in range(1, len(self._heap)):
            assert self._heap[(child - 1) // 2][:2] <= self._heap[child][:2]

    def _rebuild_if_mostly_dead(self) -> None:
        size = len(self._line) + len(self._heap)
        if size > _MIN_SIZE_TO_REBUILD and size > 2 * len(self._members):
            entries = [(order, number, key) for key, (order, number, _) in self._members.items()]
            self._line, self._heap = deque(sorted(entries)), []


def _order_and_number(member: tuple[Any, int, Any]) -> tuple[Any, int]:
    return member[:2]
