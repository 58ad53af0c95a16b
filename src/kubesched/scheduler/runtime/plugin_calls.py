"""Calls of plugins: whatever they raise, or answer against the contract, becomes a PluginError."""

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
from kubesched.framework.wrong_answer import is_sound, wrong_answer
from kubesched.scheduler.runtime.point_metrics import PluginTimer

__all__ = [
    "ADD_POD",
    "PRE_FILTER",
    "PRE_SCORE",
    "REMOVE_POD",
    "THROWN",
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
# What metrics call the point at which a plugin is called.
_POINTS = {
    PRE_FILTER: "PreFilter",
    FILTER: "Filter",
    ADD_POD: "PreFilterExtensionAddPod",
    REMOVE_POD: "PreFilterExtensionRemovePod",
    PRE_SCORE: "PreScore",
    _SCORE: "Score",
    _NORMALIZE: "ScoreExtensionNormalize",
}

_SUCCESS = Code.SUCCESS
# What a call may raise that is the plugin's failure: anything, but for the user's Ctrl-C, which
# `failure_of` and `pass_on_interrupt` raise again.
THROWN: Final = BaseException


def call(what: str, plugin: Plugin, method: Any, *args: Any) -> Any:
    """Call a plugin; whatever it throws becomes a PluginError that says where.

    The first argument of the method is the state of the attempt.
    """
    timer: PluginTimer | None = args[0].plugin_timer
    started_ns = 0 if timer is None else timer.now_ns()
    code = Code.ERROR
    try:
        answer = method(*args)
        # Other answers than a status come from plugins that had no objection as a whole.
        code = answer.code if is_sound(answer) else _SUCCESS
        return answer
    except PluginError:
        raise
    except THROWN as exc:
        raise thrown(what, plugin, exc) from exc
    finally:
        if timer is not None:
            timer.observe(plugin.name, _POINTS[what], code, started_ns)


def thrown(what: str, plugin: Plugin, exc: BaseException) -> PluginError:
    """What a plugin threw, with where."""
    return PluginError(f"{what.format(plugin.name)}: {failure_of(exc).message}")


def call_for_status(what: str, plugin: Plugin, method: Any, *args: Any) -> Status:
    """Call a plugin that answers with a status."""
    return checked_status(what, plugin, call(what, plugin, method, *args))


def checked_status(what: str, plugin: Plugin, answer: Any) -> Status:
    """The answer of a plugin that must be a status; anything else fails the attempt."""
    return answer if is_sound(answer) else _no_answer(what, plugin, answer, "a Status")


def _no_answer(what: str, plugin: Plugin, answer: Any, wanted: str) -> NoReturn:
    error = wrong_answer(answer, wanted)
    raise PluginError(f"{what.format(plugin.name)}: {error}") from error


def fail(what: str, plugin: Plugin, status: Status) -> NoReturn:
    raise PluginError(f"{what.format(plugin.name)}: {status.message}") from status.error


def call_filter(plugin: Plugin, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
    """Verdicts on many nodes; one that is neither yes nor no fails the attempt."""
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
    """The verdict of the first plugin that rejects the node, with its name; None: it passes."""
    is_timed = state.plugin_timer is not None
    for plugin in plugins:
        # As `call`, without its cost: this is done for every node that changed.
        try:
            answer: Any = (
                call(FILTER, plugin, plugin.filter, state, pod, node)
                if is_timed
                else plugin.filter(state, pod, node)
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
    """A whole number, as in the many-node form, whatever kind of number the plugin returns."""
    try:
        score: Any = (
            plugin.score(state, pod, node)
            if state.plugin_timer is None
            else call(_SCORE, plugin, plugin.score, state, pod, node)
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
    """The score of one node by a plugin that does not normalise."""
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
    """Scores in 0..100; one out of range fails the attempt."""
    answer: Any = call(_NORMALIZE, plugin, plugin.normalize_score, state, pod, nodes, scores)
    normalized = _as_scores(_NORMALIZE, plugin, answer, len(nodes))
    check_range(plugin, normalized)
    return normalized


def _as_scores(what: str, plugin: Plugin, answer: Any, count: int) -> NDArray[np.int64]:
    """One whole number per node, whatever kind of sequence the plugin returns."""
    try:
        scores = np.asarray(answer, dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as exc:
        raise PluginError(f"{what.format(plugin.name)}: {exc}") from exc
    if scores.shape != (count,):
        _no_answer(what, plugin, answer, f"a score for each of {count} nodes")
    return scores


def check_range(plugin: Plugin, scores: NDArray[np.int64]) -> None:
    """Fail the attempt if a score is out of 0..100."""
    # Read without a sign, negative numbers are large: one pass looks at both ends.
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
    """Whether somebody wants the current task to end: what was thrown is not the plugin's then."""
    task = asyncio.current_task()
    if isinstance(thrown, GeneratorExit):
        return task is None  # a coroutine that is closed, not by its task, and must not go on
    return task is not None and task.cancelling() > 0


def failure_of(thrown: BaseException) -> Status:
    """What a plugin threw, as an outcome."""
    pass_on_interrupt(thrown)
    if isinstance(thrown, Exception):
        return Status.failure(thrown)
    # What ends a task or a process must not, when it is passed on as somebody's error.
    error = PluginError(f"the plugin raised {type(thrown).__name__}({thrown})")
    error.__cause__ = thrown
    return Status.failure(error)


def as_status(answer: Any) -> Status:
    """The answer of a plugin that must be a status; anything else is a failure."""
    return answer if is_sound(answer) else Status.failure(wrong_answer(answer, "a Status"))


def as_permit_answer(answer: Any) -> Status | Wait:
    """The answer of Permit."""
    if isinstance(answer, Wait):
        if isinstance(answer.timeout_ns, int) and is_sound(Status(Code.WAIT, answer.reasons)):
            return answer
    elif is_sound(answer):
        return answer
    return Status.failure(wrong_answer(answer, "a Status or a Wait"))


def as_post_filter_result(answer: Any) -> PostFilterResult:
    """The answer of PostFilter."""
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
