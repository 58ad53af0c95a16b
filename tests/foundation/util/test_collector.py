from __future__ import annotations

import gc
import weakref

import pytest

from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.collector import settle_collector


@pytest.fixture
def settled() -> None:
    settle_collector()


class Link:
    """Something that may be part of a cycle."""

    def __init__(self) -> None:
        self.other: object = None


@pytest.mark.usefixtures("settled")
def test_frozen_objects_are_not_traversed_again() -> None:
    assert gc.get_freeze_count() > 0
    assert len(gc.get_objects()) < gc.get_freeze_count()


def test_frozen_objects_are_freed_with_their_last_reference(request: pytest.FixtureRequest) -> None:
    alone = Link()
    gone = weakref.ref(alone)
    request.getfixturevalue("settled")
    del alone
    assert gone() is None


@pytest.mark.usefixtures("settled")
def test_cycles_that_come_later_are_collected() -> None:
    one, two = Link(), Link()
    one.other, two.other = two, one
    gone = weakref.ref(one)
    del one, two
    gc.collect()
    assert gone() is None


def test_cycles_from_before_are_collected_first(request: pytest.FixtureRequest) -> None:
    one = Link()
    one.other = one
    gone = weakref.ref(one)
    del one
    request.getfixturevalue("settled")
    assert gone() is None


@pytest.mark.usefixtures("settled")
def test_objects_that_survive_a_long_collection_are_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [[number] for number in range(100)]
    before = gc.get_freeze_count()
    gc.collect()
    monkeypatch.setattr("kubesched.foundation.util.collector._LONG_NS", -1)
    gc.collect(1)  # not of the oldest generation
    assert gc.get_freeze_count() <= before
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)


@pytest.mark.usefixtures("settled")
def test_cycles_that_were_set_aside_in_use_are_found_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kubesched.foundation.util.collector._LONG_NS", -1)
    monkeypatch.setattr("kubesched.foundation.util.collector._GROWN_SHARE", 0.0)
    monkeypatch.setattr("kubesched.foundation.util.collector._GROWN", 1_000)
    gone = []
    for _ in range(50):  # each time some are in use, are set aside, and go
        links = [Link() for _ in range(100)]
        for link in links:
            link.other = link
        gone += map(weakref.ref, links)
        gc.collect()
        del links, link
    assert sum(each() is not None for each in gone) < 2_500


@pytest.mark.usefixtures("settled")
def test_settling_the_collector_again_only_changes_frozen_objects() -> None:
    callbacks = list(gc.callbacks)
    kept = [[number] for number in range(100)]
    before = gc.get_freeze_count()
    settle_collector()
    assert gc.callbacks == callbacks
    assert gc.get_freeze_count() >= before + len(kept)


@pytest.mark.usefixtures("settled")
def test_a_run_frees_frozen_objects_of_the_previous_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> Link:
        one, two = Link(), Link()
        one.other, two.other = two, one
        return one

    cluster = virtual_loop.run(run)
    with monkeypatch.context() as patched:
        patched.setattr("kubesched.foundation.util.collector._LONG_NS", -1)
        gc.collect()
    gone = weakref.ref(cluster)
    del cluster
    gc.collect()
    assert gone() is not None, "it was not set aside"
    virtual_loop.run(run)
    assert gone() is None
    assert gc.get_freeze_count() > 0


def test_a_run_in_virtual_time_collects_old_containers_rarely() -> None:
    before = gc.get_threshold()

    async def thresholds() -> tuple[int, int, int]:
        return gc.get_threshold()

    within = virtual_loop.run(thresholds())
    assert within[:2] == before[:2]
    assert within[2] >= 50 > 0
    assert gc.get_threshold() == before
