"""Controllers leave the data alone that other clients write to the same objects."""

from __future__ import annotations

from typing import Any

from kubesched.api import PersistentVolumeClaim, Pod, ReplicaSet
from kubesched.api.core import ConfigMap
from kubesched.cluster.apiserver.local_api import Fault
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import workload, workloads

Json = dict[str, Any]


def slow_patches(verb: str, _kind: str, _namespace: str | None, _name: str) -> Fault | None:
    """Delay each patch of the controllers, so that another write comes first."""
    return Fault(delay_ns=SECOND) if verb == "patch" else None


def test_a_finalizer_that_another_client_adds_at_the_same_time_stays() -> None:
    async def main() -> None:
        async with workloads(faults=slow_patches) as harness:
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
            document = {"metadata": {"name": "data"}, "spec": spec}
            await harness.create(PersistentVolumeClaim, document)
            await harness.clock.sleep(SECOND // 2)  # the controller's patch is under way
            patch = {"metadata": {"finalizers": ["example.com/backup"]}}
            await harness.patch(PersistentVolumeClaim, "data", patch)
            await harness.settle(10)
            stored = await harness.get(PersistentVolumeClaim, "data")
            assert sorted(stored.metadata.finalizers) == [
                "example.com/backup",
                "kubernetes.io/pvc-protection",
            ]

    run(main)


def test_an_owner_that_another_client_adds_at_the_same_time_stays() -> None:
    async def main() -> None:
        async with workloads(faults=slow_patches) as harness:
            other = await harness.create(ConfigMap, {"metadata": {"name": "other"}})
            set_a = await harness.create(ReplicaSet, workload("a", {"replicas": 1}))
            pod = workload("a", {})["spec"]["template"]
            await harness.create(Pod, {**pod, "metadata": {**pod["metadata"], "name": "p"}})
            await harness.clock.sleep(SECOND // 2)
            reference = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "other",
                "uid": other.metadata.uid,
            }
            await harness.patch(Pod, "p", {"metadata": {"ownerReferences": [reference]}})
            await harness.settle(10)
            owners = (await harness.get(Pod, "p")).metadata.owner_references
            assert {each.uid for each in owners} == {other.metadata.uid, set_a.metadata.uid}

    run(main)
