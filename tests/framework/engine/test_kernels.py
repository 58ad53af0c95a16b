"""Arithmetic on columns."""

from __future__ import annotations

import math
import operator
import sys
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kubesched.foundation.util.ints import div_trunc, round_half_away
from kubesched.framework.engine import kernels

amounts = st.integers(0, 2**50)


def ints(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


divisors = st.one_of(st.integers(-(2**40), -1), st.integers(1, 2**40))


@given(st.lists(st.tuples(st.integers(-(2**60), 2**60), divisors), min_size=1))
def test_division_is_toward_zero(pairs: list[tuple[int, int]]) -> None:
    numerators, divisors = ([pair[i] for pair in pairs] for i in (0, 1))
    got = kernels.divide_toward_zero(ints(numerators), ints(divisors))
    assert got.tolist() == [div_trunc(n, d) for n, d in pairs]


@given(st.lists(st.tuples(amounts, amounts), min_size=1))
def test_shares(pairs: list[tuple[int, int]]) -> None:
    allocatable, requested = (ints([pair[i] for pair in pairs]) for i in (0, 1))
    divisor = np.where(allocatable == 0, 1, allocatable)
    free = [(a - r) * 100 // a if a and r <= a else 0 for a, r in pairs]
    used = [min(a, r) * 100 // a if a else 0 for a, r in pairs]
    assert kernels.free_percent(allocatable - requested, divisor).tolist() == free
    assert kernels.used_percent(allocatable, requested, divisor).tolist() == used


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.booleans()), min_size=1))
def test_means(entries: list[tuple[int, int, bool]]) -> None:
    first, second = (ints([entry[i] for entry in entries]) for i in (0, 1))
    counted = np.array([entry[2] for entry in entries])
    second *= counted
    total, weights = kernels.weighted_sums([first, second], [3, 4], [None, counted])
    sums = [(3 * a + 4 * b, 3 + 4 * c) if c else (3 * a, 3) for a, b, c in entries]
    assert kernels.mean_rounded(total, weights).tolist() == [
        round_half_away(n / d) for n, d in sums
    ]
    assert kernels.mean_toward_zero(total, weights).tolist() == [n // d for n, d in sums]


def test_the_mean_of_no_values_is_zero() -> None:
    nothing = np.zeros(2, dtype=bool)
    total, weights = kernels.weighted_sums([ints([0, 0])], [5], [nothing])
    assert kernels.mean_rounded(total, weights).tolist() == [0, 0]
    assert kernels.mean_toward_zero(total, weights).tolist() == [0, 0]


def balance_of(fractions: list[float]) -> int:
    count = len(fractions)
    deviation = 0.0
    if count == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif count > 2:
        mean = 0.0
        for each in fractions:
            mean += each
        mean /= count
        squares = 0.0
        for each in fractions:
            squares += (each - mean) * (each - mean)
        deviation = math.sqrt(squares / count)
    return int((1 - deviation) * 100.0)


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(
            st.lists(st.none() | st.floats(0, 1), min_size=n, max_size=n), min_size=1, max_size=5
        )
    )
)
def test_balance(table: list[list[float | None]]) -> None:
    columns = list(zip(*table, strict=True))
    fractions = [np.array([0.5 if x is None else x for x in column]) for column in columns]
    counted = [
        None if None not in column else np.array([x is not None for x in column])
        for column in columns
    ]
    want = [balance_of([x for x in row if x is not None]) for row in table]
    assert kernels.balance(fractions, counted).tolist() == want
    stacked = [np.stack([each, each]) for each in fractions]
    assert kernels.balance(stacked, counted).tolist() == [want, want]


any_amounts = st.one_of(st.just(0), st.integers(0, 2**40), st.integers(-(2**63), 2**63 - 1))


@st.composite
def amounts(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
    """Draw the allocatable, allocated and requested amounts."""
    resources, nodes = draw(st.integers(1, 4)), draw(st.integers(0, 6))
    column = st.lists(any_amounts, min_size=nodes, max_size=nodes)
    matrix = st.lists(column, min_size=resources, max_size=resources)
    wanted = st.lists(st.integers(0, 2**40), min_size=resources, max_size=resources)
    shape = (resources, nodes)
    allocatable, allocated = (
        np.array(draw(matrix), dtype=np.int64).reshape(shape) for _ in range(2)
    )
    return allocatable, allocated, draw(wanted)


@pytest.mark.skipif(kernels.compiled is None, reason="installed without a compiler")
@given(amounts(), st.lists(st.integers(1, 100), min_size=4, max_size=4))
def test_compiled_loops_equal_columns(
    question: tuple[NDArray[np.int64], NDArray[np.int64], list[int]], weights: list[int]
) -> None:
    allocatable, allocated, wanted = question
    weights = weights[: len(wanted)]

    def results() -> list[Any]:
        with np.errstate(over="ignore", invalid="ignore"):
            return [
                kernels.is_lacking(allocatable, allocated, wanted),
                kernels.least_allocated(allocatable, allocated, wanted, weights).tolist(),
                kernels.balance_change(allocatable, allocated, wanted).tolist(),
            ]

    fast = results()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compiled", None)
        assert fast == results()


@pytest.fixture(params=["compiled", "columns"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the compiled loops, and with NumPy alone."""
    if request.param == "columns":
        monkeypatch.setattr(kernels, "compiled", None)
    elif kernels.compiled is None:
        pytest.skip("installed without a compiler")


both_forms = pytest.mark.usefixtures("form")
repeated = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def _share_of(left: int, there: int) -> int:
    return max(left, 0) * 100 // there


# Amounts that the vector instructions take, larger ones, and quotients next to integers.
_usual = st.one_of(st.integers(1, 2**46 - 1), st.integers(1, 300), st.integers(2**46 - 3, 2**55))


@both_forms
@repeated
@given(
    st.lists(st.tuples(_usual, _usual, _usual, _usual), min_size=1, max_size=9),
    st.tuples(_usual, _usual),
    st.tuples(st.integers(1, 32768), st.integers(1, 32768)),
)
def test_scores_of_usual_amounts_are_those_of_integers(
    nodes: list[tuple[int, int, int, int]], wanted: tuple[int, int], weights: tuple[int, int]
) -> None:
    there = np.array([[each[0] for each in nodes], [each[1] for each in nodes]], dtype=np.int64)
    taken = np.array([[each[2] for each in nodes], [each[3] for each in nodes]], dtype=np.int64)
    least, balanced = [], []
    for cpu, memory, used_cpu, used_memory in nodes:
        rows = ((cpu, used_cpu, wanted[0]), (memory, used_memory, wanted[1]))
        shares = [_share_of(all_ - used - want, all_) for all_, used, want in rows]
        least.append(sum(map(operator.mul, shares, weights)) // sum(weights))
        before, after = (
            [min((used + add * want) / all_, 1.0) for all_, used, want in rows] for add in (0, 1)
        )
        balanced.append(balance_of(after) - balance_of(before))
    assert kernels.least_allocated(there, taken, list(wanted), list(weights)).tolist() == least
    assert kernels.balance_change(there, taken, list(wanted)).tolist() == balanced


@pytest.mark.skipif(kernels.compiled is None, reason="installed without a compiler")
def test_compiled_loops_read_parts_of_a_larger_matrix() -> None:
    table = np.arange(40, dtype=np.int64).reshape(4, 10) + 100
    there, taken = table[1:3, :6], np.zeros((2, 6), dtype=np.int64)
    got = kernels.least_allocated(there, taken, [11, 30], [1, 1])
    assert got.tolist() == [
        ((100 * (a - 11) // a) + (100 * (b - 30) // b)) // 2 for a, b in there.T
    ]


@pytest.mark.skipif(kernels.compiled is None, reason="installed without a compiler")
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (np.zeros((1, 2), dtype=np.int64), np.zeros((1, 3), dtype=np.int64), [1]),
        (np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2), dtype=np.int64), [1, 2]),
        (np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2), dtype=np.int64), (1,)),
        (np.zeros((1, 2)), np.zeros((1, 2), dtype=np.int64), [1]),
        (np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64), [1]),
        (np.zeros((1, 4), dtype=np.int64)[:, ::2], np.zeros((1, 2), dtype=np.int64), [1]),
        (np.zeros((65, 1), dtype=np.int64), np.zeros((65, 1), dtype=np.int64), [1] * 65),
    ],
)
def test_compiled_loops_reject_invalid_arguments(arguments: tuple[Any, ...]) -> None:
    assert kernels.compiled is not None
    with pytest.raises((TypeError, ValueError)):
        kernels.compiled.is_lacking(*arguments)


def _odd_scores() -> list[Any]:
    frozen = np.zeros(2, dtype=np.int64)
    frozen.flags.writeable = False
    return [
        None,
        frozen,
        np.zeros(3, dtype=np.int64),
        np.zeros(4, dtype=np.int64)[::2],
        np.zeros(2),
        np.zeros(2, dtype=">i8"),
        np.zeros(17, dtype=np.uint8)[1:].view(np.int64),
    ]


@pytest.mark.skipif(kernels.compiled is None, reason="installed without a compiler")
@pytest.mark.parametrize("scores", _odd_scores())
def test_compiled_loops_reject_invalid_outputs(scores: Any) -> None:
    assert kernels.compiled is not None
    amounts = np.ones((2, 2), dtype=np.int64)
    references = sys.getrefcount(amounts)
    with pytest.raises((TypeError, ValueError)):
        kernels.compiled.least_allocated(amounts, amounts, [1, 1], [1, 1], scores)
    with pytest.raises((TypeError, ValueError)):
        kernels.compiled.balance_change(amounts, amounts, [1, 1], scores)
    assert sys.getrefcount(amounts) == references


def test_any_number_of_resources_is_compared() -> None:
    allocatable = np.full((100, 3), 10, dtype=np.int64)
    allocated = np.zeros((100, 3), dtype=np.int64)
    allocated[99, 1] = 9
    assert not kernels.is_lacking(allocatable, allocated, [1] * 100)
    assert kernels.is_lacking(allocatable, allocated, [1] * 99 + [2])
    scores = kernels.least_allocated(allocatable, allocated, [0] * 100, [1] * 100)
    assert scores.tolist() == [100, (99 * 100 + 10) // 100, 100]
    assert len(kernels.balance_change(allocatable, allocated, [1] * 100)) == 3


@given(st.lists(st.integers(0, 255)), st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]))
def test_values_are_numbered(values: list[int], dtype: type[np.unsignedinteger]) -> None:
    codes, distinct = kernels.number_values(np.array(values, dtype=dtype))
    assert [0 if not code else distinct[code - 1] for code in codes.tolist()] == values
    assert sorted(set(values) - {0}) == distinct


small_type = st.sampled_from([np.int16, np.int32, np.int64])


@both_forms
@repeated
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), small_type, st.data())
def test_any_of_the_highest_can_be_chosen(
    values: list[int], dtype: type[np.signedinteger[Any]], data: st.DataObject
) -> None:
    places = [place for place, value in enumerate(values) if value == max(values)]
    number = data.draw(st.integers(0, len(places) - 1))
    asked: list[int] = []

    def draw(count: int) -> int:
        asked.append(count)
        return number

    got = kernels.choose_highest(np.array(values, dtype=dtype), draw)
    assert got == places[number]
    assert asked == ([len(places)] if len(places) > 1 else [])  # the next number of the generator


wide = st.one_of(st.integers(-5, 5), st.integers(-(10**6), 10**6), st.integers(-(2**62), 2**62))


@both_forms
@repeated
@given(st.lists(wide, max_size=12))
def test_scores_are_scaled_to_their_spread(scores: list[int]) -> None:
    lowest, highest = min(scores, default=0), max(scores, default=0)
    spread = highest - lowest
    want = [int((score - lowest) / spread * 100.0) if spread else 0 for score in scores]
    if spread < 2**63:
        assert kernels.spread_shares(ints(scores)).tolist() == want


@both_forms
@repeated
@given(
    st.lists(st.tuples(st.integers(-(2**40), 2**40), st.integers(-2, 102)), max_size=12),
    st.integers(-(2**20), 2**20),
)
def test_weighted_scores_are_added_if_all_are_in_range(
    pairs: list[tuple[int, int]], weight: int
) -> None:
    total, scores = (ints([pair[i] for pair in pairs]) for i in (0, 1))
    is_sound = kernels.add_weighted(total, scores, weight, 100)
    assert is_sound == all(0 <= score <= 100 for _, score in pairs)
    if is_sound:
        assert total.tolist() == [before + score * weight for before, score in pairs]


@both_forms
def test_the_extremes_of_int64_are_out_of_range() -> None:
    for score in (-(2**63), 2**63 - 1):
        assert not kernels.add_weighted(ints([0]), ints([score]), 1, 100)


@pytest.mark.skipif(kernels.compiled is None, reason="installed without a compiler")
def test_scores_of_many_equal_and_different_totals_equal_columns() -> None:
    """Many blocks of the loops, and an incomplete one."""
    rng = np.random.default_rng(7)
    for resources in (1, 2, 3, 4, 5):
        distinct = rng.integers(0, 10**6, (2, resources, 3000))
        distinct[0] += 10**6
        chosen = np.concatenate([rng.integers(0, 3000, 4000), np.arange(3000), np.zeros(9, int)])
        allocatable, allocated = distinct.take(chosen, axis=2)
        wanted = [1000 * (each + 1) for each in range(resources)]
        weights = list(range(1, resources + 1))

        def results(
            there: NDArray[np.int64] = allocatable,
            taken: NDArray[np.int64] = allocated,
            wanted: list[int] = wanted,
            weights: list[int] = weights,
        ) -> list[list[int]]:
            return [
                kernels.least_allocated(there, taken, wanted, weights).tolist(),
                kernels.balance_change(there, taken, wanted).tolist(),
            ]

        fast = results()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "compiled", None)
            assert fast == results()


@pytest.mark.skipif(kernels.compiled is None, reason="installed without a compiler")
def test_compiled_loops_refuse_columns_of_other_types() -> None:
    assert kernels.compiled is not None
    numbers = np.zeros(3, dtype=np.float64)
    for call in (
        lambda: kernels.compiled.true_place(numbers, 0),
        lambda: kernels.compiled.spread_shares(numbers, ints([0, 0, 0])),
        lambda: kernels.compiled.add_weighted(ints([0, 0, 0]), numbers, 1, 100),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="an int64 per node"):
        kernels.compiled.spread_shares(ints([0, 1]), ints([0]))
    with pytest.raises(ValueError, match="an int64 per node"):
        kernels.compiled.add_weighted(ints([0]), ints([1, 2]), 1, 100)


def test_loops_of_an_older_version_are_not_used() -> None:
    older = types.ModuleType("_compiled")
    assert kernels._usable(older) is None
    older.REVISION = kernels._REVISION  # type: ignore[attr-defined]
    assert kernels._usable(older) is older
