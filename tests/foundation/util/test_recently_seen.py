"""What is known of objects that came lately."""

from __future__ import annotations

from kubesched.foundation.util.recently_seen import RecentlySeen


def test_objects_are_told_apart_by_identity() -> None:
    seen: RecentlySeen[list[int], str] = RecentlySeen()
    one, equal = [1], [1]
    seen.keep(one, "one")
    assert seen.get(one) == "one"
    assert seen.get(equal) is None


def test_a_key_stays_alive_so_that_no_other_is_taken_for_it() -> None:
    seen: RecentlySeen[object, int] = RecentlySeen()
    for number in range(50):
        seen.keep(object(), number)  # a freed one would leave its address to the next
    assert len(seen) == 50


def test_memory_is_bounded_and_the_latest_is_there() -> None:
    seen: RecentlySeen[object, int] = RecentlySeen()
    for number in range(1000):
        key = object()
        seen.keep(key, number)
        assert seen.get(key) == number
        assert len(seen) <= 64
