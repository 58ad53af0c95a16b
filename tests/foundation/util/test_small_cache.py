"""The cache whose keys are compared by identity, and with the latest keys by equality."""

from __future__ import annotations

from kubesched.foundation.util.small_cache import SmallCache


class Uncomparable:
    """A key that must not be compared."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")


def test_a_key_is_found_by_identity_without_a_comparison() -> None:
    cache: SmallCache[object, str] = SmallCache()
    key = Uncomparable()
    cache.store(key, "one")
    assert cache.get(key) == "one"


def test_an_equal_key_is_found_among_the_latest_four() -> None:
    cache: SmallCache[list[int], int] = SmallCache()
    for number in range(5):
        cache.store([number], number)
    assert [cache.get([number]) for number in range(5)] == [None, 1, 2, 3, 4]


def test_a_used_key_moves_to_the_most_recent_ones() -> None:
    cache: SmallCache[list[int], int] = SmallCache()
    for number in range(4):
        cache.store([number], number)
    assert cache.get([0]) == 0
    cache.store([4], 4)
    assert cache.get([0]) == 0
    assert cache.get([1]) is None


def test_a_value_is_replaced_for_equal_keys_too() -> None:
    cache: SmallCache[list[int], str] = SmallCache()
    cache.store([1], "old")
    cache.store([1], "new")
    assert cache.get([1]) == "new"


class Counted:
    """A key that counts the comparisons of its kind."""

    comparisons = 0
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return self is other


def test_keys_without_repetition_are_rarely_compared() -> None:
    cache: SmallCache[Counted, int] = SmallCache()
    Counted.comparisons = 0
    for number in range(1616):
        key = Counted()
        assert cache.get(key) is None
        cache.store(key, number)
    # At first 16 keys, then one in 16, each with at most four.
    assert Counted.comparisons <= 4 * (17 + 100)


def test_equal_keys_are_found_again_after_many_misses() -> None:
    cache: SmallCache[list[int], int] = SmallCache()
    for number in range(100):
        cache.get([number])
        cache.store([number], number)
    found = [cache.get([99]) for _ in range(32)]
    assert set(found[16:]) == {99}


def test_a_key_stays_alive_so_that_no_other_object_gets_its_id() -> None:
    cache: SmallCache[object, int] = SmallCache()
    for number in range(50):
        cache.store(object(), number)  # a freed object would leave its address to the next
    assert len(cache) == 50


def test_memory_is_bounded_and_the_latest_entry_is_found() -> None:
    cache: SmallCache[object, int] = SmallCache()
    for number in range(2000):
        key = object()
        cache.store(key, number)
        assert cache.get(key) == number
        assert len(cache) <= 512
