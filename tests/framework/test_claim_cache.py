"""Watched claims, and the scheduler's own writes that the watch has not delivered yet."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubesched.api import AllocationResult, ObjectMeta, ResourceClaim, ResourceClaimStatus
from kubesched.errors import CacheError
from kubesched.framework import ClaimCache

Heard = list[tuple[str | None, str | None]]


def claim(version: str, *, uid: str = "u", allocated: bool = False) -> ResourceClaim:
    return ResourceClaim(
        metadata=ObjectMeta(name="c", namespace="ns", uid=uid, resource_version=version),
        status=ResourceClaimStatus(allocation=AllocationResult() if allocated else None),
    )


def cache_with(*watched: ResourceClaim) -> tuple[ClaimCache, Heard]:
    cache, heard = ClaimCache(), Heard()
    before: ResourceClaim | None = None
    for each in watched:
        cache.watched(before, each)
        before = each
    cache.follow(lambda old, new: heard.append((_version(old), _version(new))))
    return cache, heard


def _version(of: ResourceClaim | None) -> str | None:
    return None if of is None else of.metadata.resource_version


def test_a_follower_gets_the_existing_entries() -> None:
    assert cache_with(claim("1"))[1] == [(None, "1")]


def test_a_write_is_visible_at_once_and_its_watch_event_is_ignored() -> None:
    cache, heard = cache_with(claim("1"))
    written = claim("2", allocated=True)
    cache.assume(written)
    cache.watched(claim("1"), claim("2", allocated=True))
    assert cache.get("c", "ns") is written
    assert heard[1:] == [("1", "2")]


def test_an_older_state_does_not_undo_a_write() -> None:
    cache, heard = cache_with(claim("1"))
    cache.assume(claim("3", allocated=True))
    cache.watched(claim("1"), claim("2"))
    assert _version(cache.get("c", "ns")) == "3"
    cache.watched(claim("2"), claim("4"))
    assert heard[1:] == [("1", "3"), ("3", "4")]


def test_a_write_older_than_the_cached_version_is_refused() -> None:
    cache, _ = cache_with(claim("5"))
    with pytest.raises(CacheError):
        cache.assume(claim("4"))


def test_an_unknown_claim_cannot_be_assumed() -> None:
    with pytest.raises(CacheError, match='could not find ResourceClaim "ns/c"'):
        ClaimCache().assume(claim("1"))


def test_assumed_claims_can_be_restored() -> None:
    cache, heard = cache_with(claim("1"))
    cache.assume(claim("2", allocated=True))
    cache.restore("c", "ns")
    cache.restore("c", "ns")
    assert _version(cache.get("c", "ns")) == "1"
    assert heard[1:] == [("1", "2"), ("2", "1")]


def test_a_deletion_ends_with_the_latest_state() -> None:
    cache, heard = cache_with(claim("1"))
    cache.assume(claim("2"))
    cache.watched(claim("1"), None)
    cache.watched(claim("1"), None)
    assert cache.get("c", "ns") is None
    assert list(cache.list()) == []
    assert heard[1:] == [("1", "2"), ("2", None)]


def test_a_recreated_claim_notifies_listeners_whatever_its_version() -> None:
    cache, heard = cache_with(claim("9"))
    cache.watched(claim("9"), claim("3", uid="other"))
    assert heard[1:] == [("9", "3")]


def test_objects_without_versions_are_applied_in_order_of_arrival() -> None:
    cache, heard = cache_with(claim(""))
    changed = replace(claim(""), status=claim("", allocated=True).status)
    cache.watched(claim(""), changed)
    assert cache.get("c", "ns") is changed
    assert len(heard) == 2
