"""A server accepts objects of captures, which leave out fields that it requires."""

from __future__ import annotations

import random

from kubesched.api.meta import ObjectMeta
from kubesched.api.runtime_class import RuntimeClass
from kubesched.api.volume import PersistentVolume, PersistentVolumeSpec
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.takeover import Identity, take_over
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.virtual_loop import run


def test_a_volume_without_source_and_a_class_without_handler() -> None:
    async def main() -> None:
        cluster = EmbeddedCluster(current_clock(), random.Random(0), heartbeats=False)
        spec = PersistentVolumeSpec(capacity={"storage": "1Gi"}, access_modes=("ReadWriteOnce",))
        volume = PersistentVolume(metadata=ObjectMeta(name="v", uid="1"), spec=spec)
        heavy = RuntimeClass(metadata=ObjectMeta(name="heavy", uid="2"))
        await take_over(cluster.api, [volume, heavy], Identity.NEW)
        assert (await cluster.api.get(PersistentVolume, "v")).spec.capacity == spec.capacity
        assert (await cluster.api.get(RuntimeClass, "heavy")).handler

    run(main())
