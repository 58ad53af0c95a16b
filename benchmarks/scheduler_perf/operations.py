"""The steps of a workload, one function for each opcode.

Pods of a step without a namespace go to `namespace-<number of the step>`, which other steps refer
to. A step waits for its pods unless it says otherwise. A barrier waits for the pods of all earlier
steps that did not wait. Pods are created thirty at a time, one for each worker of the reference's
runner. After these, and after any other object, the scheduler runs.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from benchmarks.scheduler_perf.cluster import Cluster, with_metadata
from benchmarks.scheduler_perf.devices import (
    DeviceDriver,
    allocate_claims,
    create_claims,
    delete_claims,
)
from benchmarks.scheduler_perf.files import Workload, WorkloadFileError
from benchmarks.scheduler_perf.preparation import (
    csi_node,
    node_documents,
    pod_documents,
    volume_pods,
)
from benchmarks.scheduler_perf.templates import Json, Template
from benchmarks.scheduler_perf.tracker import Measurement, Tracker, selector_of

__all__ = ["OPCODES", "Operations"]

Step = Mapping[str, Any]
_WORKERS = 30
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Operations:
    """Carries out the steps of one workload, in order."""

    def __init__(
        self, workload: Workload, cluster: Cluster, tracker: Tracker, timeout_s: float
    ) -> None:
        self._workload = workload
        self._cluster = cluster
        self._tracker = tracker
        self._timeout_s = timeout_s
        self._unawaited: Counter[str] = Counter()
        self._background: list[asyncio.Task[None]] = []
        self._nodes = 0
        self._drivers: list[DeviceDriver] = []
        self.measurements: list[Measurement] = []

    async def run(self) -> None:
        """Run all steps. Background tasks of steps end with the last one.

        Raises:
            TimeoutError: pods were not scheduled in time.
            MissingFeatureError: the embedded server lacks what a step needs.
        """
        try:
            for number, step in enumerate(self._workload.steps):
                operation = OPCODES.get(step["opcode"])
                if operation is None:
                    raise WorkloadFileError(f"no opcode named {step['opcode']!r}")
                await operation(self, step, f"namespace-{number}")
        finally:
            for task in self._background:
                task.cancel()
            ended = await asyncio.gather(*self._background, return_exceptions=True)
        for result in ended:
            if isinstance(result, Exception):
                raise result

    def _beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._background.append(asyncio.create_task(work, name=name))

    # -- nodes and namespaces ----------------------------------------------------------

    async def create_nodes(self, step: Step, _: str) -> None:
        strategy = step.get("nodeAllocatableStrategy", {})
        directory, count = self._workload.directory, step["count"]
        for document in node_documents(step, directory, count, self._nodes):
            stored = self._cluster.create(document)
            drivers = csi_node(stored["metadata"]["name"], strategy)
            if drivers is not None:
                self._cluster.create(drivers)
            await asyncio.sleep(0)
        self._nodes += count

    async def create_namespaces(self, step: Step, _: str) -> None:
        path = step.get("namespaceTemplatePath")
        for index in range(step["count"]):
            document = self._document(path, index, step["count"]) if path else None
            self._cluster.ensure_namespace(f"{step['prefix']}-{index}", document)

    # -- pods --------------------------------------------------------------------------

    async def create_pods(self, step: Step, namespace: str) -> None:
        namespace, count = step.get("namespace", namespace), step["count"]
        self._cluster.ensure_namespace(namespace)
        documents = await self._pods_of(step, namespace)
        measurement = None
        if step.get("collectMetrics"):
            measurement = self._measure(namespace, [namespace], None)
        if step.get("steadyState"):
            await self._steady_state(step, namespace, documents)
        else:
            await self._create_all(documents, namespace)
            if step.get("skipWaitToCompletion"):
                self._unawaited[namespace] += count
            else:
                await self._wait({namespace: count})
        if measurement is not None:
            self._end(measurement)

    async def create_pod_sets(self, step: Step, _: str) -> None:
        for index in range(step["count"]):
            await self.create_pods(step["createPodsOp"], f"{step['namespacePrefix']}-{index}")

    async def _pods_of(self, step: Step, namespace: str) -> list[Json]:
        directory = self._workload.directory
        path = step.get("podTemplatePath")
        file = directory / path if path else self._workload.default_pod_template
        documents = pod_documents(file, step["count"])
        if "persistentVolumeTemplatePath" not in step:
            return documents
        volume = Template.read(directory / step["persistentVolumeTemplatePath"])
        claim = Template.read(directory / step["persistentVolumeClaimTemplatePath"])
        made = volume_pods(documents, volume, claim, namespace)
        bound = {"status": {"phase": "Bound"}}
        for pods_volume, pods_claim, _ in made:
            self._cluster.create(pods_volume)
            self._cluster.replace(pods_volume | bound, "", ("status",))
            self._cluster.create(pods_claim, namespace)
            self._cluster.replace(pods_claim | bound, namespace, ("status",))
            await asyncio.sleep(0)
        return [pod for _, _, pod in made]

    async def _create_all(self, documents: Sequence[Json], namespace: str) -> None:
        for number, document in enumerate(documents, start=1):
            pod = self._cluster.create(document, namespace)
            if "resourceClaims" in pod["spec"]:
                create_claims(self._cluster, pod)
            if number % _WORKERS == 0:
                await asyncio.sleep(0)

    async def _steady_state(self, step: Step, namespace: str, documents: Sequence[Json]) -> None:
        """Create pods, wait, and delete them, repeatedly until the time is over."""
        end_s = time.perf_counter() + _seconds(step["duration"])
        while time.perf_counter() < end_s:
            await self._create_all(documents, namespace)
            await self._wait({namespace: len(documents)})
            for name in self._tracker.pods(namespace, selector_of(None)):
                self._cluster.delete_pod(name, namespace)
                await asyncio.sleep(0)
            delete_claims(self._cluster, namespace)

    async def delete_pods(self, step: Step, namespace: str) -> None:
        namespace = step.get("namespace", namespace)
        names = self._tracker.pods(namespace, selector_of(step.get("labelSelector")))

        async def work() -> None:
            async for name in _paced(names, step.get("deletePodsPerSecond", 0)):
                self._cluster.delete_pod(name, namespace)

        if step.get("skipWaitToCompletion"):
            self._beside(work(), "deletePods")
        else:
            await work()

    async def barrier(self, step: Step, _: str) -> None:
        wanted = {name: self._unawaited[name] for name in step.get("namespaces", self._unawaited)}
        stage = step.get("stageRequirement", "Scheduled")
        await self._wait(wanted, step.get("labelSelector"), stage)
        if stage == "Scheduled":
            for namespace in wanted:
                del self._unawaited[namespace]

    async def _wait(
        self,
        wanted: Mapping[str, int],
        labels: Mapping[str, str] | None = None,
        stage: str = "Scheduled",
    ) -> None:
        await self._tracker.wait(wanted, selector_of(labels), stage, self._timeout_s)

    # -- any objects -------------------------------------------------------------------

    async def create_any(self, step: Step, _: str) -> None:
        namespace, count = step.get("namespace", ""), step.get("count", 1)
        if namespace:
            self._cluster.ensure_namespace(namespace)
        for index in range(count):
            self._cluster.create(self._document(step["templatePath"], index, count), namespace)
            await asyncio.sleep(0)

    async def update_any(self, step: Step, _: str) -> None:
        namespace, count = step.get("namespace", ""), step.get("count", 1)
        subresources = tuple(step.get("subresources", ()))
        documents = [self._document(step["templatePath"], i, count) for i in range(count)]
        async for document in _paced(documents, step.get("updatePerSecond", 0)):
            self._cluster.replace(document, namespace, subresources)

    async def churn(self, step: Step, namespace: str) -> None:
        """Until the end of the workload, create objects (and delete them) at intervals."""
        self._cluster.ensure_namespace(namespace)
        interval_s = step.get("intervalMilliseconds", 0) / 1000
        work = self._recreate if step["mode"] == "recreate" else self._create_on
        self._beside(work(step, namespace, interval_s), "churn")

    async def _create_on(self, step: Step, namespace: str, interval_s: float) -> None:
        number, limit = 0, step.get("number", 0)
        while not limit or number < limit:
            await asyncio.sleep(interval_s)
            for path in step["templatePaths"]:
                self._cluster.create(self._document(path, number, limit or 1), namespace)
            number += 1

    async def _recreate(self, step: Step, namespace: str, interval_s: float) -> None:
        """Return this many objects of each template.

        A tick deletes the existing ones, or creates them.
        """
        places = max(1, step.get("number", 1))
        alive: dict[tuple[str, int], Json] = {}
        tick = 0
        while True:
            await asyncio.sleep(interval_s)
            place = tick % places
            for path in step["templatePaths"]:
                document = self._document(path, tick, places)
                found = alive.pop((path, place), None)
                if found is not None:
                    self._cluster.delete(found, namespace)
                else:
                    stored = self._cluster.create(document, namespace)
                    name = stored["metadata"]["name"]
                    alive[path, place] = with_metadata(document, name=name)
            tick += 1

    def _document(self, path: str, index: int, count: int) -> Json:
        return Template.read(self._workload.directory / path).document(index, count)

    # -- devices -----------------------------------------------------------------------

    async def create_resource_driver(self, step: Step, _: str) -> None:
        driver = DeviceDriver(step["driverName"], step["nodes"], step["maxClaimsPerNode"])
        self._drivers.append(driver)
        for slice_document in driver.slices(self._cluster):
            self._cluster.create(slice_document)
            await asyncio.sleep(0)

    async def alloc_resource_claims(self, step: Step, _: str) -> None:
        allocate_claims(self._cluster, self._drivers, step["namespace"])

    # -- measuring and waiting ---------------------------------------------------------

    async def start_collecting(self, step: Step, _: str) -> None:
        self._measure(step.get("name", ""), step["namespaces"], step.get("labelSelector"))

    async def stop_collecting(self, _step: Step, _: str) -> None:
        for measurement in list(self._tracker.measurements):
            self._end(measurement)

    async def sleep(self, step: Step, _: str) -> None:
        await asyncio.sleep(_seconds(step["duration"]))

    def _measure(
        self, name: str, namespaces: Sequence[str], labels: Mapping[str, str] | None
    ) -> Measurement:
        measurement = Measurement(name, namespaces, selector_of(labels))
        self._tracker.measurements.append(measurement)
        self.measurements.append(measurement)
        return measurement

    def _end(self, measurement: Measurement) -> None:
        measurement.close()
        self._tracker.measurements.remove(measurement)


Operation = Callable[[Operations, Step, str], Awaitable[None]]

OPCODES: Mapping[str, Operation] = {
    "allocResourceClaims": Operations.alloc_resource_claims,
    "barrier": Operations.barrier,
    "churn": Operations.churn,
    "createAny": Operations.create_any,
    "createNamespaces": Operations.create_namespaces,
    "createNodes": Operations.create_nodes,
    "createPodSets": Operations.create_pod_sets,
    "createPods": Operations.create_pods,
    "createResourceDriver": Operations.create_resource_driver,
    "deletePods": Operations.delete_pods,
    "sleep": Operations.sleep,
    "startCollectingMetrics": Operations.start_collecting,
    "stopCollectingMetrics": Operations.stop_collecting,
    "updateAny": Operations.update_any,
}


async def _paced(values: Sequence[Any], per_second: float) -> AsyncIterator[Any]:
    """Yield the values at a limited rate; a late value does not delay the rest."""
    started_s = time.perf_counter()
    for number, value in enumerate(values):
        due_s = started_s + number / per_second if per_second else 0.0
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        yield value


def _seconds(duration: str | int) -> float:
    """A duration as Go writes them."""
    parts = _DURATION.findall(str(duration))
    if not parts:
        raise WorkloadFileError(f"{duration!r}: not a duration")
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
