"""Arbitrary objects of every kind that the scheduler watches: other pods are still placed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.effort import effort
from tests.fuzz.service import KINDS
from tests.hostile_values import documents
from tests.scheduler.hostile_object_harness import HostileObjectHarness, run_steps
from tests.scheduler.test_object_budgets import BASES, NEEDS, furnish, gates_of, show

IDENTITY = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")
HOST = "kubernetes.io/hostname"


def odd(kind: str) -> st.SearchStrategy[Any]:
    """Make an object with some extreme fields, based on a valid one of its kind."""
    kind_type = KINDS[kind].type
    assert kind_type is not None
    return documents(kind_type).map(_without_identity)


def _without_identity(document: dict[str, Any]) -> dict[str, Any]:
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        metadata = {key: metadata[key] for key in metadata if key not in IDENTITY}
    else:
        metadata = {}
    rest = {key: document[key] for key in document if key not in ("apiVersion", "kind")}
    return {**rest, "metadata": metadata}


@pytest.mark.parametrize("kind", [kind for kind in BASES if kind != "Node"])
@effort(1)
@given(data=st.data())
def test_other_pods_are_placed(kind: str, data: st.DataObject) -> None:
    async def steps(harness: HostileObjectHarness) -> None:
        await furnish(harness)
        for number in range(2):
            show(harness, kind, data.draw(odd(kind)))
            await asyncio.sleep(0.5)
            name = f"needs{number}"
            lie = {"spec": NEEDS.get(kind, {}), "metadata": {"labels": {"a": "b"}}}
            await harness.add_pod(name, lie)
            await asyncio.sleep(5)
            await harness.add_pod(f"innocent{number}", node_selector={HOST: f"n{number}"})
            await harness.until_bound(f"innocent{number}", 60)
        harness.scheduler.cache.check_invariants()
        harness.scheduler.queue.check_invariants()

    run_steps(steps, gates_of(kind))
