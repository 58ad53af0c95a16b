"""Counts per row and per domain, maintained incrementally."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kubesched.api.resource_amounts import Resources
from kubesched.framework.engine import NodeTable
from kubesched.framework.engine.domain_counts import DomainCounts, Domains, RowCounts
from kubesched.testing import make_node

NO_ROOM = Resources()


def write(table: NodeTable, name: str, **labels: str) -> int:
    """Add a node, or replace its labels."""
    row = table.row_of.get(name)
    if row is None:
        row = table.add_row(name)
    node = make_node(name, labels=labels, hostname_label=False)
    table.write_node(row, node, NO_ROOM, 0)
    return row


def table_of(**zones: str) -> NodeTable:
    table = NodeTable(capacity=2)
    for name, zone in zones.items():
        write(table, name, zone=zone)
    return table


class ManualEligibility:
    """An eligibility that a test changes."""

    def __init__(self, table: NodeTable, *rows: int) -> None:
        self.table = table
        self.rows = set(rows)

    def version(self) -> Hashable:
        return frozenset(self.rows)

    def mask(self) -> NDArray[np.bool_]:
        return np.isin(np.arange(self.table.capacity), list(self.rows))


class TestDomains:
    def test_rows_are_split_by_value(self) -> None:
        table = table_of(a="z1", b="z2", c="z1")
        row = write(table, "d")
        domains = Domains(table, "zone")
        assert domains.domain_of[:4].tolist() == [0, 1, 0, -1]
        assert domains.present.tolist() == [0, 1]
        assert not domains.covers_table
        write(table, "d", zone="z3")
        assert domains.refresh() == 2
        assert domains.domain_of[row] == 2
        assert domains.covers_table

    def test_a_value_without_nodes_is_not_present(self) -> None:
        table = table_of(a="z1", b="z2")
        domains = Domains(table, "zone")
        table.remove_row("a")
        domains.refresh()
        assert domains.present.tolist() == [1]

    def test_the_version_is_constant_while_no_row_moves(self) -> None:
        table = table_of(a="z1", b="z2")
        domains = Domains(table, "zone")
        write(table, "a", zone="z1", other="label")
        assert domains.refresh() == domains.refresh() == 1

    def test_the_table_may_grow(self) -> None:
        table = table_of(a="z1", b="z2")
        domains = Domains(table, "zone")
        write(table, "c")  # has no label, so that the column does not change
        domains.refresh()
        assert len(domains.domain_of) == table.capacity == 4

    def test_rows_that_are_not_eligible_are_in_no_domain(self) -> None:
        table = table_of(a="z1", b="z2")
        chosen = ManualEligibility(table, 1)
        domains = Domains(table, "zone", chosen)
        assert domains.domain_of.tolist() == [-1, 1]
        assert domains.present.tolist() == [1]
        chosen.rows = {0}
        domains.refresh()
        assert domains.domain_of.tolist() == [0, -1]

    def test_an_absent_label_can_count_as_an_empty_value(self) -> None:
        table = table_of(a="z1", b="")
        row = write(table, "c")
        domains = Domains(table, "zone", missing_as_empty=True)
        assert domains.domain_of[row] == domains.number_of("") == 1

    def test_domains_record_whether_each_has_one_row(self) -> None:
        table = table_of(a="1", b="2")
        domains = Domains(table, "zone")
        assert domains.is_one_row_each
        write(table, "b", zone="1")
        domains.refresh()
        assert not domains.is_one_row_each


class TestCounts:
    def test_a_row_counts_in_its_domain(self) -> None:
        table = table_of(a="z1", b="z2", c="z1")
        counts = RowCounts(table.capacity)
        counts.add(0, 2)
        zones = counts.by_domain(Domains(table, "zone"))
        counts.add(2, 1)
        counts.add(1, 1)
        counts.add(0, -1)
        assert (zones.of_value("z1"), zones.of_value("z2"), zones.of_value("z3")) == (2, 1, 0)
        assert (zones.total, zones.minimum()) == (3, 1)

    def test_rows_outside_of_all_domains_count_nowhere(self) -> None:
        table = table_of(a="z1")
        write(table, "b")
        counts = RowCounts(table.capacity)
        counts.add(1, 5)
        zones = counts.by_domain(Domains(table, "zone"))
        counts.add(1, 5)
        assert (zones.total, zones.minimum(), counts.total) == (0, 0, 10)

    def test_counts_follow_a_node_to_its_new_domain(self) -> None:
        table = table_of(a="z1", b="z2")
        domains = Domains(table, "zone")
        counts = RowCounts(table.capacity)
        counts.add(0, 3)
        counts.by_domain(domains)
        write(table, "a", zone="z9")
        counts.add(0, 1)  # before the next read
        zones = counts.by_domain(domains)
        assert (zones.of_value("z1"), zones.of_value("z9")) == (0, 4)

    def test_domains_may_be_refreshed_by_another_reader(self) -> None:
        table = table_of(a="z1", b="z2")
        domains = Domains(table, "zone")
        one, other = RowCounts(table.capacity), RowCounts(table.capacity)
        one.by_domain(domains)
        other.by_domain(domains)
        write(table, "a", zone="z9")
        one.by_domain(domains)
        other.add(0, 1)
        assert other.by_domain(domains).of_value("z9") == 1

    def test_counts_of_many_rows_are_added_at_once(self) -> None:
        table = table_of(a="z1", b="z2", c="z1")
        counts = RowCounts(table.capacity)
        zones = Domains(table, "zone")
        counts.by_domain(zones)
        counts.add_all({0: 2, 2: 3})
        counts.add_all({0: 1})
        assert counts.by_domain(zones).of_value("z1") == counts.total == 6
        assert counts.column[:3].tolist() == [3, 0, 3]

    def test_the_number_of_splits_is_bounded(self) -> None:
        table = table_of(a="z1")
        counts = RowCounts(table.capacity)
        split = [Domains(table, f"key-{number}") for number in range(40)]
        for domains in split:
            counts.by_domain(domains)
        counts.add(0, 1)
        assert counts.by_domain(Domains(table, "zone")).of_value("z1") == 1


Op = tuple[str, int, str]
OPS = st.lists(
    st.tuples(
        st.sampled_from(["label", "unlabel", "drop", "add", "take", "read", "choose"]),
        st.integers(0, 7),
        st.sampled_from(["", "x", "y", "z"]),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(OPS)
def test_counts_equal_a_recount_after_any_changes(ops: list[Op]) -> None:
    table = NodeTable(capacity=1)
    counts = RowCounts(table.capacity)
    chosen = ManualEligibility(table, 0, 1, 2)
    split = [
        Domains(table, "zone"),
        Domains(table, "zone", chosen),
        Domains(table, "zone", missing_as_empty=True),
    ]
    zone_of: dict[str, str | None] = {}
    things: Counter[str] = Counter()

    def check(domains: Domains, got: DomainCounts) -> None:
        want: Counter[str] = Counter()
        present = set()
        for name, zone in zone_of.items():
            assert counts.get(table.row_of[name]) == things[name]
            if domains is split[1] and table.row_of[name] not in chosen.rows:
                continue
            if zone is None and domains is split[2]:
                zone = ""
            if zone is not None:
                want[zone] += things[name]
                present.add(zone)
        for zone in ("x", "y", "z", *([""] if "" in present else [])):
            # The empty value exists only if a node had it at some time.
            if zone or table.label_column("zone").values.find("") >= 0:
                assert got.of_value(zone) == want[zone]
        if domains is not split[2]:
            values = table.label_column("zone").values.values
            assert {values[number] for number in domains.present} == present
            if present:
                assert got.minimum() == min(want[zone] for zone in present)
            assert got.total == sum(want.values())

    for what, number, zone in ops:
        name = f"n{number}"
        if what == "label":
            write(table, name, zone=zone)
            zone_of[name] = zone
        elif what == "unlabel":
            write(table, name)
            zone_of[name] = None
        elif what == "drop" and name in zone_of:
            counts.add(table.row_of[name], -things.pop(name, 0))
            table.remove_row(name)
            del zone_of[name]
        elif what in ("add", "take") and name in zone_of:
            step = 1 if what == "add" else -1
            counts.add(table.row_of[name], step)
            things[name] += step
        elif what == "choose":
            chosen.rows = {number, number + 1}
        elif what == "read":
            domains = split[number % 3]
            check(domains, counts.by_domain(domains))
        if len(counts.column) != table.capacity:
            counts.resize(table.capacity)
    for domains in split:
        check(domains, counts.by_domain(domains))
