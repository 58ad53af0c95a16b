"""Mutants of Reserve, Permit and the binding cycle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import SUCCESS, Code
from tests.fault_injection.mutants.mutant import (
    Mutant,
    no,
    nothing,
    replace,
    replace_names,
    with_value,
    without_call,
    wrap,
    yes,
)

__all__ = ["MUTANTS"]

_CYCLE = "kubesched.scheduler.cycles.binding_cycle.BindingCycle"
_POINTS = "kubesched.scheduler.runtime.binding_points.BindingPoints"
_WAITING = "kubesched.scheduler.runtime.waiting_pods"
_API = "kubesched.foundation.client.http_api"
_HANDLERS = "kubesched.scheduler.events.event_handlers.EventHandlers"
_TASKS = "kubesched.foundation.util.components.BackgroundTasks"


async def _ignore_conflict(original: Any, *args: Any) -> None:
    try:
        await original(*args)
    except ApiError as error:
        if error.code != 409:
            raise


async def _bind_any_uid(
    original: Any, self: Any, namespace: str, name: str, _uid: str, node: str
) -> None:
    await original(self, namespace, name, "", node)


async def _publish_first_node(original: Any, self: Any, pod: Pod, _node_name: str) -> None:
    await original(self, pod, "n0")


def _multiply_timeouts(original: Any, self: Any, pod: Pod, timeouts_ns: Mapping[str, int]) -> None:
    original(self, pod, {plugin: time_ns * SECOND for plugin, time_ns in timeouts_ns.items()})


def _succeed_always(original: Any, *args: Any) -> Any:
    original(*args)
    return SUCCESS


def _succeed_unless_waiting(original: Any, *args: Any) -> Any:
    status = original(*args)
    return status if status.code is Code.WAIT else SUCCESS


def _ignoring_outcome(wait_on_permit: Any) -> Any:
    async def wait(pod: Pod) -> Any:
        await wait_on_permit(pod)
        return SUCCESS

    return wait


def _fail_without_event(*, of_rejections: bool) -> Any:
    """A wrapper of `_fail` that requeues no other pods after a rejection, or after an error."""
    silenced = without_call(f"{_CYCLE}._fail", "self._queue.move_all").make

    def fail(original: Any, self: Any, placement: Any, status: Any) -> None:
        is_silenced = status.is_rejected == of_rejections
        (silenced(original) if is_silenced else original)(self, placement, status)

    return fail


async def _keep_running_count(original: Any, self: Any, placement: Any) -> None:
    try:
        await original(self, placement)
    finally:
        self._running.value += 1


def _leave_waiting(_original: Any, self: Any, pod: Pod, _why: str) -> bool:
    return self._waiting_pods.get(pod.metadata.uid) is not None


def _spawn_untracked(original: Any, self: Any, *args: Any, **options: Any) -> Any:
    task = original(self, *args, **options)
    self._tasks.pop(task, None)
    return task


def _for_all_pods(move_all: Any) -> Any:
    def moved(*args: Any, pre_check: Any = None) -> Any:
        return move_all(*args)

    return moved


def _decide_at_first_approval(original: Any, self: Any, plugin: str) -> None:
    original(self, plugin)
    self._finish(SUCCESS)


async def _done_first(original: Any, self: Any, placement: Any) -> Any:
    self._queue.done(placement.pod.metadata.uid)
    return await original(self, placement)


MUTANTS = {
    "any answer to a binding counts as success": Mutant(
        32, (replace(f"{_API}._check_is_object", nothing),)
    ),
    "pods stay registered as waiting on Permit": Mutant(
        10, (replace(f"{_WAITING}.WaitingPods.remove", nothing),)
    ),
    "an assumption leaks when a binding fails": Mutant(
        1, (without_call(f"{_CYCLE}._fail", "self._cache.forget_pod"),)
    ),
    "a nomination stays when a binding fails": Mutant(
        0, (replace_names(f"{_CYCLE}._fail", CLEAR_NOMINATION=None),)
    ),
    "a conflict at a binding counts as success": Mutant(
        6, (wrap(f"{_API}.HttpApi.bind", _ignore_conflict),)
    ),
    "a binding does not name the uid": Mutant(6, (wrap(f"{_API}.HttpApi.bind", _bind_any_uid),)),
    "pods that wait on Permit cannot be rejected": Mutant(
        8, (replace(f"{_WAITING}.WaitingPodEntry.reject", no),)
    ),
    "pods stay registered as being in PreBind": Mutant(
        0, (replace(f"{_WAITING}.PodsInPreBind.remove", nothing),)
    ),
    "what a plugin refuses to reserve stays assumed": Mutant(
        404,
        (replace("kubesched.scheduler.cycles.scheduling_cycle.SchedulingCycle.undo", nothing),),
    ),
    "Unreserve is called for the first plugin only": Mutant(
        26, (with_value(f"{_POINTS}.run_unreserve", "self._reserve", lambda all_: all_[:1]),)
    ),
    "Permit does not time out": Mutant(
        340, (wrap(f"{_WAITING}.WaitingPodEntry.__init__", _multiply_timeouts),)
    ),
    "a bound pod stays in flight": Mutant(
        307, (without_call(f"{_CYCLE}._bind", "self._queue.done"),)
    ),
    "another node is published than was chosen": Mutant(
        498, (wrap(f"{_CYCLE}._publish_choice", _publish_first_node),)
    ),
    "ended background tasks are not dropped": Mutant(498, (replace(f"{_TASKS}._ended", nothing),)),
    "background tasks are not awaited": Mutant(
        2, (wrap(f"{_TASKS}.spawn", _spawn_untracked), replace(f"{_TASKS}._ended", nothing))
    ),
    "ended bindings are not counted down": Mutant(
        307, (wrap(f"{_CYCLE}.run", _keep_running_count),)
    ),
    "a pod whose Permit timed out is bound": Mutant(
        10,
        (
            with_value(
                f"{_CYCLE}._bind",
                "placement.attempt.framework.binding.wait_on_permit",
                _ignoring_outcome,
            ),
        ),
    ),
    "a pod that Reserve refuses is bound": Mutant(
        6, (wrap(f"{_POINTS}.run_reserve", _succeed_always),)
    ),
    "a pod that Permit refuses is bound": Mutant(
        2, (wrap(f"{_POINTS}.run_permit", _succeed_unless_waiting),)
    ),
    "a binding that failed with an error does not requeue other pods": Mutant(
        12, (wrap(f"{_CYCLE}._fail", _fail_without_event(of_rejections=False)),)
    ),
    "a binding that was rejected does not requeue other pods": Mutant(
        46, (wrap(f"{_CYCLE}._fail", _fail_without_event(of_rejections=True)),)
    ),
    "a pod that is deleted while it waits on Permit waits on": Mutant(
        26, (wrap(f"{_HANDLERS}._stop_waiting", _leave_waiting),)
    ),
    "a pod is requeued by the room that it gives back itself": Mutant(
        3, (with_value(f"{_CYCLE}._fail", "self._queue.move_all", _for_all_pods),)
    ),
    "a pod that is preempted at the end of PreBind is bound": Mutant(
        90, (replace(f"{_WAITING}.PodInPreBindEntry.mark_prebound", yes),)
    ),
    "the first of several Permit plugins that allows a pod decides": Mutant(
        2, (wrap(f"{_WAITING}.WaitingPodEntry.allow", _decide_at_first_approval),)
    ),
    "a pod that Permit refuses does not see the events of its attempt": Mutant(
        3, (wrap(f"{_CYCLE}._bind", _done_first),)
    ),
}
