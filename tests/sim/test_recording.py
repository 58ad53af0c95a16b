"""A trace of a live cluster can be simulated."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.randomness import derive
from kubesched.sim.recording import record
from kubesched.sim.traces import read_trace
from kubesched.testing import make_pod, make_priority_class


def test_recorded_pods_and_ends_are_read_back(tmp_path: Path) -> None:
    written: list[bytes] = []

    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
        classed = make_priority_class("high", 7)
        await api.create(_new(classed))
        await api.create(_pod("early"))
        recording = asyncio.create_task(record(api, clock, written.append, None))
        await clock.sleep(10 * SECOND)
        created = await api.create(_pod("late", "high"))
        await clock.sleep(5 * SECOND)
        started = {"phase": "Running", "startTime": "2026-01-01T00:00:15Z"}
        await api.patch(Pod, "late", "default", {"status": started}, subresource="status")
        await clock.sleep(20 * SECOND)
        await api.delete(Pod, "late", "default", uid=created.metadata.uid, grace_period_seconds=0)
        await clock.sleep(SECOND)
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)

    virtual_loop.run(main)
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(written))
    early, late = read_trace(path)
    assert (early.time_ns, early.duration_ns) == (0, None)
    assert (late.time_ns, late.duration_ns) == (10 * SECOND, 20 * SECOND)
    assert late.pod.spec.priority == 7
    assert late.pod.spec.containers[0].resources.requests == {"cpu": "250m"}
    assert b"secret" not in path.read_bytes()


def _pod(name: str, priority_class: str = "") -> Any:
    pod = make_pod(name, images=["i"], requests={"cpu": "250m"}, annotations={"token": "secret"})
    spec = msgspec.structs.replace(pod.spec, priority_class_name=priority_class)
    return _new(msgspec.structs.replace(pod, spec=spec))


def _new(each: Any) -> Any:
    metadata = msgspec.structs.replace(each.metadata, uid="", resource_version="")
    return msgspec.structs.replace(each, metadata=metadata)
