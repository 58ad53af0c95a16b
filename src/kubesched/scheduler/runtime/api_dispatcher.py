"""Executes API calls outside the scheduling loop (docs/reference/04 §20.1).

An object has at most one waiting call and one in flight. Objects are served in the order in which
their waiting calls were added, at most `limit` at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from kubesched.api import Pod
from kubesched.api.access import ApiAccess, ApiError
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.logging import get_logger
from kubesched.framework.background_calls import (
    BackgroundCall,
    BackgroundCallOutcome,
    BackgroundCallResult,
)

__all__ = ["BackgroundApiDispatcher"]

log = get_logger(__name__)

_SKIPPED = BackgroundCallResult(BackgroundCallOutcome.SKIPPED)
_OVERWRITTEN = BackgroundCallResult(BackgroundCallOutcome.OVERWRITTEN)


class _AwaitedCall:
    """A call and the future of its result."""

    __slots__ = ("call", "result")

    def __init__(self, call: BackgroundCall, result: asyncio.Future[BackgroundCallResult]) -> None:
        self.call, self.result = call, result


class BackgroundApiDispatcher:
    """An `ApiDispatcher` whose tasks belong to the scheduler."""

    def __init__(
        self,
        api: ApiAccess,
        metrics: SchedulerMetrics,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        monotonic_ns: Callable[[], int],
        limit: int,
    ) -> None:
        self._api, self._metrics, self._spawn = api, metrics, spawn
        self._monotonic_ns = monotonic_ns
        self._limit = limit
        # By uid. An object with a waiting call is also in `_order`, unless one is in flight.
        self._waiting: dict[str, _AwaitedCall] = {}
        self._in_flight: dict[str, BackgroundCall] = {}
        self._order: deque[str] = deque()

    def add(self, call: BackgroundCall) -> asyncio.Future[BackgroundCallResult]:
        result: asyncio.Future[BackgroundCallResult] = asyncio.get_running_loop().create_future()
        waiting, in_flight = self._waiting.get(call.uid), self._in_flight.get(call.uid)
        older = in_flight if waiting is None else waiting.call
        if older is not None and older.relevance > call.relevance:
            result.set_result(_SKIPPED)
            return result
        if older is not None and older.call_type == call.call_type:
            call.merge(older)
        if in_flight is None and call.is_no_op():
            self._drop(call.uid, _OVERWRITTEN)
            result.set_result(_SKIPPED)
            return result
        added = _AwaitedCall(call, result)
        if waiting is not None:
            self._finish(waiting, _OVERWRITTEN)
        elif in_flight is None:
            self._order.append(call.uid)
        self._waiting[call.uid] = added
        self._count_waiting(call, 1)
        self._start()
        return result

    def sync(self, pod: Pod) -> None:
        """Compute the waiting call for a pod from its newest version; drop it if it is done."""
        uid = pod.metadata.uid
        waiting = self._waiting.get(uid)
        if waiting is None:
            return
        waiting.call.sync(pod)
        if uid not in self._in_flight and waiting.call.is_no_op():
            self._drop(uid, _SKIPPED)

    def _drop(self, uid: str, result: BackgroundCallResult) -> None:
        waiting = self._waiting.pop(uid, None)
        if waiting is not None:
            self._order.remove(uid)
            self._finish(waiting, result)

    def _finish(self, waiting: _AwaitedCall, result: BackgroundCallResult) -> None:
        """End a call that is not executed."""
        self._count_waiting(waiting.call, -1)
        _resolve(waiting, result)

    def _start(self) -> None:
        while self._order and len(self._in_flight) < self._limit:
            uid = self._order.popleft()
            waiting = self._waiting.pop(uid)
            self._count_waiting(waiting.call, -1)
            self._in_flight[uid] = waiting.call
            self._spawn(self._execute(waiting), f"api-call-{waiting.call.call_type}")

    async def _execute(self, waiting: _AwaitedCall) -> None:
        call, started_ns = waiting.call, self._monotonic_ns()
        error: Exception | None = None
        try:
            await call.execute(self._api)
        except ApiError as exc:
            error = exc
        finally:
            uid = call.uid
            del self._in_flight[uid]
            if uid in self._waiting:
                self._order.append(uid)
            self._observe(call, "success" if error is None else "error", started_ns)
            _resolve(waiting, BackgroundCallResult(BackgroundCallOutcome.EXECUTED, error))
            self._start()

    def _count_waiting(self, call: BackgroundCall, change: int) -> None:
        gauge = self._metrics.pending_async_api_calls
        if gauge is not None:
            gauge.labels(call.call_type).inc(change)

    def _observe(self, call: BackgroundCall, result: str, started_ns: int) -> None:
        total = self._metrics.async_api_call_execution_total
        duration = self._metrics.async_api_call_execution_duration_seconds
        if total is not None and duration is not None:
            total.labels(call.call_type, result).inc()
            duration.labels(call.call_type, result).observe_ns(self._monotonic_ns() - started_ns)


def _resolve(waiting: _AwaitedCall, result: BackgroundCallResult) -> None:
    if not waiting.result.done():  # it may have been cancelled with the task that awaits it
        waiting.result.set_result(result)
