"""Calls of plugins. Exceptions and answers that break the contract become PluginErrors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.errors import PluginError
from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.framework import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    REJECTED,
    SUCCESS,
    Code,
    CycleState,
    NodeInfo,
    NodeView,
    Nominating,
    NominatingMode,
    Plugin,
    PostFilterResult,
    Rejections,
    Status,
    Wait,
)
from kubesched.framework.engine import kernels
from kubesched.framework.wrong_answer import is_sound, wrong_answer
from kubesched.scheduler.runtime.point_metrics import PluginTimer

__all__ = [
    "ADD_POD",
    "NORMALIZE_PLACEMENTS",
    "PLACEMENT_GENERATE",
    "PLACEMENT_SCORE",
    "PRE_FILTER",
    "PRE_SCORE",
    "REMOVE_POD",
    "THROWN",
    "add_in_range",
    "add_normalized",
    "as_permit_answer",
    "as_post_filter_result",
    "as_status",
    "call",
    "call_filter",
    "call_for_status",
    "call_normalize",
    "call_score",
    "call_score_of_node",
    "check_range",
    "checked_score",
    "checked_status",
    "fail",
    "failure_of",
    "first_rejection",
    "is_being_ended",
    "thrown",
]

PRE_FILTER = 'running PreFilter plugin "{}"'
FILTER = 'running "{}" filter plugin'
ADD_POD = 'running AddPod on PreFilter plugin "{}"'
REMOVE_POD = 'running RemovePod on PreFilter plugin "{}"'
PRE_SCORE = 'running PreScore plugin "{}"'
_SCORE = 'running Score plugins: plugin "{}" failed with'
_NORMALIZE = 'running Normalize on Score plugins: plugin "{}" failed with'
PLACEMENT_GENERATE = 'running PlacementGenerate plugin "{}"'
PLACEMENT_SCORE = 'running PlacementScore plugins: plugin "{}" failed with'
NORMALIZE_PLACEMENTS = (
    'running NormalizePlacementScore on PlacementScore plugins: plugin "{}" failed with'
)
# The labels of extension points in metrics.
_POINTS = {
    PRE_FILTER: "PreFilter",
    FILTER: "Filter",
    ADD_POD: "PreFilterExtensionAddPod",
    REMOVE_POD: "PreFilterExtensionRemovePod",
    PRE_SCORE: "PreScore",
    _SCORE: "Score",
    _NORMALIZE: "ScoreExtensionNormalize",
    PLACEMENT_GENERATE: "PlacementGenerate",
    PLACEMENT_SCORE: "PlacementScore",
    NORMALIZE_PLACEMENTS: "PlacementScoreExtensionNormalize",
}

_SUCCESS = Code.SUCCESS
# Whatever a plugin raises is its failure, except the user's Ctrl-C: `failure_of` and
# `pass_on_interrupt` raise that again.
THROWN: Final = BaseException


def call(what: str, plugin: Plugin, method: Any, *args: Any) -> Any:
    """Call a plugin; an exception becomes a PluginError with the extension point and plugin.

    The first argument of the method is the state of the attempt.
    """
    timer: PluginTimer | None = args[0].plugin_timer
    try:
        if timer is None:
            return method(*args)
        return _timed(timer, what, plugin, method, *args)
    except PluginError:
        raise
    except THROWN as exc:
        raise thrown(what, plugin, exc) from exc


def _timed(timer: PluginTimer, what: str, plugin: Plugin, method: Any, *args: Any) -> Any:
    started_ns = timer.now_ns()
    code = Code.ERROR
    try:
        answer = method(*args)
        # An answer that is no status, such as scores, means success.
        code = answer.code if is_sound(answer) else _SUCCESS
        return answer
    finally:
        timer.observe(plugin.name, _POINTS[what], code, started_ns)


def thrown(what: str, plugin: Plugin, exc: BaseException) -> PluginError:
    """Return the PluginError for an exception of a plugin."""
    return PluginError(f"{what.format(plugin.name)}: {failure_of(exc).message}")


def call_for_status(what: str, plugin: Plugin, method: Any, *args: Any) -> Status:
    """Call a plugin method that returns a status."""
    return checked_status(what, plugin, call(what, plugin, method, *args))


def checked_status(what: str, plugin: Plugin, answer: Any) -> Status:
    """Return a plugin's answer if it is a status.

    Raises:
        PluginError: it is something else.
    """
    return answer if is_sound(answer) else _no_answer(what, plugin, answer, "a Status")


def _no_answer(what: str, plugin: Plugin, answer: Any, wanted: str) -> NoReturn:
    error = wrong_answer(answer, wanted)
    raise PluginError(f"{what.format(plugin.name)}: {error}") from error


def fail(what: str, plugin: Plugin, status: Status) -> NoReturn:
    raise PluginError(f"{what.format(plugin.name)}: {status.message}") from status.error


def call_filter(plugin: Plugin, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
    """Return a plugin's verdicts on many nodes.

    Raises:
        PluginError: the plugin failed, or a verdict is neither success nor a rejection.
    """
    rejections: Any = call(FILTER, plugin, plugin.filter_nodes, state, pod, nodes)
    if not isinstance(rejections, Rejections):
        _no_answer(FILTER, plugin, rejections, "Rejections")
    codes = rejections.codes
    if codes is not None:
        for number, status in enumerate(rejections.statuses, start=1):
            checked_status(FILTER, plugin, status)
            if status.code not in REJECTED and (codes == number).any():
                fail(FILTER, plugin, status)
    return rejections


def first_rejection(
    plugins: Sequence[Plugin], state: CycleState, pod: Pod, node: NodeInfo
) -> Status | None:
    """Return the first rejection of the node, with the plugin's name; None if it passes."""
    is_timed = state.plugin_timer is not None
    for plugin in plugins:
        method: Any = plugin.filter  # it may return anything
        # As `call`, without its cost: this runs for every node that changed.
        try:
            answer = (
                call(FILTER, plugin, method, state, pod, node)
                if is_timed
                else method(state, pod, node)
            )
        except PluginError:
            raise
        except THROWN as exc:
            raise thrown(FILTER, plugin, exc) from exc
        if answer is SUCCESS:
            continue
        status = checked_status(FILTER, plugin, answer)
        if status.is_success:
            continue
        if not status.is_rejected:
            fail(FILTER, plugin, status)
        return status.blame(plugin.name)
    return None


def call_score_of_node(plugin: Plugin, state: CycleState, pod: Pod, node: NodeInfo) -> int:
    """Return a plugin's score of one node as an int, whatever kind of number it returns."""
    method: Any = plugin.score  # it may return anything
    try:
        score = (
            method(state, pod, node)
            if state.plugin_timer is None
            else call(_SCORE, plugin, method, state, pod, node)
        )
    except PluginError:
        raise
    except THROWN as exc:
        raise thrown(_SCORE, plugin, exc) from exc
    if type(score) is int:
        return score
    try:
        return int(score)
    except (TypeError, ValueError, OverflowError) as exc:
        raise PluginError(f"{_SCORE.format(plugin.name)}: {exc}") from exc


def checked_score(plugin: Plugin, state: CycleState, pod: Pod, node: NodeInfo) -> int:
    """Return the score of one node by a plugin that does not normalise."""
    score = call_score_of_node(plugin, state, pod, node)
    if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
        raise _out_of_range(plugin, score)
    return score


def call_score(plugin: Plugin, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
    scores: Any = call(_SCORE, plugin, plugin.score_nodes, state, pod, nodes)
    return _as_scores(_SCORE, plugin, scores, len(nodes))


def call_normalize(
    plugin: Plugin, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return normalised scores. One outside 0..100 is a PluginError."""
    normalized = _normalized(plugin, state, pod, nodes, scores)
    check_range(plugin, normalized)
    return normalized


def add_normalized(
    total: NDArray[np.int64],
    weight: int,
    plugin: Plugin,
    state: CycleState,
    pod: Pod,
    nodes: NodeView,
    scores: NDArray[np.int64],
) -> None:
    """Normalise scores and add them to the total. One outside 0..100 is a PluginError."""
    normalized = _normalized(plugin, state, pod, nodes, scores)
    add_in_range(total, weight, plugin, normalized)


def add_in_range(
    total: NDArray[np.int64], weight: int, plugin: Plugin, scores: NDArray[np.int64]
) -> None:
    """Add weighted scores to the total. One outside 0..100 is a PluginError."""
    if not kernels.add_weighted(total, scores, weight, MAX_NODE_SCORE):
        check_range(plugin, scores)


def _normalized(
    plugin: Plugin, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
) -> NDArray[np.int64]:
    answer: Any = call(_NORMALIZE, plugin, plugin.normalize_score, state, pod, nodes, scores)
    return _as_scores(_NORMALIZE, plugin, answer, len(nodes))


def _as_scores(what: str, plugin: Plugin, answer: Any, count: int) -> NDArray[np.int64]:
    """Convert a plugin's scores to an array with one int64 per node."""
    try:
        scores = np.asarray(answer, dtype=np.int64, order="C")
    except (TypeError, ValueError, OverflowError) as exc:
        raise PluginError(f"{what.format(plugin.name)}: {exc}") from exc
    if scores.shape != (count,):
        _no_answer(what, plugin, answer, f"a score for each of {count} nodes")
    return scores


def check_range(plugin: Plugin, scores: NDArray[np.int64]) -> None:
    """Raise PluginError if a score is outside 0..100."""
    # As unsigned numbers, negative scores are large, so one comparison checks both bounds.
    if np.count_nonzero(scores.view(np.uint64) > MAX_NODE_SCORE):
        bad = (scores < MIN_NODE_SCORE) | (scores > MAX_NODE_SCORE)
        raise _out_of_range(plugin, int(scores[bad][0]))


def _out_of_range(plugin: Plugin, score: int) -> PluginError:
    return PluginError(
        "applying score defaultWeights on Score plugins: "
        f'plugin "{plugin.name}" returns an invalid score {score}, '
        f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )


def is_being_ended(thrown: BaseException) -> bool:
    """Whether the current task is being cancelled, so that an exception is not the plugin's."""
    task = asyncio.current_task()
    if isinstance(thrown, GeneratorExit):
        return task is None  # the coroutine is being closed from outside its task
    return task is not None and task.cancelling() > 0


def failure_of(thrown: BaseException) -> Status:
    """Return an exception of a plugin as a failure status."""
    pass_on_interrupt(thrown)
    if isinstance(thrown, Exception):
        return Status.failure(thrown)
    # An exception that would end a task or the process, such as SystemExit, is wrapped.
    error = PluginError(f"the plugin raised {type(thrown).__name__}({thrown})")
    error.__cause__ = thrown
    return Status.failure(error)


def as_status(answer: Any) -> Status:
    """Return a plugin's answer if it is a status; otherwise a failure status."""
    return answer if is_sound(answer) else Status.failure(wrong_answer(answer, "a Status"))


def as_permit_answer(answer: Any) -> Status | Wait:
    """Return the answer of Permit if it is valid; otherwise a failure status."""
    if isinstance(answer, Wait):
        if isinstance(answer.timeout_ns, int) and is_sound(Status(Code.WAIT, answer.reasons)):
            return answer
    elif is_sound(answer):
        return answer
    return Status.failure(wrong_answer(answer, "a Status or a Wait"))


def as_post_filter_result(answer: Any) -> PostFilterResult:
    """Return the answer of PostFilter if it is valid; otherwise a failure result."""
    if (
        isinstance(answer, PostFilterResult)
        and is_sound(answer.status)
        and (answer.nominating is None or _is_nomination(answer.nominating))
    ):
        return answer
    return PostFilterResult(Status.failure(wrong_answer(answer, "a PostFilterResult")))


def _is_nomination(answer: Any) -> bool:
    return (
        isinstance(answer, Nominating)
        and isinstance(answer.mode, NominatingMode)
        and isinstance(answer.node_name, str)
    )
