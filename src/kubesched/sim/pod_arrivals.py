"""Creates the pods, Jobs and Deployments of a scenario's workloads and traces, in time."""

from __future__ import annotations

import random
from collections.abc import Coroutine, Iterator
from typing import Any

import msgspec

from kubesched.api import (
    ApiAccess,
    ApiError,
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    ObjectMeta,
    Pod,
    PodGroup,
    PodSpec,
    PriorityClass,
    StatefulSet,
)
from kubesched.api.apps import DaemonSetSpec, DeploymentSpec, StatefulSetSpec
from kubesched.api.batch import CronJob, CronJobSpec, JobSpec, JobTemplateSpec
from kubesched.api.meta import LabelSelector
from kubesched.api.pod import PodSchedulingGroup, PodTemplateSpec
from kubesched.api.runtime_class import RuntimeClass, RuntimeClassOverhead
from kubesched.api.scheduling import (
    BasicSchedulingPolicy,
    GangSchedulingPolicy,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    TopologyConstraint,
)
from kubesched.cluster.recreated_pods import as_client_creates
from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.randomness import derive
from kubesched.sim.scenario import WORKLOAD_LABEL, GangTemplate, Scenario, ScenarioWorkload
from kubesched.sim.templates import drawn, priority_class, sized

__all__ = ["PodArrivals"]

_NAMESPACE = "default"
_RUN_DURATION = "kubesched.io/run-duration"
_START_DELAY = "kubesched.io/start-delay"
_DAY_NS = 86_400 * SECOND
_OWNER = "kubesched.io/arrival"
_SIZES_KEPT = 256
_AT_ONCE = 5_000
_LASTING = ("Deployment", "StatefulSet", "DaemonSet")
_NEVER = "Never"
# The classes that every cluster has.
_SYSTEM = "system-"
# The highest value of any other class.
_HIGHEST = 1_000_000_000


class PodArrivals:
    """The arrivals of all workloads, each with its own stream of random numbers."""

    def __init__(self, api: ApiAccess, clock: Clock, scenario: Scenario, seed: int) -> None:
        self._api, self._clock = api, clock
        self._scenario, self._seed = scenario, seed
        self._ensured: set[tuple[type[Any], str]] = set()
        self._sized: dict[tuple[str, int | None, int | None], Pod] = {}

    def streams(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield a coroutine for each workload, and one for the traces."""
        for workload in self._scenario.workloads:
            yield self._feed(workload)
        if self._scenario.trace:
            yield self._replay()

    async def _feed(self, workload: ScenarioWorkload) -> None:
        times = derive(self._seed, "arrivals", workload.name)
        sizes = derive(self._seed, "sizes", workload.name)
        start_ns = self._scenario.start_ns
        if workload.priority is not None:
            await self._ensure(_class_of(workload.priority))
        arrivals = workload.arrivals.times(times, start_ns % _DAY_NS)
        for number, time_ns in enumerate(arrivals):
            if time_ns >= self._scenario.duration_ns:
                return  # the run ends before the scheduler could receive the pod
            await self._wait_until(time_ns)
            await self._arrive(workload, number, sizes)

    async def _wait_until(self, time_ns: int) -> None:
        wait_ns = self._scenario.start_ns + time_ns - self._clock.now_ns()
        if wait_ns > 0:
            await self._clock.sleep(wait_ns)

    async def _arrive(self, workload: ScenarioWorkload, number: int, rng: random.Random) -> None:
        replicas = workload.replicas.draw(rng)
        name = f"{workload.name}-{number}"
        if workload.kind == "Pod":
            group = workload.pod_group
            if group is not None and replicas:
                await self._create(_pod_group(workload, group, name, replicas))
            for place in range(replicas):
                if place and place % _AT_ONCE == 0:
                    # The log of a watch is bounded, so let all watchers read these changes first.
                    await self._clock.sleep(1)
                of_many = name if replicas == 1 else f"{name}-{place}"
                pod = self._pod(workload, of_many, rng)
                await self._create(pod if group is None else _member(pod, name))
            return
        pod = self._pod(workload, name, rng)
        labels = {**pod.metadata.labels, _OWNER: name}
        metadata = ObjectMeta(labels=labels, annotations=dict(pod.metadata.annotations))
        template = PodTemplateSpec(metadata=metadata, spec=pod.spec)
        owner = ObjectMeta(name=name, namespace=_NAMESPACE)
        match workload.kind:
            case "Job":
                made: Any = Job(metadata=owner, spec=_job(template, replicas))
            case "CronJob":
                jobs = JobTemplateSpec(spec=_job(template, replicas))
                spec = CronJobSpec(schedule=workload.schedule, job_template=jobs)
                made = CronJob(metadata=owner, spec=spec)
            case kind:
                made = _lasting(kind, owner, template, replicas)
        await self._create(made)

    def _pod(self, workload: ScenarioWorkload, name: str, rng: random.Random) -> Pod:
        """Build a pod of a workload. Pods of some kinds run until they are deleted."""
        pod = self._of_size(workload, drawn(workload.cpu, rng), drawn(workload.memory, rng))
        annotations = dict(pod.metadata.annotations)
        duration_ns = drawn(workload.duration, rng)
        if duration_ns is not None and workload.kind not in _LASTING:
            annotations[_RUN_DURATION] = _seconds(duration_ns)
        delay_ns = drawn(workload.start_delay, rng)
        if delay_ns is not None:
            annotations[_START_DELAY] = _seconds(delay_ns)
        metadata = msgspec.structs.replace(
            pod.metadata, name=name, namespace=_NAMESPACE, annotations=annotations
        )
        return msgspec.structs.replace(pod, metadata=metadata)

    def _of_size(
        self, workload: ScenarioWorkload, cpu_milli: int | None, memory_bytes: int | None
    ) -> Pod:
        """Return the workload's pod with these requests; cached, as most repeat."""
        key = (workload.name, cpu_milli, memory_bytes)
        found = self._sized.get(key)
        if found is None:
            if len(self._sized) >= _SIZES_KEPT:
                self._sized.clear()
            found = self._sized[key] = sized(workload.template, cpu_milli, memory_bytes)
        return found

    async def _replay(self) -> None:
        for entry in self._scenario.trace:
            if entry.time_ns >= self._scenario.duration_ns:
                return
            await self._wait_until(entry.time_ns)
            for each in entry.objects:
                await self._create(each)
            pod = as_client_creates(entry.pod)
            annotations = dict(pod.metadata.annotations)
            if entry.duration_ns is not None:
                annotations[_RUN_DURATION] = _seconds(entry.duration_ns)
            metadata = ObjectMeta(
                name=pod.metadata.name,
                namespace=pod.metadata.namespace or _NAMESPACE,
                labels=dict(pod.metadata.labels),
                annotations=annotations,
            )
            if metadata.namespace != _NAMESPACE:
                await self._ensure(Namespace(metadata=ObjectMeta(name=metadata.namespace)))
            spec = await self._with_classes(msgspec.structs.replace(pod.spec, node_name=""))
            await self._create(Pod(metadata=metadata, spec=spec))

    async def _with_classes(self, spec: PodSpec) -> PodSpec:
        """Create the classes of a recorded pod, and clear the fields that admission sets."""
        if spec.runtime_class_name:
            overhead = RuntimeClassOverhead(pod_fixed=spec.overhead) if spec.overhead else None
            named = ObjectMeta(name=spec.runtime_class_name)
            await self._ensure(RuntimeClass(metadata=named, handler="any", overhead=overhead))
            spec = msgspec.structs.replace(spec, overhead={})
        if spec.priority:
            name = spec.priority_class_name
            if not name.startswith(_SYSTEM):
                own = _class_of(min(spec.priority, _HIGHEST), spec.preemption_policy)
                name = own.metadata.name
                await self._ensure(own)
            spec = msgspec.structs.replace(
                spec, priority=None, preemption_policy=None, priority_class_name=name
            )
        elif spec.priority_class_name:
            # A class of value zero, or without a recorded value.
            spec = msgspec.structs.replace(spec, priority=None, priority_class_name="")
        return spec

    async def _ensure(self, wanted: Any) -> None:
        """Create an object that pods refer to, once."""
        key = type(wanted), wanted.metadata.name
        if key not in self._ensured:
            self._ensured.add(key)
            await self._create(wanted)

    async def _create(self, new: Any) -> None:
        try:
            await self._api.create(new)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return
            name = new.metadata.name
            raise KubeschedError(f"{type(new).__name__} {name} is refused: {error}") from error


def _pod_group(workload: ScenarioWorkload, group: GangTemplate, name: str, pods: int) -> PodGroup:
    policy = PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
    if group.is_gang:
        least = pods if group.min_count is None else group.min_count
        policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=least))
    constraints = None
    if group.topology_key:
        topology = (TopologyConstraint(key=group.topology_key),)
        constraints = PodGroupSchedulingConstraints(topology=topology)
    spec = PodGroupSpec(
        scheduling_policy=policy,
        scheduling_constraints=constraints,
        disruption_mode=group.disruption_mode or None,
        priority_class_name=workload.template.spec.priority_class_name,
    )
    labels = {WORKLOAD_LABEL: workload.name}
    return PodGroup(metadata=ObjectMeta(name=name, namespace=_NAMESPACE, labels=labels), spec=spec)


def _member(pod: Pod, group: str) -> Pod:
    named = PodSchedulingGroup(pod_group_name=group)
    spec = msgspec.structs.replace(pod.spec, scheduling_group=named)
    return msgspec.structs.replace(pod, spec=spec)


def _job(template: PodTemplateSpec, replicas: int) -> JobSpec:
    spec = msgspec.structs.replace(template.spec, restart_policy="Never")
    return JobSpec(
        parallelism=replicas,
        completions=replicas,
        ttl_seconds_after_finished=0,
        template=msgspec.structs.replace(template, spec=spec),
    )


def _lasting(kind: str, owner: ObjectMeta, template: PodTemplateSpec, replicas: int) -> Any:
    """Return a workload whose pods run until they are deleted."""
    selector = LabelSelector(match_labels={_OWNER: owner.name})
    match kind:
        case "StatefulSet":
            ordered = StatefulSetSpec(
                replicas=replicas, selector=selector, template=template, service_name=owner.name
            )
            return StatefulSet(metadata=owner, spec=ordered)
        case "DaemonSet":
            each_node = DaemonSetSpec(selector=selector, template=template)
            return DaemonSet(metadata=owner, spec=each_node)
    spec = DeploymentSpec(replicas=replicas, selector=selector, template=template)
    return Deployment(metadata=owner, spec=spec)


def _class_of(value: int, policy: str | None = None) -> PriorityClass:
    """Return a class for pods of a priority: a server accepts priorities only through classes."""
    name = priority_class(value)
    if policy != _NEVER:
        return PriorityClass(metadata=ObjectMeta(name=name), value=value)
    metadata = ObjectMeta(name=f"{name}-never")
    return PriorityClass(metadata=metadata, value=value, preemption_policy=policy)


def _seconds(duration_ns: int) -> str:
    return f"{duration_ns // SECOND}.{duration_ns % SECOND:09}"
