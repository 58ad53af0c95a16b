"""Cycles that are also spans: attempts, bindings, and the whole of a pod once it is bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesched.foundation.util.spans import SpanContext, Tracer, current_span
from kubesched.framework import Nominating, QueuedPodInfo, Status
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.cycles.binding_cycle import BindingCycle, PodPlacement
from kubesched.scheduler.cycles.extender_cycle import ExtenderCycle
from kubesched.scheduler.cycles.scheduling_cycle import AttemptPausedError, SchedulingCycle
from kubesched.scheduler.extenders.extender import HTTPExtender
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.schedule_result import ScheduleResult

__all__ = ["TracedBindingCycle", "TracedExtenderCycle", "TracedSchedulingCycle"]


def _attributes(framework: Framework, queued: QueuedPodInfo) -> dict[str, str | int]:
    metadata = queued.pod.metadata
    return {
        "k8s.namespace.name": metadata.namespace,
        "k8s.pod.name": metadata.name,
        "k8s.pod.uid": metadata.uid,
        "kubesched.profile": framework.profile_name,
        "kubesched.attempt": queued.attempts,
    }


class TracedSchedulingCycle(SchedulingCycle):
    """A span `attempt` for each attempt."""

    def __init__(self, tracer: Tracer, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tracer = tracer

    def run(self, framework: Framework, queued: QueuedPodInfo) -> PodPlacement | None:
        span = self.tracer.begin(queued.pod.metadata.uid, queued.attempts)
        if span is None:
            return super().run(framework, queued)
        token, started_ns = current_span.set(span), self.tracer.now_ns()
        try:
            placement = super().run(framework, queued)
        except AttemptPausedError:
            raise  # the attempt continues
        else:
            end_attempt(self.tracer, span, started_ns, framework, queued, placement)
            return placement
        finally:
            current_span.reset(token)

    def find_node(
        self, attempt: Attempt, *, makes_room: bool = True
    ) -> tuple[Status, str, Nominating | None, ScheduleResult | None]:
        if current_span.get() is not None:
            return super().find_node(attempt, makes_room=makes_room)
        # A member of a pod group: the group cycle runs the parts of attempts.
        queued = attempt.queued
        span = self.tracer.begin(queued.pod.metadata.uid, queued.attempts)
        if span is None:
            return super().find_node(attempt, makes_room=makes_room)
        token, started_ns = current_span.set(span), self.tracer.now_ns()
        try:
            found = super().find_node(attempt, makes_room=makes_room)
        finally:
            current_span.reset(token)
        attributes = {**_attributes(attempt.framework, queued), "k8s.node.name": found[1]}
        self.tracer.end(span, "attempt", started_ns, attributes)
        return found


def end_attempt(
    tracer: Tracer,
    span: SpanContext,
    started_ns: int,
    framework: Framework,
    queued: QueuedPodInfo,
    placement: PodPlacement | None,
) -> None:
    """End the span of an attempt that placed the pod, or did not."""
    attributes = _attributes(framework, queued)
    error = ""
    if placement is not None:
        attributes["k8s.node.name"] = placement.node_name
    else:
        plugins = queued.unschedulable_plugins | queued.pending_plugins
        attributes["kubesched.rejected_by"] = ",".join(sorted(plugins))
        error = "the pod was not placed"
    tracer.end(span, "attempt", started_ns, attributes, error)


class TracedExtenderCycle(ExtenderCycle):
    """A span `attempt` for each attempt that calls extenders."""

    def __init__(self, tracer: Tracer, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tracer = tracer

    async def run(
        self, framework: Framework, queued: QueuedPodInfo, extenders: Sequence[HTTPExtender]
    ) -> PodPlacement | None:
        span = self.tracer.begin(queued.pod.metadata.uid, queued.attempts)
        token, started_ns = current_span.set(span), self.tracer.now_ns()
        try:
            placement = await super().run(framework, queued, extenders)
        finally:
            current_span.reset(token)
        if span is not None:
            end_attempt(self.tracer, span, started_ns, framework, queued, placement)
        return placement


class TracedBindingCycle(BindingCycle):
    """A span `binding` for each binding, and the root of the trace once the pod is bound."""

    def __init__(self, tracer: Tracer, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tracer = tracer
        # The placements in progress whose pods are bound, by identity.
        self._bound: set[int] = set()

    async def run(self, placement: PodPlacement) -> None:
        queued = placement.attempt.queued
        parent = self.tracer.begin(queued.pod.metadata.uid, queued.attempts)
        if parent is None:
            await super().run(placement)
            return
        span = SpanContext(parent.trace_id, parent.span_id ^ 1, parent.attempt)
        token, started_ns = current_span.set(span), self.tracer.now_ns()
        try:
            await super().run(placement)
        finally:
            current_span.reset(token)
            attributes = _attributes(placement.framework, queued)
            attributes["k8s.node.name"] = placement.node_name
            is_bound = id(placement) in self._bound
            self._bound.discard(id(placement))
            error = "" if is_bound else "the pod was not bound"
            self.tracer.end(span, "binding", started_ns, attributes, error)
        if is_bound and queued.initial_attempt_timestamp_ns is not None:
            metadata = queued.pod.metadata
            name = f"pod {metadata.namespace}/{metadata.name}"
            self.tracer.root(metadata.uid, name, queued.initial_attempt_timestamp_ns, attributes)

    def _succeed(self, placement: PodPlacement) -> None:
        self._bound.add(id(placement))
        super()._succeed(placement)
