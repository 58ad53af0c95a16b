from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kubesched.foundation.util.heap import KeyedHeap


class Job(NamedTuple):
    name: str
    rank: int
    note: str = ""


def make_heap(*jobs: Job) -> KeyedHeap[str, Job]:
    heap: KeyedHeap[str, Job] = KeyedHeap(key=lambda job: job.name, sort_key=lambda job: job.rank)
    for job in jobs:
        heap.add(job)
    return heap


def drain(heap: KeyedHeap[str, Job]) -> list[str]:
    return [heap.pop().name for _ in range(len(heap))]


def test_the_smallest_sort_key_comes_first() -> None:
    assert drain(make_heap(Job("a", 3), Job("b", 1), Job("c", 2))) == ["b", "c", "a"]


def test_equal_sort_keys_are_popped_in_the_order_of_insertion() -> None:
    jobs = [Job(f"{number}", 1) for number in range(100)]
    assert drain(make_heap(*jobs)) == [job.name for job in jobs]


def test_replacing_with_the_same_sort_key_retains_the_position() -> None:
    heap = make_heap(Job("a", 1), Job("b", 1))
    assert heap.add(Job("a", 1, "changed")) is False
    assert heap.peek() == Job("a", 1, "changed")
    assert drain(heap) == ["a", "b"]


def test_replacing_with_another_sort_key_counts_as_newly_come() -> None:
    heap = make_heap(Job("a", 1), Job("b", 2), Job("c", 3))
    heap.update(Job("a", 2))
    assert drain(heap) == ["b", "a", "c"]


def test_update_of_an_unknown_key_raises_key_error() -> None:
    with pytest.raises(KeyError):
        make_heap().update(Job("a", 1))


def test_members_are_found_and_removed_by_key() -> None:
    heap = make_heap(Job("a", 1), Job("b", 2))
    assert "a" in heap
    assert heap.get("a") == Job("a", 1)
    assert heap.delete("a") == Job("a", 1)
    assert heap.delete("a") is None
    assert heap.get("a") is None
    assert "a" not in heap
    assert heap.peek() == Job("b", 2)
    assert len(heap) == 1


def test_a_member_may_come_back_after_removal() -> None:
    heap = make_heap(Job("a", 1), Job("b", 1))
    heap.delete("a")
    assert heap.add(Job("a", 1)) is True
    assert drain(heap) == ["b", "a"]


def test_an_empty_heap_has_no_first_member() -> None:
    assert make_heap().peek() is None
    with pytest.raises(IndexError):
        make_heap().pop()


def test_iteration_shows_each_member_once_and_in_order_sorts_them() -> None:
    heap = make_heap(Job("a", 3), Job("b", 1), Job("c", 1))
    heap.update(Job("a", 0))
    assert [job.name for job in heap] == ["a", "b", "c"]
    assert [job.name for job in heap.in_order()] == ["a", "b", "c"]
    assert len(heap) == 3


def test_removed_members_do_not_pile_up() -> None:
    heap = make_heap()
    for number in range(10_000):
        heap.add(Job("a", number))
        heap.add(Job(f"{number}", number))
        heap.delete(f"{number}")
    assert len(heap._heap) < 200
    heap.check_invariants()


def test_clear_removes_all_members() -> None:
    heap = make_heap(Job("a", 1))
    heap.clear()
    assert (len(heap), heap.peek(), list(heap)) == (0, None, [])


class SortedListComparison(RuleBasedStateMachine):
    """The heap compared with a list that is sorted again each time."""

    def __init__(self) -> None:
        super().__init__()
        self.heap = make_heap()
        self.model: dict[str, tuple[int, int, Job]] = {}
        self.clock = 0

    @rule(name=st.sampled_from("abcdefgh"), rank=st.integers(0, 4), note=st.sampled_from("xyz"))
    def add(self, name: str, rank: int, note: str) -> None:
        self.clock += 1
        present = self.model.get(name)
        arrived = present[1] if present is not None and present[0] == rank else self.clock
        self.model[name] = (rank, arrived, Job(name, rank, note))
        assert self.heap.add(Job(name, rank, note)) == (present is None)

    @rule(name=st.sampled_from("abcdefgh"))
    def delete(self, name: str) -> None:
        expected = self.model.pop(name, None)
        assert self.heap.delete(name) == (None if expected is None else expected[2])

    @rule()
    def pop(self) -> None:
        if self.model:
            first = min(self.model.values())[2]
            del self.model[first.name]
            assert self.heap.pop() == first

    @invariant()
    def agrees(self) -> None:
        ordered = [job for _, _, job in sorted(self.model.values())]
        assert self.heap.in_order() == ordered
        assert self.heap.peek() == (ordered[0] if ordered else None)
        assert len(self.heap) == len(self.model)
        assert {job.name: job for job in self.heap} == {job.name: job for job in ordered}
        self.heap.check_invariants()


TestSortedListComparison = SortedListComparison.TestCase
TestSortedListComparison.settings = settings(max_examples=50, stateful_step_count=40)


@given(st.lists(st.integers(0, 9), max_size=300))
def test_popping_sorts_stably(ranks: list[int]) -> None:
    jobs = [Job(f"{number}", rank) for number, rank in enumerate(ranks)]
    heap = make_heap(*jobs)
    assert [heap.pop() for _ in jobs] == sorted(jobs, key=lambda job: job.rank)
