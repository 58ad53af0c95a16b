"""Counts per row and per domain of a topology key, maintained incrementally.

A domain is a value of a label key and contains the rows with that value. An update costs as much
as what changed: one more pod on a row adds one to that row, and to the row's domain of each
tracked key. Changes of labels are detected by their version at the next read; the domains are
then counted again from the rows, in one pass over columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.engine.node_table import NodeTable

__all__ = ["DomainCounts", "Domains", "Eligibility", "RowCounts"]

# A count is rarely split by more keys than this at the same time.
_SPLITS_KEPT = 16


class Eligibility(Protocol):
    """The rows that may be in a domain, besides the condition on the label."""

    def version(self) -> Hashable:
        """Return a value that changes whenever `mask` would. It must be cheap."""
        ...

    def mask(self) -> NDArray[np.bool_]:
        """Return bool[row] for the whole capacity of the table."""
        ...


class Domains:
    """The rows of a table, split by their values of one label key.

    `domain_of[row]` is the number of the value in the label column, or -1 for a row in no domain:
    it lacks the label or is not eligible. With `missing_as_empty`, rows without the label are in
    the domain of the empty value.
    """

    __slots__ = (
        "_column",
        "_eligibility",
        "_missing_as_empty",
        "_number_count",
        "_places_missing",
        "_row_count",
        "_row_in",
        "_seen",
        "domain_of",
        "is_one_row_each",
        "key",
        "present",
        "table",
        "version",
    )

    def __init__(
        self,
        table: NodeTable,
        key: str,
        eligibility: Eligibility | None = None,
        missing_as_empty: bool = False,
    ) -> None:
        self.table = table
        self.key = key
        self._column = table.label_column(key)
        self._eligibility = eligibility
        self._missing_as_empty = missing_as_empty
        self._seen = self._now()
        self._row_in: NDArray[np.intp] | None = None
        self.version = 0
        self._build()

    @property
    def covers_table(self) -> bool:
        """Whether every node is in some domain."""
        # With missing labels placed, rows without a node are also in a domain.
        return not self._missing_as_empty and self._row_count == len(self.table)

    def number_of(self, value: str) -> int:
        """Return the number of the domain with this value, or -1."""
        return self._column.values.find(value)

    @property
    def number_count(self) -> int:
        """The upper bound of the numbers of domains."""
        return self._number_count

    def row_in(self, number: int) -> int:
        """Return a row of the domain with this number, or -1."""
        row_in = self._row_in
        if row_in is None:
            row_in = self._row_in = np.full(self._number_count + 1, -1, dtype=np.intp)
            row_in[self.domain_of] = np.arange(len(self.domain_of))
            row_in[-1] = -1
        return int(row_in[number])

    def refresh(self) -> int:
        """Update the split; return the version, which grows whenever a row moved."""
        seen = self._now()
        if (
            seen != self._seen
            or len(self.domain_of) != len(self._column.ids)
            or (self._places_missing and self._eligibility is not None)
        ):
            self._seen = seen
            self._build()
        return self.version

    def _now(self) -> Hashable:
        """Return the version of the inputs, except for nodes without the label."""
        version, eligibility = self._column.version, self._eligibility
        return version if eligibility is None else (version, eligibility.version())

    def _build(self) -> None:
        column, eligibility = self._column, self._eligibility
        domain_of = column.ids.astype(np.intp)  # intp[row]
        empty = column.values.find("")
        # A new node without the label may not change the column, and may not be eligible.
        self._places_missing = self._missing_as_empty and empty >= 0
        if self._places_missing:
            # Rows without a node get this domain too, which is harmless: their counts are 0.
            domain_of[domain_of < 0] = empty
        if eligibility is not None:
            domain_of[~eligibility.mask()] = -1
        self._number_count = len(column.values)
        self._row_in = None
        # Shifted by one, so that "no domain" is counted at index 0.
        rows_in = np.bincount(domain_of + 1, minlength=self._number_count + 1)[1:]
        self.domain_of: NDArray[np.intp] = domain_of
        self.present: NDArray[np.intp] = np.flatnonzero(rows_in)
        self._row_count = int(rows_in.sum())
        self.is_one_row_each = self._row_count == len(self.present)
        self.version += 1


class RowCounts:
    """Counts per row, and on request per domain.

    Rows with a count of 0 need no memory, unless the column of all rows is requested. The column
    is then maintained, and can be dropped at any time.
    """

    __slots__ = ("_capacity", "_column", "_on", "_splits", "total")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._on: dict[int, int] = {}  # row -> count, without zeros
        self._column: NDArray[np.int64] | None = None
        self._splits: dict[Domains, DomainCounts] = {}
        self.total = 0

    def add(self, row: int, step: int) -> None:
        """Add `step` to the count of a row."""
        on = self._on
        count = on.get(row, 0) + step
        if count:
            on[row] = count
        else:
            on.pop(row, None)
        self.total += step
        if self._column is not None:
            self._column[row] += step
        for counts in self._splits.values():
            counts.add(row, step)

    def add_all(self, counts: Mapping[int, int]) -> None:
        """Add these counts to their rows."""
        on = self._on
        if on:
            for row, count in counts.items():
                on[row] = on.get(row, 0) + count
        else:
            on.update(counts)
        self.total += sum(counts.values())
        self._column = None
        self._splits.clear()

    def get(self, row: int) -> int:
        return self._on.get(row, 0)

    @property
    def has_column(self) -> bool:
        return self._column is not None

    @property
    def column(self) -> NDArray[np.int64]:
        """int64[row]. Do not modify it."""
        if self._column is None:
            self._column = np.zeros(self._capacity, dtype=np.int64)
            rows, counts = self.entries()
            self._column[rows] = counts
        return self._column

    def drop_column(self) -> None:
        """Free the column until the next request."""
        self._column = None

    def entries(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the rows with a count, and the counts."""
        number = len(self._on)
        return (
            np.fromiter(self._on.keys(), dtype=np.intp, count=number),
            np.fromiter(self._on.values(), dtype=np.int64, count=number),
        )

    def by_domain(self, domains: Domains) -> DomainCounts:
        """Return the counts per domain; from the first call on they are maintained."""
        version = domains.refresh()
        counts = self._splits.get(domains)
        if counts is None:
            if len(self._splits) >= _SPLITS_KEPT:
                del self._splits[next(iter(self._splits))]
            counts = self._splits[domains] = DomainCounts(self, domains)
        elif counts.version != version:
            counts.recount()
        return counts

    def resize(self, capacity: int) -> None:
        """Adapt to the capacity of the table."""
        self._capacity = capacity
        self._column = None
        self._splits.clear()

    def drop_split(self, domains: Domains) -> None:
        """Stop maintaining the counts per domain of this split."""
        self._splits.pop(domains, None)

    def drop_splits(self) -> None:
        """Stop maintaining counts per domain; this also removes the reference cycles."""
        self._splits.clear()


class DomainCounts:
    """The counts of a RowCounts per domain."""

    __slots__ = ("_counts", "_on_rows", "domains", "total", "version")

    def __init__(self, on_rows: RowCounts, domains: Domains) -> None:
        self._on_rows = on_rows
        self.domains = domains
        self.recount()

    def recount(self) -> None:
        """Count again, because the domains changed."""
        domains = self.domains
        self.version = domains.version
        self._counts: NDArray[np.int64] | None = None
        self.total = self._on_rows.total
        if not domains.covers_table:
            rows, counts = self._on_rows.entries()
            self.total = int(counts[domains.domain_of[rows] >= 0].sum())

    def add(self, row: int, step: int) -> None:
        domains = self.domains
        if self.version != domains.version:
            return  # the next read recounts first
        domain = domains.domain_of[row]
        if domain >= 0:
            self.total += step
            if self._counts is not None:
                self._counts[domain] += step

    @property
    def is_per_row(self) -> bool:
        """Whether every domain is a single node, so that `column` has all counts."""
        domains = self.domains
        return domains.is_one_row_each and domains.covers_table

    @property
    def column(self) -> NDArray[np.int64]:
        """int64[row]: the counts of the rows themselves."""
        return self._on_rows.column

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64[domain], with one more entry at the end.

        The last entry is always 0, so that -1, the domain of a row in no domain, reads as 0.
        """
        if self._counts is None:
            domains = self.domains
            rows, counts = self._on_rows.entries()
            self._counts = np.zeros(domains.number_count + 1, dtype=np.int64)
            np.add.at(self._counts, domains.domain_of[rows], counts)
            self._counts[-1] = 0
        return self._counts

    def of_value(self, value: str) -> int:
        """Return the count of the domain with this value."""
        domains = self.domains
        number = domains.number_of(value)
        if self._counts is None and domains.is_one_row_each:
            return self._on_rows.get(domains.row_in(number))
        return int(self.counts[number])

    def minimum(self) -> int:
        """Return the smallest count of the domains that have rows."""
        if self.is_per_row:
            return int(self.column[self.domains.table.live_rows].min())
        return int(self.counts[self.domains.present].min())
