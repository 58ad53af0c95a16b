"""The metrics after a run (docs/reference/02 §11.2, 03 §14, 04 §19), on virtual time."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.registry import CollectorRegistry

from kubesched.api import Node, Pod
from kubesched.api import Status as ApiStatus
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.metrics import SchedulerMetrics, render
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.framework import Plugin, Wait
from kubesched.scheduler.config import default_configuration
from kubesched.scheduler.config.types import PluginRef
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from tests.support import plugin_class

PROFILE = 'profile="default-scheduler"'

# Series that the reference has after its recorded run and kubesched never has
# (docs/differences.md): there is no cache for batches of equal pods here, only the answer cache.
ABSENT = {
    "scheduler_batch_cache_flushed_total",
    "scheduler_store_schedule_results_duration_seconds",
}


class Run:
    """A scheduler on an embedded cluster, and its metrics as text."""

    def __init__(self, *plugins: type[Plugin]) -> None:
        self.clock = current_clock()
        self.fault: Fault | None = None
        self.store = Store(derive(1, "store"), now_ns=self.clock.now_ns())
        self.api = LocalApi(self.store, self.clock)
        self.registry = CollectorRegistry()
        configuration = default_configuration()
        profile = configuration.profiles[0]
        point = profile.plugins.multi_point
        enabled = (*point.enabled, *(PluginRef(cls.name) for cls in plugins))
        profile = replace(
            profile, plugins=replace(profile.plugins, multi_point=replace(point, enabled=enabled))
        )
        self.scheduler = Scheduler(
            LocalApi(self.store, self.clock, faults=self._before),
            self.clock,
            configuration=replace(configuration, profiles=(profile,)),
            registry={**IN_TREE_PLUGINS, **{cls.name: cls for cls in plugins}},
            metrics=SchedulerMetrics(self.registry),
        )

    def _before(self, verb: str, _kind: str, _namespace: str | None, _name: str) -> Fault | None:
        return self.fault if verb == "bind" else None

    async def add(self, *objects: Node | Pod) -> None:
        for each in objects:
            metadata = replace(each.metadata, resource_version="", uid="")
            await self.api.create(replace(each, metadata=metadata))

    def page(self) -> str:
        return render(self.registry)

    def value(self, series: str) -> float:
        """The value of a series, spelled as on the page; 0 if it is not there."""
        for line in self.page().splitlines():
            name, _, number = line.rpartition(" ")
            if name == series:
                return float(number)
        return 0.0


def pod(name: str, **wishes: Any) -> Pod:
    return make_pod(name, images=["registry.example/app:v1"], **wishes)


def run(steps: Callable[[Run], Awaitable[None]], *plugins: type[Plugin]) -> Run:
    async def main() -> Run:
        made = Run(*plugins)
        async with running(made.scheduler):
            await steps(made)
            await made.clock.sleep(SECOND)
        return made

    finished: Run = virtual_loop.run(main)
    return finished


async def recorded_steps(run: Run) -> None:
    """Create nodes and four pods: one fits, one is too large, one is gated, one matches no node."""
    await run.add(*(make_node(f"node-{number}", pods=10) for number in range(20)))
    await run.add(
        pod("fits", requests={"cpu": "100m"}),
        pod("toobig", requests={"cpu": "100"}),
        pod("gated", gates=["example.com/wait"]),
        pod("nolabel", node_selector={"no": "such"}),
    )
    await run.clock.sleep(SECOND)
    await run.add(*(pod(f"more-{number}", requests={"cpu": "100m"}) for number in range(60)))


def families(page: str) -> dict[str, tuple[str, set[str]]]:
    """Name to type and label names, of every family that has series."""
    found: dict[str, tuple[str, set[str]]] = {}
    for line in page.splitlines():
        if line.startswith("# TYPE scheduler_"):
            _, _, name, kind = line.split(" ")
            found[name] = (kind, set())
        elif line.startswith("scheduler_"):
            series = line.split("{")[0].split(" ")[0]
            name = next(
                each
                for each in (series, re.sub(r"_(bucket|sum|count)$", "", series))
                if each in found
            )
            found[name][1].update(re.findall(r'[{,]([a-z_]+)="', line))
    return found


def bounds(page: str) -> dict[str, list[str]]:
    """Histogram to the bounds of its first series."""
    found: dict[str, list[str]] = {}
    for name, bound in re.findall(r'^(scheduler_\w+)_bucket\{.*le="([^"]+)"\}', page, re.M):
        if "+Inf" not in found.setdefault(name, []):
            found[name].append(bound)
    return found


def test_a_run_shows_the_series_that_the_reference_recorded(goldens: Path) -> None:
    page = run(recorded_steps).page()
    recorded = (goldens / "api/metrics.txt").read_text()
    ours, theirs = families(page), families(recorded)
    assert theirs.keys() - ours.keys() == ABSENT
    # A run in which hints are called shows the series that others lack.
    assert ours.keys() - theirs.keys() <= {"scheduler_queueing_hint_execution_duration_seconds"}
    for name in theirs.keys() & ours.keys():
        assert ours[name] == theirs[name], name
    our_bounds, their_bounds = bounds(page), bounds(recorded)
    for name in their_bounds.keys() - ABSENT:
        assert our_bounds[name] == their_bounds[name], name


def test_attempts_by_result() -> None:
    finished = run(recorded_steps)
    attempts = "scheduler_schedule_attempts_total"
    assert finished.value(f'{attempts}{{{PROFILE},result="scheduled"}}') == 61
    assert finished.value(f'{attempts}{{{PROFILE},result="unschedulable"}}') == 2
    durations = "scheduler_scheduling_attempt_duration_seconds_count"
    assert finished.value(f'{durations}{{{PROFILE},result="scheduled"}}') == 61
    assert finished.value("scheduler_scheduling_algorithm_duration_seconds_count") == 63
    assert finished.value("scheduler_pod_scheduling_attempts_count") == 61
    assert finished.value("scheduler_pod_scheduling_attempts_sum") == 61
    waited = 'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"}'
    assert finished.value(waited) == 61


def test_a_failed_binding_is_an_error_and_counts_as_an_attempt_more() -> None:
    async def steps(run: Run) -> None:
        await run.add(make_node("n"))
        refusal = ApiError(ApiStatus(code=500, reason="InternalError", message="no"))
        run.fault = Fault(error=refusal)
        await run.add(pod("p"))
        await run.clock.sleep(SECOND // 2)
        run.fault = None
        await run.clock.sleep(20 * SECOND)

    finished = run(steps)
    attempts = "scheduler_schedule_attempts_total"
    assert finished.value(f'{attempts}{{{PROFILE},result="error"}}') == 1
    assert finished.value(f'{attempts}{{{PROFILE},result="scheduled"}}') == 1
    assert finished.value("scheduler_pod_scheduling_attempts_sum") == 2
    waited = "scheduler_pod_scheduling_sli_duration_seconds"
    assert finished.value(f'{waited}_count{{attempts="2"}}') == 1
    assert finished.value(f'{waited}_sum{{attempts="2"}}') >= 1
    assert finished.value('scheduler_goroutines{operation="binding"}') == 0


def test_every_point_of_an_attempt_is_timed_once() -> None:
    async def steps(run: Run) -> None:
        await run.add(*(make_node(f"n{number}") for number in range(3)))
        await run.add(pod("p"))

    finished = run(steps)
    point = "scheduler_framework_extension_point_duration_seconds_count"
    for name, status in {
        "PreEnqueue": "Success",
        "PreFilter": "Success",
        "Filter": "Success",
        "PreScore": "Success",
        "Score": "Success",
        "Reserve": "Success",
        "Permit": "Success",
        "PreBindPreFlight": "Skip",
        "PreBind": "Success",
        "Bind": "Success",
        "PostBind": "Success",
    }.items():
        series = f'{point}{{extension_point="{name}",{PROFILE},status="{status}"}}'
        assert finished.value(series) == 1, name


def test_evaluations_count_the_nodes_that_a_plugin_evaluated() -> None:
    async def steps(run: Run) -> None:
        await run.add(
            *(make_node(f"n{number}") for number in range(9)),
            make_node("tainted", unschedulable=True),
        )
        await run.add(pod("p", requests={"cpu": "100m"}))

    finished = run(steps)

    def evaluations(point: str, plugin: str) -> float:
        labels = f'extension_point="{point}",plugin="{plugin}",{PROFILE}'
        return finished.value(f"scheduler_plugin_evaluation_total{{{labels}}}")

    assert evaluations("PreFilter", "NodeResourcesFit") == 1
    assert evaluations("PreFilter", "NodePorts") == 0
    assert evaluations("Filter", "NodeUnschedulable") == 10
    assert evaluations("Filter", "NodeResourcesFit") == 9
    assert evaluations("Filter", "NodePorts") == 0
    assert evaluations("PreScore", "NodeResourcesFit") == 1
    assert evaluations("Score", "NodeResourcesFit") == 9


def test_equal_pods_are_placed_from_cached_answers() -> None:
    finished = run(recorded_steps)
    used = finished.value(
        'scheduler_batch_attempts_total{profile="default-scheduler",result="hint_used"}'
    )
    assert 0 < used < 61


def test_waiting_on_permit_is_timed_by_its_outcome() -> None:
    impatient = plugin_class("Impatient", permit=lambda *_: Wait(3 * SECOND))

    async def steps(run: Run) -> None:
        await run.add(make_node("n"), pod("p"))
        await run.clock.sleep(4 * SECOND)

    finished = run(steps, impatient)
    waited = "scheduler_permit_wait_duration_seconds"
    assert finished.value(f'{waited}_count{{result="Unschedulable"}}') >= 1
    assert finished.value(f'{waited}_sum{{result="Unschedulable"}}') == pytest.approx(3, abs=0.1)


def test_handled_events_are_counted_by_their_label() -> None:
    finished = run(recorded_steps)
    handled = "scheduler_event_handling_duration_seconds_count"
    assert finished.value(f'{handled}{{event="NodeAdd"}}') == 20
    assert finished.value(f'{handled}{{event="UnschedulablePodAdd"}}') == 64
    assert finished.value(f'{handled}{{event="UnschedulablePodDelete"}}') == 61
    assert finished.value(f'{handled}{{event="AssignedPodAdd"}}') == 61
    # Conditions of the two that found no node.
    assert finished.value(f'{handled}{{event="UnschedulablePodUpdate"}}') == 2


def test_the_size_of_the_cache_is_what_it_is_when_read() -> None:
    async def steps(run: Run) -> None:
        await recorded_steps(run)
        assert run.value('scheduler_cache_size{type="pods"}') == 1
        await run.clock.sleep(SECOND)
        assert run.value('scheduler_cache_size{type="pods"}') == 61
        assert run.value('scheduler_cache_size{type="nodes"}') == 20
        assert run.value('scheduler_cache_size{type="assumed_pods"}') == 0

    run(steps)


def test_about_one_attempt_in_ten_times_its_plugins() -> None:
    async def steps(run: Run) -> None:
        await run.add(*(make_node(f"n{number}", pods=500) for number in range(2)))
        await run.add(*(pod(f"p{number}") for number in range(300)))

    finished = run(steps)
    labels = 'extension_point="PreFilter",plugin="NodeResourcesFit",status="Success"'
    sampled = finished.value(f"scheduler_plugin_execution_duration_seconds_count{{{labels}}}")
    assert 10 <= sampled <= 60
