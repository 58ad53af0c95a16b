"""Goldens of decisions: scenarios scheduled pod by pod, every answer compared.

After each step the cluster gets the recorded state, whatever kubesched decided, so that one
difference does not affect later steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.codec import from_builtins
from kubesched.api.time import parse_time
from kubesched.errors import PluginError
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import (
    CycleState,
    Diagnosis,
    FitError,
    Nominating,
    NominatingMode,
    PodInfo,
    Status,
)
from kubesched.scheduler.cycles.failure import CLEAR_NOMINATION
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.schedule_result import NoNodesError, ScheduleResult
from tests.conformance.comparison import Step, compare
from tests.conformance.decision_harness import DecisionHarness
from tests.conformance.expectations import expectation, missing_plugins
from tests.conformance.goldens import read_lines
from tests.conformance.step_facts import StepFacts

__all__ = ["RECORDED_NS", "Scenario", "run_decisions"]

# A pod that has not started counts as starting now, so it must not be earlier than the others.
RECORDED_NS = parse_time("2026-11-15T07:00:00Z")


def run_decisions(path: Path) -> Iterator[Step]:
    family = path.name.removesuffix(".jsonl.gz")
    for golden in read_lines(path):
        yield from run(Scenario(family, golden).run(), start_ns=RECORDED_NS)


class Scenario:
    """One recorded cluster and the pods scheduled in it, one after another."""

    def __init__(self, family: str, golden: Mapping[str, Any]) -> None:
        self._family = family
        self._golden = golden
        self._missing = missing_plugins()
        self._facts = StepFacts(is_wide=family == "wild" or family.endswith("-wide"))

    async def run(self) -> list[Step]:
        golden = self._golden
        self._harness = DecisionHarness(golden.get("config"), golden["objects"], current_clock())
        steps = []
        for document, recorded in zip(golden["pending"], golden["expected"], strict=True):
            pod = from_builtins(document, Pod)
            self._harness.objects.put(pod)
            self.before_step(self._harness, pod, recorded)
            got = await self._step(pod, recorded)
            expected = expectation(recorded, self._missing)
            if expected.needs:
                got = {key: value for key, value in got.items() if key in expected.fields}
            differences = compare(expected.fields, got)
            label = recorded["pod"]
            steps.append(Step(self._family, golden["name"], label, differences, expected.needs))
        return steps

    def before_step(self, harness: DecisionHarness, pod: Pod, recorded: Mapping[str, Any]) -> None:
        """Called before each step; subclasses inspect the cluster here."""

    async def _step(self, pod: Pod, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Schedule the pod, then bring the cluster to the recorded state."""
        self._facts.begin(self._harness.objects)
        got = await self._attempt(pod, recorded)
        if "nominated" in recorded:
            got |= await self._try_again(pod, recorded)
        elif "chosen" in recorded and not self._is_settled(pod, recorded):
            self._harness.settle(pod, recorded["chosen"])
        got |= self._facts.end(self._harness, pod, recorded)
        return got

    def _is_settled(self, pod: Pod, recorded: Mapping[str, Any]) -> bool:
        """Whether the pod is in the recorded state: on a node, or unreserved."""
        if "reserve" in recorded or "preBind" in recorded:
            return True
        current = self._harness.objects.get(Pod, pod.metadata.name, pod.metadata.namespace)
        return current is not None and bool(current.spec.node_name)

    async def _attempt(self, pod: Pod, recorded: Mapping[str, Any]) -> dict[str, Any]:
        harness, framework = self._harness, self._harness.framework_of(pod)
        state, pod_info = CycleState(), PodInfo(pod)
        gated = _gate(framework, pod)
        if gated is not None:
            return {"gated": gated}
        harness.cache.update_snapshot()
        try:
            result = harness.search.schedule_pod(framework, state, pod_info)
        except FitError as exc:
            return await self._misfit(framework, state, pod_info, exc)
        except (PluginError, NoNodesError) as exc:
            harness.nominator.add_nominated_pod(pod_info, CLEAR_NOMINATION)
            return {"error": str(exc)}
        got = _verdicts(result.diagnosis) | _choice(result)
        if "chosen" in recorded:
            got |= await self._place(framework, state, pod_info, recorded["chosen"], recorded)
        return got

    async def _place(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        node_name: str,
        recorded: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Run Reserve and PreBind on the recorded node, and return their rejections.

        If the recording has a rejection, the pod is unreserved and does not run.
        """
        harness, points = self._harness, framework.binding
        assumed = pod_info.placed_on(node_name)
        harness.cache.assume_pod(assumed)
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
        if got:
            points.run_unreserve(state, assumed.pod, node_name)
            await harness.finish_work()
        if "reserve" in recorded or "preBind" in recorded:
            harness.cache.forget_pod(assumed.pod)
            harness.nominator.add_nominated_pod(pod_info, CLEAR_NOMINATION)
        else:
            harness.settle(pod_info.pod, node_name)
        return got

    async def _misfit(
        self, framework: Framework, state: CycleState, pod_info: PodInfo, error: FitError
    ) -> dict[str, Any]:
        """Return the diagnosis and the result of PostFilter for a pod that fits no node."""
        got = _verdicts(error.diagnosis)
        nominating: Nominating | None = CLEAR_NOMINATION
        if framework.post_filter_plugins:
            before = {pod.metadata.uid: pod for pod in self._harness.objects.list(Pod)}
            result = framework.run_post_filter(state, pod_info, error.diagnosis)
            error.diagnosis.post_filter_message = result.status.message
            got["postFilter"] = _status(result.status)
            evicted = await self._evicted(before)
            nominating = result.nominating
            if nominating is not None and nominating.node_name:
                got["nominated"] = nominating.node_name
                got["victims"] = evicted
        self._harness.nominator.add_nominated_pod(pod_info, nominating)
        got["message"] = str(error)
        return got

    async def _evicted(self, before: Mapping[str, Pod]) -> list[str]:
        """Return the evicted pods, and restore them: the recording names the victims."""
        await self._harness.finish_work()
        left = {pod.metadata.uid for pod in self._harness.objects.list(Pod)}
        evicted = [pod for uid, pod in before.items() if uid not in left]
        for pod in evicted:
            self._harness.objects.put(pod)
        return sorted(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in evicted)

    async def _try_again(self, pod: Pod, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Schedule the nominated pod again, after the recorded victims were deleted."""
        harness, node_name = self._harness, recorded["nominated"]
        framework = harness.framework_of(pod)
        harness.evict(recorded["victims"])
        pod = replace(pod, status=replace(pod.status, nominated_node_name=node_name))
        harness.objects.put(pod)
        pod_info, state = PodInfo(pod), CycleState()
        harness.nominator.add_nominated_pod(
            pod_info, Nominating(NominatingMode.OVERRIDE, node_name)
        )
        harness.cache.update_snapshot()
        settled = recorded.get("chosenAfterPreemption")
        got: dict[str, Any] = {}
        try:
            result = harness.search.schedule_pod(framework, state, pod_info)
        except (FitError, PluginError):
            # It stays pending and nominated, unless the recording has it placed.
            if settled is not None:
                harness.settle(pod, settled)
            return got
        got["chosenAfterPreemption"] = result.node_name
        if settled is not None:
            got |= await self._place(framework, state, pod_info, settled, recorded)
        return got


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
