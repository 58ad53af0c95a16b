"""A data file that temporarily cannot be written: writes are refused, and none is lost."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path

import pytest

from kubesched.api import ConfigMap, Node, ObjectMeta, Pod
from kubesched.api.access import ApiError
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.testing import make_node, make_pod
from tests.scheduler.hostile_object_harness import fresh


def database(cluster: EmbeddedCluster) -> sqlite3.Connection:
    assert cluster._data is not None
    return cluster._data._connection


def test_a_cluster_survives_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = current_clock()
        path = tmp_path / "c.db"
        cluster = EmbeddedCluster(clock, random.Random(0), data=path)
        async with cluster, running(*cluster.parts):
            await cluster.api.create(fresh(make_node("n0", cpu="8")))
            await cluster.api.create(fresh(make_pod("p", node_name="n0", images=["i"])))
            await asyncio.sleep(1)
            size = database(cluster).execute("PRAGMA page_count").fetchone()[0]
            database(cluster).execute(f"PRAGMA max_page_count = {size}")
            kept = cluster.store.revision
            # Heartbeats, statuses and users all write, and are refused.
            await asyncio.sleep(60)
            big = ConfigMap(
                metadata=ObjectMeta(name="big", namespace="default"), data={"a": "x" * 100_000}
            )
            with pytest.raises(ApiError) as refusal:
                await cluster.api.create(big)
            assert refusal.value.code == 500
            told = cluster.store.revision
            database(cluster).execute("PRAGMA max_page_count = 1000000")
            await cluster.api.create(big)
            await asyncio.sleep(60)
            pod = await cluster.api.get(Pod, "p", "default")
            assert pod.status.phase == "Running"
            assert (await cluster.api.get(Node, "n0")).metadata.name == "n0"
            assert told >= kept
        again = EmbeddedCluster(clock, random.Random(0), data=path)
        async with again:
            assert again.store.revision == cluster.store.revision
            assert (await again.api.get(ConfigMap, "big", "default")).data == big.data

    virtual_loop.run(main, seed=0)
    told = [each.getMessage() for each in caplog.records]
    assert sum("Changes cannot be written" in each for each in told) <= 3
