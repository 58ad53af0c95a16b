"""How many things are on each row, and in each domain of a topology key, kept by increments.

A domain is a value of a label key; the rows with that value are in it. Counting costs what
changed: one more thing on a row adds one to that row and to the row's domain of each key
that somebody asked about. Changes of labels are noticed by their version when the numbers are
next read, and the domain is then counted again from the rows in one pass over columns.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.engine.node_table import NodeTable

__all__ = ["DomainCounts", "Domains", "Eligibility", "RowCounts"]

# A count is rarely split in more ways than this at the same time.
_SPLITS_KEPT = 16


class Eligibility(Protocol):
    """Which rows may be in a domain at all, beyond having its label."""

    def version(self) -> Hashable:
        """A value that differs from earlier ones whenever `mask` would. Must be cheap."""
        ...

    def mask(self) -> NDArray[np.bool_]:
        """bool[row] over the whole capacity of the table."""
        ...


class Domains:
    """The rows of a table split by their values of one label key.

    `domain_of[row]` is the number of the value in the label column, or -1 for a row that is
    in no domain because it lacks the label or is not eligible. With `missing_as_empty`
    rows without the label count as if their value were the empty text.
    """

    __slots__ = (
        "_column",
        "_eligibility",
        "_missing_as_empty",
        "_seen",
        "domain_of",
        "is_one_row_each",
        "key",
        "present",
        "row_count",
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
        self._seen: Hashable = None
        self.version = 0
        self._build()

    @property
    def covers_table(self) -> bool:
        """Every node is in some domain."""
        return self.row_count == len(self.table)

    def number_of(self, value: str) -> int:
        """The domain with this value, or -1."""
        return self._column.values.find(value)

    def refresh(self) -> int:
        """Catch up with the table; the version returned grows whenever a row moved."""
        eligibility = self._eligibility
        seen = self._column.version
        if (seen if eligibility is None else (seen, eligibility.version())) != self._seen or len(
            self.domain_of
        ) != len(self._column.ids):
            self._build()
        return self.version

    def _build(self) -> None:
        column, eligibility = self._column, self._eligibility
        domain_of = column.ids.astype(np.intp)  # intp[row]
        if self._missing_as_empty:
            # Rows without a node go there too, which is harmless: nothing is on them.
            domain_of[domain_of < 0] = column.values.find("")
        self._seen = column.version
        if eligibility is not None:
            self._seen = (column.version, eligibility.version())
            domain_of[~eligibility.mask()] = -1
        # Shifted by one, so that "no domain" is counted at place 0.
        rows_in = np.bincount(domain_of + 1, minlength=len(column.values) + 1)[1:]
        self.domain_of: NDArray[np.intp] = domain_of
        self.present: NDArray[np.intp] = np.flatnonzero(rows_in)
        self.row_count = int(rows_in.sum())
        self.is_one_row_each = self.row_count == len(self.present)
        self.version += 1


class DomainCounts:
    """The things of a RowCounts, counted per domain.

    `counts[domain]` has one place more than there are domains. It stays 0, so that the
    domain -1 of a row outside all domains reads as none.
    """

    __slots__ = ("counts", "domains", "rows", "total", "version")

    def __init__(self, domains: Domains, rows: NDArray[np.int64]) -> None:
        self.domains = domains
        self.recount(rows)

    def recount(self, rows: NDArray[np.int64]) -> None:
        domains = self.domains
        places = len(domains.table.label_column(domains.key).values) + 1
        summed = np.bincount(domains.domain_of + 1, weights=rows, minlength=places)
        self.counts = np.zeros(places, dtype=np.int64)
        self.counts[:-1] = summed[1:]
        self.total = int(self.counts.sum())
        self.rows = rows  # int64[row], shared with the RowCounts
        self.version = domains.version

    def add(self, row: int, step: int) -> None:
        domains = self.domains
        if self.version != domains.version:
            return  # the domains were drawn anew; a recount precedes the next read
        domain = domains.domain_of[row]
        if domain >= 0:
            self.counts[domain] += step
            self.total += step

    def of_value(self, value: str) -> int:
        """How many are in the domain with this value."""
        return int(self.counts[self.domains.number_of(value)])

    def minimum(self) -> int:
        """The smallest count of a domain that has rows."""
        if self.is_per_row:
            return int(self.rows[self.domains.table.live_rows].min())
        return int(self.counts[self.domains.present].min())

    @property
    def is_per_row(self) -> bool:
        """Every node is a domain of its own, so that `rows` says it all."""
        domains = self.domains
        return domains.is_one_row_each and domains.covers_table


class RowCounts:
    """How many things are on each row, and on demand per domain."""

    __slots__ = ("_splits", "rows", "total")

    def __init__(self, capacity: int) -> None:
        self.rows = np.zeros(capacity, dtype=np.int64)  # int64[row]
        self.total = 0
        self._splits: dict[Domains, DomainCounts] = {}

    def add(self, row: int, step: int) -> None:
        self.rows[row] += step
        self.total += step
        for counts in self._splits.values():
            counts.add(row, step)

    def by_domain(self, domains: Domains) -> DomainCounts:
        """The counts per domain, up to date; from the first call on they are kept so."""
        version = domains.refresh()
        counts = self._splits.get(domains)
        if counts is None:
            if len(self._splits) >= _SPLITS_KEPT:
                del self._splits[next(iter(self._splits))]
            counts = self._splits[domains] = DomainCounts(domains, self.rows)
        elif counts.version != version:
            counts.recount(self.rows)
        return counts

    def add_rows(self, rows: NDArray[np.intp], counts: NDArray[np.int64]) -> None:
        """Add to many rows, each named once."""
        self.rows[rows] += counts
        self.total += int(counts.sum())
        self._splits.clear()

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self.rows = np.pad(self.rows, (0, capacity - len(self.rows)))
        self._splits.clear()
