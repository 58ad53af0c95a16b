"""The change log, compared with a plain list for any sequence of reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.framework.engine import ChangeLog, node_table

KEEP = 4
ROWS = 6


@given(
    st.lists(st.one_of(st.integers(0, ROWS - 1), st.none()), max_size=60),
    st.sampled_from([1, 64]),
)
def test_a_reader_that_catches_up_gets_every_change(steps: list[int | None], few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_table, "_CHANGES_KEPT", KEEP)
        patch.setattr(node_table, "_FEW_CHANGES", few)
        log, everything = ChangeLog(ROWS), list[int]()
        held = []
        for step in steps:
            if step is not None:
                log.append(step)
                everything.append(step)
            assert log.position == len(everything)
            for position in range(-1, len(everything) + 1):
                recent, since = log.recent(position), log.since(position)
                if recent is None:
                    assert since is None
                    # At least this many entries are stored.
                    assert len(everything) - position > KEEP or position < 0
                    continue
                assert since is not None
                assert recent.tolist() == everything[position:]
                assert since.tolist() == sorted(set(everything[position:]))
                held.append((recent, everything[position:]))
        # Readers may hold on to the arrays that they got.
        assert all(recent.tolist() == rows for recent, rows in held)


def test_a_position_before_the_first_is_too_old() -> None:
    log = ChangeLog(ROWS)
    assert log.recent(-1) is None
    assert log.since(-1) is None
    assert log.recent(0) is not None


def test_new_rows_can_be_logged_after_growing() -> None:
    log = ChangeLog(2)
    log.append(1)
    log.grow(5)
    log.append(4)
    since = log.since(0)
    assert since is not None
    assert since.tolist() == [1, 4]
