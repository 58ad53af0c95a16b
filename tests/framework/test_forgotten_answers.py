"""Evicted index entries are freed at once, without the garbage collector."""

from __future__ import annotations

import gc

import pytest

from kubesched.api.labels import Requirement, Selector
from kubesched.framework import pod_index
from kubesched.framework.engine import NodeTable
from kubesched.framework.engine.domain_counts import DomainCounts
from kubesched.framework.pod_index import PodIndex
from kubesched.framework.pod_query import PodQuery


def test_an_evicted_result_is_freed_with_its_last_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_index, "_ANSWERS_KEPT", 3)
    table = NodeTable()
    table.add_row("n")
    index = PodIndex(table)
    gc.disable()
    try:
        for number in range(10):
            selector = Selector([Requirement.checked("app", "=", (str(number),))])
            counts = index.count(PodQuery([(frozenset({"default"}), selector)]))
            assert counts.by_domain(index.domains("zone")).total == 0
            del counts
        there = [each for each in gc.get_objects() if isinstance(each, DomainCounts)]
        assert sum(each.domains.table is table for each in there) == 3
    finally:
        gc.enable()
