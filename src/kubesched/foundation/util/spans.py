"""Spans of traces: the steps of one pod's scheduling, with their times and their nesting.

The trace of an object is identified by the object's uid, and the span of an attempt by the uid and
the number of the attempt. Therefore a trace needs no state, and a uid in a log line identifies it.
`Tracer` passes finished spans to a sink, which exports them.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

import msgspec

__all__ = [
    "FinishedSpan",
    "SpanContext",
    "SpanSink",
    "Tracer",
    "attempt_id_of",
    "current_span",
    "trace_fields",
    "trace_id_of",
]

_RATIO_STEPS = 1_000_003  # a prime, so that the constant bits of a uid have no effect


class SpanContext(NamedTuple):
    """The span that is in progress, the parent of spans that begin now."""

    trace_id: int
    span_id: int
    attempt: int


class FinishedSpan(msgspec.Struct, frozen=True):
    """A span that has ended. Times are wall-clock times."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int  # 0: the root of the trace
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int]
    error: str = ""


SpanSink = Callable[[FinishedSpan], None]

# Tasks inherit it, so a request that a task sends later has the right parent.
current_span: contextvars.ContextVar[SpanContext | None] = contextvars.ContextVar(
    "current_span", default=None
)


class Tracer:
    """Numbers spans and passes them to a sink; `wall_ns` turns monotonic time into wall time."""

    def __init__(
        self,
        sink: SpanSink,
        wall_ns: Callable[[int], int],
        monotonic_ns: Callable[[], int],
        *,
        ratio: float = 1.0,
    ) -> None:
        """`ratio` is the share of pods that have a trace."""
        self._sink = sink
        self._wall_ns = wall_ns
        self.now_ns = monotonic_ns
        self._ratio = ratio
        self._spans = 0

    def begin(self, uid: str, attempt: int) -> SpanContext | None:
        """Return the span of an attempt at the pod with this uid; None if it is not sampled."""
        trace_id = trace_id_of(uid)
        if trace_id % _RATIO_STEPS >= self._ratio * _RATIO_STEPS:
            return None
        return SpanContext(trace_id, attempt_id_of(uid, attempt), attempt)

    def root(
        self, uid: str, name: str, start_wall_ns: int, attributes: Mapping[str, str | int]
    ) -> None:
        """End the trace of a pod."""
        trace_id = trace_id_of(uid)
        end_ns = max(self._wall_ns(self.now_ns()), start_wall_ns)
        self._sink(
            FinishedSpan(name, trace_id, root_id_of(trace_id), 0, start_wall_ns, end_ns, attributes)
        )

    def end(
        self,
        span: SpanContext,
        name: str,
        started_ns: int,
        attributes: Mapping[str, str | int],
        error: str = "",
    ) -> None:
        """End a span that began at this monotonic time; its parent is the root."""
        self._finish(
            span.trace_id,
            span.span_id,
            root_id_of(span.trace_id),
            name,
            started_ns,
            attributes,
            error,
        )

    def child(
        self,
        parent: SpanContext,
        name: str,
        started_ns: int,
        attributes: Mapping[str, str | int],
        error: str = "",
    ) -> None:
        """End a span inside the parent that began at this monotonic time and ends now."""
        self._spans += 1
        span_id = _short_hash(f"{parent.span_id:x}/{self._spans}")
        self._finish(parent.trace_id, span_id, parent.span_id, name, started_ns, attributes, error)

    def _finish(
        self,
        trace_id: int,
        span_id: int,
        parent_id: int,
        name: str,
        started_ns: int,
        attributes: Mapping[str, str | int],
        error: str,
    ) -> None:
        start_ns, end_ns = self._wall_ns(started_ns), self._wall_ns(self.now_ns())
        self._sink(
            FinishedSpan(name, trace_id, span_id, parent_id, start_ns, end_ns, attributes, error)
        )


def trace_id_of(uid: str) -> int:
    """Return the trace of an object: its uid as a number."""
    try:
        return UUID(uid).int or 1
    except ValueError:
        return int.from_bytes(sha256(uid.encode()).digest()[:16]) or 1


def trace_fields(uid: str) -> dict[str, str | int]:
    """Return the fields that lead from a log line about an object to its trace."""
    fields: dict[str, str | int] = {"podUID": uid, "traceID": f"{trace_id_of(uid):032x}"}
    span = current_span.get()
    if span is not None:
        fields |= {"spanID": f"{span.span_id:016x}", "attempt": span.attempt}
    return fields


def attempt_id_of(uid: str, attempt: int) -> int:
    """Return the span of an attempt."""
    return _short_hash(f"{uid}/{attempt}")


def root_id_of(trace_id: int) -> int:
    return _short_hash(f"{trace_id:x}")


def _short_hash(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8]) or 1
