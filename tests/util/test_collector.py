from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from kubesched.util.collector import settle_collector


@pytest.fixture
def settled() -> Iterator[None]:
    before = gc.get_threshold()
    settle_collector()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


class Link:
    """Something that may be part of a cycle."""

    def __init__(self) -> None:
        self.other: object = None


@pytest.mark.usefixtures("settled")
def test_what_was_there_is_not_looked_at_again() -> None:
    assert gc.get_freeze_count() > 0
    assert len(gc.get_objects()) < gc.get_freeze_count()


def test_what_was_there_is_freed_with_its_last_reference(request: pytest.FixtureRequest) -> None:
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
