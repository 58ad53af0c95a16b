"""Host ports and images, stored by port and by image."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.host_ports import HostPort
from kubesched.framework.engine import NodeTable
from kubesched.framework.engine.sparse_columns import ImageRows, PortRows


class Image(NamedTuple):
    size_bytes: int
    node_count: int


PORTS = [
    HostPort(ip, protocol, port)
    for ip in ("0.0.0.0", "10.0.0.1")
    for protocol in ("TCP", "UDP")
    for port in (80, 81)
]
row_numbers = st.integers(0, 9)
images = st.dictionaries(
    st.sampled_from("abc"), st.builds(Image, st.integers(0, 9), st.integers(1, 3))
)


@given(st.lists(st.tuples(row_numbers, st.frozensets(st.sampled_from(PORTS)))))
def test_ports_equal_the_last_writes(writes: list[tuple[int, frozenset[HostPort]]]) -> None:
    ports, now = PortRows(), dict[int, frozenset[HostPort]]()
    for row, used in writes:
        ports.write(row, used)
        now[row] = used
    for each in PORTS:
        holders = ports.holders(each.protocol, each.port).get(each.ip)
        rows = [] if holders is None else holders.rows.tolist()
        assert sorted(rows) == sorted(row for row, used in now.items() if each in used)
    in_use = {(port.protocol, port.port) for used in now.values() for port in used}
    assert ports._by_port.keys() == in_use  # unused ports have no entry


@given(st.lists(st.tuples(row_numbers, images, st.sampled_from(["", "a", "ab", "abc"]))))
def test_images_equal_the_last_writes(writes: list[tuple[int, dict[str, Image], str]]) -> None:
    columns, now = ImageRows(), dict[int, dict[str, Image]]()
    for row, held, read in [*writes, (0, {}, "abc")]:  # rows are written when they are read
        columns.write(row, held)
        now[row] = held
        for name in read:
            want = sorted((each, *held[name]) for each, held in now.items() if name in held)
            holders = columns.holders(name)
            got = [] if holders is None else list(zip(*(a.tolist() for a in holders), strict=True))
            assert sorted(got) == want


def test_a_removed_row_leaves_no_state_behind() -> None:
    table = NodeTable()
    row = table.add_row("n")
    table.write_ports(row, {PORTS[0]})
    table.write_images(row, {"a": Image(1, 1)})
    table.remove_row("n")
    assert table.add_row("m") == row
    assert not table.ports.holders("TCP", 80)
    assert table.images.holders("a") is None
