from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import Node, Taint
from kubesched.api.resource_amounts import Resources
from kubesched.framework.engine import CPU, ChangeLog, Interner, NodeTable
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


def test_a_label_column_created_late_has_all_rows_and_is_updated() -> None:
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


def test_values_of_a_label_are_texts_and_numbers() -> None:
    table = NodeTable()
    values = {"a": "0.25", "b": "cheap", "c": None, "d": "3", "e": "1e3", "f": "inf"}
    rows = [
        add(table, make_node(name, labels={} if value is None else {"price": value}))
        for name, value in values.items()
    ]
    column = table.label_column("price")
    assert column.texts[column.ids[rows]].tolist() == ["0.25", "cheap", "", "3", "1e3", "inf"]
    numbers = column.numbers[column.ids[rows]]
    assert numbers[[0, 3]].tolist() == [0.25, 3.0]
    assert np.isnan(numbers[[1, 2, 4, 5]]).all()
    add(table, make_node("a", labels={"price": "7"}))
    assert column.numbers[column.ids[rows[0]]] == 7.0


def test_taint_lists_that_differ_only_in_time_are_one() -> None:
    table = NodeTable()
    taint = Taint(key="k", effect="NoExecute", time_added="2026-01-01T00:00:00Z")
    for number in range(3):
        later = replace(taint, time_added=f"2026-01-01T00:00:0{number}Z")
        node = make_node(f"n{number}")
        add(table, replace(node, spec=replace(node.spec, taints=(later,))))
    assert len(set(table.taint_set[:3].tolist())) == 1
    assert len(table.taint_sets) == 2  # the empty list and this one


def test_many_resources_cause_few_copies() -> None:
    table = NodeTable(capacity=2)
    rooms = set()
    for number in range(100):
        row = add(table, make_node(f"n{number}", extended={f"example.com/r{number}": "7"}))
        asked = Resources(scalar={f"example.com/r{number}": 3})
        table.write_usage(row, asked, 0, 0, 1)
        rooms.add(id(table.requested.base))
        assert len(table.requested) == len(table.allocatable) == len(table.resources)
    assert len(rooms) < 15  # as rows and resources double
    for number in range(100):
        place, row = table.resource_column(f"example.com/r{number}"), table.row_of[f"n{number}"]
        assert np.flatnonzero(table.allocatable[place]).tolist() == [row]
        assert table.allocatable[place, row] == 7
        assert table.requested[place, row] == 3
    table.remove_row("n5")
    assert not table.allocatable[table.resource_column("example.com/r5")].any()
    assert not table.requested[table.resource_column("example.com/r5")].any()


def test_numbers_of_deleted_nodes_are_reused() -> None:
    table = NodeTable()
    column = table.label_column("host")
    for number in range(1_000):
        name = f"n{number}"
        taint = Taint(key=name, effect="NoSchedule")
        node = make_node(name, labels={"host": name})
        row = add(table, replace(node, spec=replace(node.spec, taints=(taint,))))
        assert column.values.values[column.ids[row]] == name
        assert table.taint_sets.values[table.taint_set[row]] == (taint,)
        if number >= 10:
            table.remove_row(f"n{number - 10}")
    assert len(column.values) <= 11
    assert len(table.taint_sets) <= 12
    assert column.values.find("n0") == -1


def test_reuse_of_a_number_changes_the_version() -> None:
    table = NodeTable()
    column = table.label_column("zone")
    add(table, make_node("a", labels={"zone": "x"}))
    number, version = int(column.ids[0]), column.version
    add(table, make_node("a", labels={"zone": "y"}))
    add(table, make_node("a", labels={"zone": "z"}))
    assert column.ids[0] == number  # the number of x, then free, then the number of z
    assert column.values.values[number] == "z"
    assert column.version > version


def test_unreferenced_label_columns_are_dropped() -> None:
    table = NodeTable()
    held = table.label_column("held")
    for number in range(2_000):
        assert len(table.label_column(f"key-{number}").ids) == table.capacity
    assert len(table._label_columns) <= 513
    assert table.label_column("held") is held
    add(table, make_node("a", labels={"held": "yes", "key-0": "again"}))
    assert held.values.values[held.ids[0]] == "yes"
    column = table.label_column("key-0")
    assert column.values.values[column.ids[0]] == "again"


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_columns_equal_the_last_writes(seed: int) -> None:
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
        extended = {f"example.com/{rng.choice('abc')}": str(rng.randrange(9))}
        taints = (Taint(key=rng.choice("kl")),) if rng.random() < 0.5 else ()
        node = make_node(name, labels=labels, cpu=str(rng.randrange(64)), extended=extended)
        written[name] = replace(node, spec=replace(node.spec, taints=taints))
        add(table, written[name])
    assert set(table.row_of) == set(written)
    zone = table.label_column("zone")
    for name, node in written.items():
        row = table.row_of[name]
        assert table.allocatable[CPU, row] == 1000 * int(node.status.allocatable["cpu"])
        number = zone.ids[row]
        value = zone.values.values[number] if number >= 0 else None
        assert value == node.metadata.labels.get("zone")
        assert table.taint_sets.values[table.taint_set[row]] == node.spec.taints
        for place, resource in list(enumerate(table.resources.values))[3:]:
            amount = node.status.allocatable.get(resource, 0)
            assert table.allocatable[place, row] == int(amount)
    free = np.setdiff1d(np.arange(table.capacity), list(table.row_of.values()))
    assert not table.allocatable[:, free].any()
    assert (zone.ids[free] == -1).all()


# -- the change log --------------------------------------------------------------------


def test_a_reader_gets_the_distinct_rows_since_its_position() -> None:
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


def test_a_reader_that_is_too_far_behind_gets_no_changes() -> None:
    log = ChangeLog()
    start = log.position
    for row in range(200_000):
        log.append(row % 7)
    assert log.since(start) is None
    recent = log.since(log.position - 1000)
    assert recent is not None
    assert recent.tolist() == list(range(7))


def test_the_number_of_an_interned_value_is_constant() -> None:
    interner: Interner[str] = Interner()
    assert [interner.intern(value) for value in "abab"] == [0, 1, 0, 1]
    assert (interner.find("b"), interner.find("z"), len(interner)) == (1, -1, 2)


def test_resources_that_no_node_has_take_no_columns() -> None:
    table = NodeTable()
    for number in range(20):
        table.add_row(f"n{number}")
    before = table.requested.nbytes
    for number in range(2_000):
        odd = Resources(scalar={f"example.com/{number}": 5, "example.com/shared": 7})
        table.write_usage(number % 20, odd, 0, 0, 1)
    assert len(table.resources) == 3
    assert table.requested.nbytes == before
    assert table.columnless_requests("example.com/shared").tolist()[:20] == [7] * 20
    for number in range(20):
        table.write_usage(number, Resources(), 0, 0, 0)
    assert not table.columnless_requests("example.com/shared").any()


def test_requests_of_a_resource_count_once_a_node_has_it() -> None:
    table = NodeTable()
    for name in ("a", "b", "c"):
        table.add_row(name)
    table.write_usage(0, Resources(scalar={"x.com/gpu": 3, "x.com/other": 1}), 0, 0, 1)
    position = table.changes.position
    table.write_node(1, make_node("b"), Resources(scalar={"x.com/gpu": 8}), 110)
    place = table.resource_column("x.com/gpu")
    assert table.allocatable[place, :3].tolist() == [0, 8, 0]
    assert table.requested[place, :3].tolist() == [3, 0, 0]
    changed = table.changes.since(position)
    assert changed is not None
    assert changed.tolist() == [0]
    assert table.resource_column("x.com/other") == -1
    table.write_usage(0, Resources(scalar={"x.com/gpu": 1}), 0, 0, 1)
    assert table.requested[place, :3].tolist() == [1, 0, 0]
    table.write_usage(0, Resources(), 0, 0, 0)
    assert not table.requested[place].any()
    table.remove_row("b")
    table.write_usage(2, Resources(scalar={"x.com/gpu": 2}), 0, 0, 1)
    assert table.requested[place, 2] == 2
