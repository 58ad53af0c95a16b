"""The cache whose keys are compared by identity."""

from __future__ import annotations

from kubesched.foundation.util.identity_cache import IdentityCache


def test_keys_are_compared_by_identity() -> None:
    cache: IdentityCache[list[int], str] = IdentityCache()
    one, equal = [1], [1]
    cache.store(one, "one")
    assert cache.get(one) == "one"
    assert cache.get(equal) is None


def test_a_key_stays_alive_so_that_no_other_object_gets_its_id() -> None:
    cache: IdentityCache[object, int] = IdentityCache()
    for number in range(50):
        cache.store(object(), number)  # a freed object would leave its address to the next
    assert len(cache) == 50


def test_memory_is_bounded_and_the_latest_entry_is_found() -> None:
    cache: IdentityCache[object, int] = IdentityCache()
    for number in range(1000):
        key = object()
        cache.store(key, number)
        assert cache.get(key) == number
        assert len(cache) <= 64
