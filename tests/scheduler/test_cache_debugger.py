"""The state of a scheduler, as SIGUSR2 shows it."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from kubesched.api import Node, Pod
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.logging import set_verbosity
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.cache_debugger import compare, describe_node, describe_pods, log_state
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod


async def create(api: LocalApi, made: Node | Pod) -> None:
    metadata = msgspec.structs.replace(made.metadata, resource_version="", uid="")
    await api.create(msgspec.structs.replace(made, metadata=metadata))


def test_cache_differences_from_the_server_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    set_verbosity(0)

    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0)), clock)
        scheduler = Scheduler(api, clock)
        await create(api, make_node("n", cpu="2", memory="4Gi"))
        await create(api, make_pod("small", requests={"cpu": "100m"}, images=["i"]))
        await create(api, make_pod("big", requests={"cpu": "8"}, images=["i"]))
        async with running(scheduler):
            await asyncio.sleep(1)
            assert compare(scheduler) == (([], []), ([], []))
            small = await api.get(Pod, "small", "default")
            (info,) = scheduler.cache.nodes.values()
            assert describe_node(scheduler, info).splitlines() == [
                "Node name: n",
                "Deleted: false",
                "Requested Resources: {MilliCPU:100 Memory:0 EphemeralStorage:0 "
                "AllowedPodNumber:0 ScalarResources:map[]}",
                "Allocatable Resources: {MilliCPU:2000 Memory:4294967296 EphemeralStorage:0 "
                "AllowedPodNumber:110 ScalarResources:map[]}",
                "Scheduled Pods(number: 1):",
                f"name: small, namespace: default, uid: {small.metadata.uid}, phase: Pending, "
                "nominated node: ",
            ]
            log_state(scheduler)
            assert "Cache mismatch" not in caplog.text
            assert "activeQ:0; backoffQ:0; unschedulablePods:1" in caplog.text
            scheduler.cache.remove_pod(small)
            _, pods = compare(scheduler)
            assert pods == ([small.metadata.uid], [])
            log_state(scheduler)
            assert "Cache mismatch missedPods" in caplog.text
            scheduler.cache.add_pod(small)

    with caplog.at_level("INFO", logger="kubesched"):
        run(main)


def test_no_pods_are_no_text() -> None:
    assert describe_pods([]) == ""
