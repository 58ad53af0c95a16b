"""Spans of pods: attempts, extension points, requests and bindings, and the trace of each pod."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.log_output import JsonFormatter
from kubesched.foundation.util.logging import LogMessage
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.spans import (
    FinishedSpan,
    Tracer,
    attempt_id_of,
    trace_fields,
    trace_id_of,
)
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import CycleState, Plugin, Wait
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod


class Holds(Plugin):
    """Makes pods wait on Permit for two seconds; then they are rejected."""

    name = "Holds"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return Wait(2 * SECOND)


class Traces:
    """A scheduler that reports spans."""

    def __init__(self, *profiles: dict[str, Any], ratio: float = 1.0) -> None:
        self.spans: list[FinishedSpan] = []
        clock = current_clock()
        store = Store(derive(0, "store"), now_ns=clock.now_ns())
        self.api = LocalApi(store, clock)
        self.scheduler = Scheduler(
            self.api,
            clock,
            profiles=profiles or None,
            out_of_tree_registry={"Holds": Holds},
            spans=self.spans.append,
            trace_ratio=ratio,
        )

    async def add(self, made: Any) -> Any:
        metadata = replace(made.metadata, resource_version="", uid="")
        return await self.api.create(replace(made, metadata=metadata))

    def of(self, pod: Pod) -> dict[str, list[FinishedSpan]]:
        """Return the spans of a pod by name, in the order in which they ended."""
        found: dict[str, list[FinishedSpan]] = defaultdict(list)
        for span in self.spans:
            if span.trace_id == trace_id_of(pod.metadata.uid):
                found[span.name].append(span)
        return found


def a_pod(name: str, cpu: str) -> Pod:
    return make_pod(name, requests={"cpu": cpu}, images=["i"])


def test_a_pod_has_one_trace_from_the_queue_to_its_binding() -> None:
    async def main() -> None:
        traces = Traces()
        pod = await traces.add(a_pod("p", "8"))
        await traces.add(make_node("small", cpu="1"))
        async with running(traces.scheduler):
            await asyncio.sleep(10)
            await traces.add(make_node("large", cpu="16"))
            await asyncio.sleep(20)
        spans = traces.of(pod)
        (root,), first, second = spans["pod default/p"], *spans["attempt"]
        assert root.parent_id == 0
        assert root.trace_id == UUID(pod.metadata.uid).int
        assert {first.parent_id, second.parent_id} == {root.span_id}
        assert [first.span_id, second.span_id] == [
            attempt_id_of(pod.metadata.uid, number) for number in (1, 2)
        ]
        assert (bool(first.error), bool(second.error)) == (True, False)
        assert first.attributes["kubesched.rejected_by"] == "NodeResourcesFit"
        assert second.attributes["k8s.node.name"] == "large"
        (binding,) = spans["binding"]
        assert binding.parent_id == root.span_id
        (bind,) = spans["bind Pod"]
        assert bind.parent_id == binding.span_id
        assert {"PreFilter", "Filter", "Reserve", "Bind", "patch Pod"} <= spans.keys()
        assert {span.parent_id for span in spans["PreFilter"]} == {first.span_id, second.span_id}
        assert [span.parent_id for span in spans["patch Pod"]] == [first.span_id]
        assert all(root.start_ns <= span.start_ns <= span.end_ns for span in traces.spans)
        assert max(span.end_ns for span in traces.spans) == root.end_ns
        ids = [span.span_id for span in traces.spans]
        assert len(ids) == len(set(ids))

    run(main)


def test_a_binding_that_fails_has_an_error_and_no_root() -> None:
    async def main() -> None:
        held = {"plugins": {"multiPoint": {"enabled": [{"name": "Holds"}]}}}
        traces = Traces(held)
        pod = await traces.add(a_pod("p", "1"))
        await traces.add(make_node("n"))
        async with running(traces.scheduler):
            await asyncio.sleep(3)
        spans = traces.of(pod)
        binding = spans["binding"][0]
        assert binding.error == "the pod was not bound"
        assert binding.end_ns - binding.start_ns == 2 * SECOND
        assert "pod default/p" not in spans

    run(main)


def test_the_ratio_selects_whole_traces() -> None:
    async def main() -> set[int]:
        traces = Traces(ratio=0.5)
        await traces.add(make_node("n", cpu="64"))
        for number in range(60):
            await traces.add(a_pod(f"p{number}", "10m"))
        async with running(traces.scheduler):
            await asyncio.sleep(5)
        roots = {span.trace_id for span in traces.spans if span.parent_id == 0}
        assert {span.trace_id for span in traces.spans} == roots
        return roots

    assert 15 < len(run(main)) < 45


def test_log_lines_about_a_pod_lead_to_its_trace() -> None:
    uid = "6f1d0f5c-21a7-4f0e-9d35-0123456789ab"
    formatter = JsonFormatter()
    message = LogMessage("Unable to schedule pod", {"pod": make_pod("p", uid=uid)})
    record = logging.LogRecord("kubesched.x", logging.INFO, "a/b.py", 1, message, (), None)
    assert "traceID" not in formatter.format(record)
    formatter.pod_fields = trace_fields
    line = json.loads(formatter.format(record))
    assert line["traceID"] == uid.replace("-", "")
    assert line["podUID"] == uid
    assert "spanID" not in line
    tracer = Tracer(lambda _: None, lambda ns: ns, lambda: 0)
    span = tracer.begin(uid, 3)
    assert span is not None
    assert span.span_id == attempt_id_of(uid, 3)


def test_without_a_sink_the_scheduler_has_no_part_that_traces() -> None:
    """Without a sink the classes of the hot path are the plain ones, so tracing costs nothing."""

    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
        scheduler = Scheduler(api, clock)
        parts = [scheduler._scheduling, scheduler._binding, scheduler.services.api]
        parts += [framework.point_metrics for framework in scheduler.profiles.values()]
        assert [type(part).__name__ for part in parts if "Traced" in type(part).__name__] == []

    run(main)
