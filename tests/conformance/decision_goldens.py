"""Goldens of decisions: scenarios scheduled pod by pod, every answer compared.

After each step the world goes on as it did in the recording, whatever came out here, so one
difference does not spoil the steps after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kubesched.api import Pod, ResourceClaim
from kubesched.api.codec import from_builtins, to_builtins
from kubesched.api.time import parse_time
from kubesched.framework import (
    CycleState,
    Diagnosis,
    FitError,
    Nominating,
    NominatingMode,
    PodInfo,
    Status,
)
from kubesched.runtime.framework import Framework
from kubesched.scheduler.algorithm import NoNodesError, ScheduleResult
from kubesched.util.clock import current_clock
from kubesched.util.errors import PluginError
from kubesched.util.virtual_loop import run
from tests.conformance.comparison import Step, compare
from tests.conformance.expectations import (
    DEVICE_ALLOCATION,
    Expectation,
    expectation,
    missing_plugins,
    needs_devices,
)
from tests.conformance.goldens import read_lines
from tests.conformance.world import World

__all__ = ["run_decisions"]

# A pod that has not started counts as starting now, so it must not be earlier than the others.
_RECORDED_NS = parse_time("2026-11-15T07:00:00Z")


def run_decisions(path: Path) -> Iterator[Step]:
    family = path.name.removesuffix(".jsonl.gz")
    for golden in read_lines(path):
        yield from run(_Scenario(family, golden).run(), start_ns=_RECORDED_NS)


class _Scenario:
    """One recorded cluster and the pods scheduled in it, one after another."""

    def __init__(self, family: str, golden: Mapping[str, Any]) -> None:
        self._family = family
        self._golden = golden
        self._missing = missing_plugins()

    async def run(self) -> list[Step]:
        golden = self._golden
        self._world = World(golden.get("config"), golden["objects"], current_clock())
        steps = []
        for document, recorded in zip(golden["pending"], golden["expected"], strict=True):
            pod = from_builtins(document, Pod)
            self._world.objects.put(pod)
            got = await self._attempt(pod, recorded)
            expected = expectation(recorded, self._missing)
            if "gated" not in recorded and needs_devices(pod, self._world.objects):
                expected = Expectation({}, (DEVICE_ALLOCATION,))
            if expected.needs:
                got = {key: value for key, value in got.items() if key in expected.fields}
            differences = compare(expected.fields, got)
            label = recorded["pod"]
            steps.append(Step(self._family, golden["name"], label, differences, expected.needs))
        return steps

    async def _attempt(self, pod: Pod, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Schedule the pod, then let the world go on as it did in the recording."""
        world, framework = self._world, self._world.framework_of(pod)
        state, pod_info = CycleState(), PodInfo(pod)
        got: dict[str, Any] = {}
        placed = False
        gated = _gate(framework, pod)
        if gated is not None:
            got["gated"] = gated
        else:
            world.cache.update_snapshot()
            try:
                result = world.algorithm.schedule_pod(framework, state, pod_info)
            except FitError as exc:
                got = await self._misfit(framework, state, pod_info, exc)
            except (PluginError, NoNodesError) as exc:
                got["error"] = str(exc)
            else:
                got = _verdicts(result.diagnosis) | _choice(result)
                if "chosen" in recorded:
                    got |= await self._place(framework, state, pod_info, recorded["chosen"])
                    placed = True
        if "nominated" in recorded:
            got["chosenAfterPreemption"] = self._try_again(framework, pod, recorded)
        elif "chosen" in recorded and not placed:
            world.settle(pod, recorded["chosen"])
        return got

    async def _place(
        self, framework: Framework, state: CycleState, pod_info: PodInfo, node_name: str
    ) -> dict[str, Any]:
        """Reserve and PreBind on the recorded node; what they refused or wrote."""
        world, points = self._world, framework.binding
        assumed = pod_info.placed_on(node_name)
        world.cache.assume_pod(assumed)
        got: dict[str, Any] = {}
        status = points.run_reserve(state, assumed.pod, node_name)
        if not status.is_success:
            got["reserve"] = _status(status)
        else:
            status = points.run_pre_bind_pre_flight(state, assumed.pod, node_name)
            if status.is_success:
                status = await points.run_pre_bind(state, assumed.pod, node_name)
            if not status.is_success and not status.is_skip:
                got["preBind"] = _status(status)
        allocations = self._allocations(pod_info.pod.metadata.namespace)
        if allocations and pod_info.pod.spec.resource_claims:
            got["allocations"] = allocations
        world.settle(pod_info.pod, node_name)
        return got

    async def _misfit(
        self, framework: Framework, state: CycleState, pod_info: PodInfo, error: FitError
    ) -> dict[str, Any]:
        """No node fits: what the diagnosis and PostFilter say."""
        got = _verdicts(error.diagnosis)
        if framework.post_filter_plugins:
            before = {pod.metadata.uid: pod for pod in self._world.objects.list(Pod)}
            result = framework.run_post_filter(state, pod_info, error.diagnosis)
            error.diagnosis.post_filter_message = result.status.message
            got["postFilter"] = _status(result.status)
            if result.nominating is not None and result.nominating.node_name:
                got["nominated"] = result.nominating.node_name
                got["victims"] = await self._victims(before)
        got["message"] = str(error)
        return got

    async def _victims(self, before: Mapping[str, Pod]) -> list[str]:
        """Who was evicted; they are put back, because the recording says who goes."""
        await self._world.finish_work()
        left = {pod.metadata.uid for pod in self._world.objects.list(Pod)}
        evicted = [pod for uid, pod in before.items() if uid not in left]
        for pod in evicted:
            self._world.objects.put(pod)
        return sorted(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in evicted)

    def _try_again(self, framework: Framework, pod: Pod, recorded: Mapping[str, Any]) -> str:
        """Schedule the pod once more, nominated, with the recorded victims gone."""
        world, node_name = self._world, recorded["nominated"]
        world.evict(recorded["victims"])
        pod = replace(pod, status=replace(pod.status, nominated_node_name=node_name))
        world.objects.put(pod)
        pod_info = PodInfo(pod)
        world.nominator.add_nominated_pod(pod_info, Nominating(NominatingMode.OVERRIDE, node_name))
        world.cache.update_snapshot()
        try:
            chosen = world.algorithm.schedule_pod(framework, CycleState(), pod_info).node_name
        except (FitError, PluginError) as exc:
            chosen = str(exc)
        world.settle(pod, recorded["chosenAfterPreemption"])
        return chosen

    def _allocations(self, namespace: str) -> dict[str, Any]:
        found = {}
        for claim in self._world.objects.list(ResourceClaim, namespace):
            if claim.status.allocation is not None:
                allocation = to_builtins(claim.status.allocation)
                allocation.pop("allocationTimestamp", None)
                found[claim.metadata.name] = allocation
        return found


def _gate(framework: Framework, pod: Pod) -> dict[str, Any] | None:
    for plugin in framework.pre_enqueue_plugins:
        status = plugin.pre_enqueue(pod)
        if not status.is_success:
            return _status(status.blame(plugin.name))
    return None


def _verdicts(diagnosis: Diagnosis) -> dict[str, Any]:
    got: dict[str, Any] = {}
    if diagnosis.pre_filter_message:
        got["preFilterMessage"] = diagnosis.pre_filter_message
    if rejected := diagnosis.node_statuses():
        got["rejected"] = {name: _status(status) for name, status in rejected.items()}
    if diagnosis.absent_nodes_status.all_reasons:
        got["absentNodes"] = _status(diagnosis.absent_nodes_status)
    if diagnosis.unschedulable_plugins:
        got["unschedulablePlugins"] = sorted(diagnosis.unschedulable_plugins)
    return got


def _choice(result: ScheduleResult) -> dict[str, Any]:
    names = list(result.feasible.names)
    got: dict[str, Any] = {"feasible": sorted(names)}
    best = names
    if result.scores is not None:
        got["scores"] = {
            plugin: dict(zip(names, scores.tolist(), strict=True))
            for plugin, scores in result.scores.by_plugin.items()
        }
        total = got["total"] = dict(zip(names, result.scores.total.tolist(), strict=True))
        best = [name for name in names if total[name] == max(total.values())]
    got["best"] = sorted(best)
    # The recording took the first by name among equals; any of them is right.
    got["chosen"] = min(best) if result.node_name in best else result.node_name
    return got


def _status(status: Status) -> dict[str, Any]:
    return {
        "code": status.code.label,
        "plugin": status.plugin,
        "reasons": sorted(status.all_reasons),
    }
