from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kubesched.framework.engine import TotalIndex

CAPACITY = 12
rows = st.integers(0, CAPACITY - 1)
totals = st.integers(-3, 3)  # weights may be negative
changes = st.lists(st.tuples(rows, st.one_of(st.none(), totals)), max_size=60)


@given(start=st.dictionaries(rows, totals), steps=changes)
def test_the_best_rows_are_those_of_a_plain_search(
    start: dict[int, int], steps: list[tuple[int, int | None]]
) -> None:
    known = dict(start)
    index = TotalIndex(
        CAPACITY,
        np.array(sorted(known), dtype=np.intp),
        np.array([known[row] for row in sorted(known)], dtype=np.int64),
    )
    for row, total in steps:
        if total is None:
            index.discard(row)
            known.pop(row, None)
        else:
            index.put(row, total)
            known[row] = total
        assert len(index) == len(known)
        assert (row in index) == (row in known)
        if known:
            best = sorted(r for r, t in known.items() if t == max(known.values()))
            assert index.best_rows() == best
            assert index.choose(random.Random(1)) in best


def test_every_best_row_can_be_chosen() -> None:
    index = TotalIndex(4, np.arange(4), np.array([7, 1, 7, 7]))
    rng = random.Random(0)
    assert {index.choose(rng) for _ in range(64)} == {0, 2, 3}


@given(
    known=st.dictionaries(rows, totals, min_size=1),
    accepted=st.sets(rows),
    tries=st.integers(0, 2 * CAPACITY),
    seed=st.integers(0, 99),
)
def test_the_search_for_the_best_accepted_row_is_limited(
    known: dict[int, int], accepted: set[int], tries: int, seed: int
) -> None:
    index = TotalIndex(
        CAPACITY,
        np.array(sorted(known), dtype=np.intp),
        np.array([known[row] for row in sorted(known)], dtype=np.int64),
    )
    asked: list[int] = []

    def accepts(row: int) -> bool:
        asked.append(row)
        return row in accepted

    row = index.choose_accepted(random.Random(seed), accepts, tries)
    assert len(asked) <= tries
    fitting = {row: total for row, total in known.items() if row in accepted}
    if row is not None:
        assert fitting[row] == max(fitting.values())
    elif tries >= len(known):
        assert not fitting


def test_every_accepted_best_row_can_be_chosen_however_many_there_are() -> None:
    index = TotalIndex(100, np.arange(100), np.full(100, 7))
    rng = random.Random(0)
    found = {index.choose_accepted(rng, lambda row: row % 25 == 3, 99) for _ in range(300)}
    assert found - {None} == {3, 28, 53, 78}


@given(known=st.dictionaries(rows, totals), count=st.integers(1, CAPACITY + 1))
def test_the_top_rows_are_those_with_the_highest_totals(known: dict[int, int], count: int) -> None:
    index = TotalIndex(
        CAPACITY,
        np.array(sorted(known), dtype=np.intp),
        np.array([known[row] for row in sorted(known)], dtype=np.int64),
    )
    top = index.top(count)
    assert [total for _, total in top] == sorted(known.values(), reverse=True)[:count]
    assert all(known[row] == total for row, total in top)
    assert len({row for row, _ in top}) == len(top)
