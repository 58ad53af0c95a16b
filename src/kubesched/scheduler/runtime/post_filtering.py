"""PostFilter: calls the plugins of a profile in order (docs/reference/04 §8.3)."""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    Code,
    CycleState,
    Diagnosis,
    Nominating,
    NominatingMode,
    Plugin,
    PodInfo,
    PostFilterResult,
    Status,
    VictimReview,
)
from kubesched.scheduler.runtime.plugin_calls import (
    THROWN,
    as_post_filter_result,
    failure_of,
    is_being_ended,
)
from kubesched.scheduler.runtime.point_metrics import timing_of

__all__ = ["run_post_filter", "run_post_filter_with_review"]

log = get_logger(__name__)


def run_post_filter(
    plugins: Iterable[Plugin], state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
) -> PostFilterResult:
    """Call the plugins in order until one makes room for the pod."""
    combined = _CombinedResult()
    for plugin in plugins:
        with timing_of(state, plugin, "PostFilter") as timed:
            try:
                answer = plugin.post_filter(state, pod_info, diagnosis)
                result = as_post_filter_result(answer)
            except THROWN as exc:
                result = _thrown(plugin, pod_info, exc)
            timed.code = result.status.code
        if (final := combined.add(plugin, result)) is not None:
            return final
    return combined.rejection()


async def run_post_filter_with_review(
    plugins: Iterable[Plugin],
    state: CycleState,
    pod_info: PodInfo,
    diagnosis: Diagnosis,
    review: VictimReview,
) -> PostFilterResult:
    """As `run_post_filter`, with extenders that review the victims."""
    combined = _CombinedResult()
    for plugin in plugins:
        with timing_of(state, plugin, "PostFilter") as timed:
            try:
                answer = await plugin.post_filter_with_review(state, pod_info, diagnosis, review)
                result = as_post_filter_result(answer)
            except THROWN as exc:
                if is_being_ended(exc):
                    raise
                result = _thrown(plugin, pod_info, exc)
            timed.code = result.status.code
        if (final := combined.add(plugin, result)) is not None:
            return final
    return combined.rejection()


def _thrown(plugin: Plugin, pod_info: PodInfo, error: BaseException) -> PostFilterResult:
    failure = failure_of(error)
    # The attempt has failed in any case, so the error is logged and preemption is skipped.
    log.exception("PostFilter failed", error, plugin=plugin.name, pod=pod_info.pod)
    return PostFilterResult(failure)


class _CombinedResult:
    """The combined result of the plugins that have run so far."""

    def __init__(self) -> None:
        self._reasons: list[str] = []
        self._first_rejector = ""
        self._nominating: Nominating | None = None

    def add(self, plugin: Plugin, result: PostFilterResult) -> PostFilterResult | None:
        """Add a plugin's result; return the final result if no other plugin may run."""
        status = result.status
        if status.is_success:
            return result
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PostFilterResult(status.blame(plugin.name), result.nominating)
        if not status.is_rejected:
            error = status.as_error() or RuntimeError(status.message)
            return PostFilterResult(Status.failure(error).blame(plugin.name))
        self._reasons.extend(status.all_reasons)
        self._first_rejector = self._first_rejector or plugin.name
        if result.nominating and result.nominating.mode is not NominatingMode.NOOP:
            self._nominating = result.nominating
        return None

    def rejection(self) -> PostFilterResult:
        """Return the result when no plugin made room."""
        status = Status(Code.UNSCHEDULABLE, tuple(self._reasons), None, self._first_rejector)
        return PostFilterResult(status, self._nominating)
