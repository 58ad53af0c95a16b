from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import Node, Taint
from kubesched.api.resources import Resources
from kubesched.engine import CPU, ChangeLog, Interner, NodeTable
from kubesched.testing import make_node


def add(table: NodeTable, node: Node) -> int:
    name = node.metadata.name
    row = table.row_of.get(name)
    if row is None:
        row = table.add_row(name)
    table.write_node(row, node, Resources.from_resource_list(node.status.allocatable), 110)
    table.write_usage(row, Resources(), 0, 0, 0)
    return row


def test_rows_are_stable_and_reused() -> None:
    table = NodeTable(capacity=2)
    rows = [add(table, make_node(name)) for name in "abc"]
    assert rows == [0, 1, 2]
    table.remove_row("b")
    assert table.row_of == {"a": 0, "c": 2}
    assert add(table, make_node("d")) == 1
    assert list(table.names) == ["a", "d", "c"]


def test_live_rows_are_a_slice_while_no_row_is_free() -> None:
    table = NodeTable(capacity=2)
    for name in "abc":
        add(table, make_node(name))
    assert table.live_rows == slice(0, 3)
    table.remove_row("b")
    assert np.array_equal(table.live_rows, [0, 2])
    assert table.is_live.tolist()[:3] == [True, False, True]


def test_a_resource_gets_a_column_when_it_is_first_named() -> None:
    table = NodeTable(capacity=2)
    add(table, make_node("a"))
    assert table.resource_column("example.com/gpu") == -1
    row = add(table, make_node("b", extended={"example.com/gpu": "4"}))
    column = table.resource_column("example.com/gpu")
    assert table.allocatable[column].tolist() == [0, 4]
    assert table.requested.shape == table.allocatable.shape
    add(table, make_node("b"))
    assert table.allocatable[column, row] == 0


def test_a_label_column_made_late_knows_all_rows_and_stays_up_to_date() -> None:
    table = NodeTable(capacity=1)
    add(table, make_node("a", labels={"disk": "ssd"}))
    add(table, make_node("b"))
    column = table.label_column("disk")
    values = [column.values.values[i] if i >= 0 else None for i in column.ids[:2]]
    assert values == ["ssd", None]
    version = column.version
    add(table, make_node("b", labels={"disk": "hdd"}))
    assert column.values.values[column.ids[1]] == "hdd"
    assert column.version > version
    table.remove_row("a")
    assert column.ids[0] == -1


def test_taint_lists_that_differ_only_in_time_are_one() -> None:
    table = NodeTable()
    taint = Taint(key="k", effect="NoExecute", time_added="2026-01-01T00:00:00Z")
    for number in range(3):
        later = replace(taint, time_added=f"2026-01-01T00:00:0{number}Z")
        node = make_node(f"n{number}")
        add(table, replace(node, spec=replace(node.spec, taints=(later,))))
    assert len(set(table.taint_set[:3].tolist())) == 1
    assert len(table.taint_sets) == 2  # the empty list and this one


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_columns_equal_what_was_written_last(seed: int) -> None:
    rng = random.Random(seed)
    table = NodeTable(capacity=1)
    written: dict[str, Node] = {}
    table.label_column("zone")
    for _ in range(40):
        name = f"n{rng.randrange(8)}"
        if rng.random() < 0.3:
            if name in written:
                table.remove_row(name)
                del written[name]
            continue
        labels = {"zone": rng.choice("xyz")} if rng.random() < 0.7 else {}
        written[name] = make_node(name, labels=labels, cpu=str(rng.randrange(64)))
        add(table, written[name])
    assert set(table.row_of) == set(written)
    zone = table.label_column("zone")
    for name, node in written.items():
        row = table.row_of[name]
        assert table.allocatable[CPU, row] == 1000 * int(node.status.allocatable["cpu"])
        number = zone.ids[row]
        value = zone.values.values[number] if number >= 0 else None
        assert value == node.metadata.labels.get("zone")
    free = np.setdiff1d(np.arange(table.capacity), list(table.row_of.values()))
    assert not table.allocatable[:, free].any()
    assert (zone.ids[free] == -1).all()


# -- the change log --------------------------------------------------------------------


def test_a_reader_gets_the_distinct_rows_since_it_last_looked() -> None:
    log = ChangeLog()
    log.append(5)
    position = log.position
    for row in (3, 1, 3):
        log.append(row)
    changed = log.since(position)
    assert changed is not None
    assert changed.tolist() == [1, 3]
    nothing = log.since(log.position)
    assert nothing is not None
    assert len(nothing) == 0


def test_a_reader_that_lags_too_far_behind_is_told_so() -> None:
    log = ChangeLog()
    start = log.position
    for row in range(200_000):
        log.append(row % 7)
    assert log.since(start) is None
    recent = log.since(log.position - 1000)
    assert recent is not None
    assert recent.tolist() == list(range(7))


def test_an_interned_value_keeps_its_number() -> None:
    interner: Interner[str] = Interner()
    assert [interner.intern(value) for value in "abab"] == [0, 1, 0, 1]
    assert (interner.find("b"), interner.find("z"), len(interner)) == (1, -1, 2)
