"""A missing claim has one message, for the first pod of a spec and for all others."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from kubesched.api import ObjectMeta, PersistentVolumeClaim, Pod
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.testing import make_node

# PreFilter of VolumeRestrictions ends the attempt before that of DynamicResources, so PostFilter of
# the latter has no state (docs/reference/04).
MESSAGE = '0/2 nodes are available: persistentvolumeclaim "data" not found. not found'


def with_claim(name: str) -> Pod:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {"containers": [{"name": "c", "image": "x"}], "volumes": [volume]}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Pod)


def messages(pods: list[Any]) -> list[str]:
    return [
        condition.message
        for pod in pods
        for condition in pod.status.conditions
        if condition.type == "PodScheduled"
    ]


def test_the_second_attempt_and_the_second_pod_have_the_message_of_the_first() -> None:
    async def main() -> None:
        clock = current_clock()
        live = LiveCluster(EmbeddedCluster(clock, random.Random(0)), seed=0)
        async with live.running():
            for name in "ab":
                node = msgspec.structs.replace(make_node(name), metadata=ObjectMeta(name=name))
                await live.api.create(node)
            for count in range(1, 4):
                await live.api.create(with_claim(f"p{count}"))
                await clock.sleep(2 * SECOND)
                found = (await live.api.list(Pod)).items
                assert messages(list(found)) == [MESSAGE] * count
            # VolumeRestrictions rejected them: they wait for a claim, and for no backoff.
            assert live.scheduler.queue.pending_pods()[1].endswith("unschedulablePods:3")
            # The hint of a claim with another name does not requeue them; five minutes do.
            other = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
            claim = {"metadata": {"name": "other", "namespace": "default"}, "spec": other}
            await live.api.create(msgspec.convert(claim, PersistentVolumeClaim))
            await clock.sleep(400 * SECOND)
            found = (await live.api.list(Pod)).items
            assert messages(list(found)) == [MESSAGE] * 3

    virtual_loop.run(main)
