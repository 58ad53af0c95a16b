"""Controllers leave the data alone that other clients write to the same objects."""

from __future__ import annotations

import random
from typing import Any

from kubesched.api import Deployment, Job, PersistentVolumeClaim, Pod, ReplicaSet
from kubesched.api.batch import CronJob
from kubesched.api.core import ConfigMap, ResourceQuota
from kubesched.cluster.apiserver.local_api import Fault
from kubesched.cluster.controllers.quota_resync import QUOTA_RESYNC_NS
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import workload, workloads

Json = dict[str, Any]


def slow_patches(verb: str, _kind: str, _namespace: str | None, _name: str) -> Fault | None:
    """Delay each patch of the controllers, so that a concurrent write comes first."""
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


def test_the_status_of_a_quota_that_a_client_has_changed_is_corrected() -> None:
    async def main() -> None:
        cluster = EmbeddedCluster(current_clock(), random.Random(0))
        async with running(*cluster.parts):
            spec = {"hard": {"cpu": "500m", "configmaps": "10"}}
            body = {"metadata": {"name": "q"}, "spec": spec}
            await cluster.api.create_document(ResourceQuota, "default", body)
            await cluster.api.create_document(ConfigMap, "default", {"metadata": {"name": "one"}})
            status = {"hard": {"cpu": "2"}, "used": {"cpu": "1", "configmaps": "7"}}
            await cluster.api.patch(
                ResourceQuota,
                "q",
                "default",
                {"status": status},
                patch_type="merge",
                subresource="status",
            )

            def stored() -> Json:
                found = cluster.api.document(ResourceQuota, "q", "default")["status"]
                return {"hard": found["hard"]["cpu"], "used": found["used"]["configmaps"]}

            assert stored() == {"hard": "2", "used": "7"}
            await cluster.clock.sleep(QUOTA_RESYNC_NS + SECOND)
            # The root certificates of the namespace are a ConfigMap, too.
            assert stored() == {"hard": "500m", "used": "2"}

    run(main)


def test_a_replica_set_gets_new_annotations_and_retains_those_of_others() -> None:
    async def main() -> None:
        async with workloads() as harness:
            await harness.create(Deployment, workload("web", {"replicas": 1}))
            await harness.settle()
            (replica_set,) = await harness.all(ReplicaSet)
            name = replica_set.metadata.name
            await harness.patch(ReplicaSet, name, {"metadata": {"annotations": {"mine": "1"}}})
            notes = {"team": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
            change = {"metadata": {"annotations": notes}, "spec": {"minReadySeconds": 7}}
            await harness.patch(Deployment, "web", change)
            await harness.settle()
            stored = harness.document(ReplicaSet, name)
            held = stored["metadata"]["annotations"]
            assert (held["mine"], held["team"]) == ("1", "x")
            assert "kubectl.kubernetes.io/last-applied-configuration" not in held
            assert stored["spec"]["minReadySeconds"] == 7

    run(main)


def test_a_job_created_manually_from_a_cron_job_is_not_counted() -> None:
    """`kubectl create job --from=cronjob/nightly`: the CronJob owns it, but did not start it."""

    async def main() -> None:
        async with workloads() as harness:
            containers = [{"name": "c", "image": "i", "command": ["sleep", "600"]}]
            template = {"spec": {"restartPolicy": "Never", "containers": containers}}
            spec = {
                "schedule": "* * * * *",
                "concurrencyPolicy": "Replace",
                "jobTemplate": {"spec": {"template": template}},
            }
            owner = await harness.create(CronJob, {"metadata": {"name": "nightly"}, "spec": spec})
            reference = {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "name": "nightly",
                "uid": owner.metadata.uid,
                "controller": True,
            }
            metadata = {"name": "by-hand", "ownerReferences": [reference]}
            await harness.create(Job, {"metadata": metadata, "spec": {"template": template}})
            await harness.settle(150)
            names = [job.metadata.name for job in await harness.all(Job)]
            assert "by-hand" in names  # not replaced
            assert len(names) == 2
            listed = harness.document(CronJob, "nightly")["status"]["active"]
            assert [each["name"] for each in listed] == [n for n in names if n != "by-hand"]

    run(main)
