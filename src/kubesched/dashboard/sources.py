"""Where the page's picture of a cluster comes from: a scheduler in this process, or any API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.access import ApiAccess
from kubesched.api.kinds import Kind
from kubesched.backend.queue import SchedulingQueue
from kubesched.client.informer import Informer
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.dashboard.answers import Answers
from kubesched.dashboard.cluster_view import ClusterView
from kubesched.dashboard.dashboard import Dashboard
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.embedded_changes import EmbeddedChanges
from kubesched.dashboard.frames import FrameHub
from kubesched.dashboard.picture import LivePicture
from kubesched.dashboard.sign_in import SignIn
from kubesched.explain.sources import SCHEDULING_KINDS
from kubesched.scheduler.scheduler import Scheduler
from kubesched.util.clock import Clock
from kubesched.util.components import Component
from kubesched.util.randomness import derive

__all__ = ["dashboard_of_api", "dashboard_of_embedded", "dashboard_of_scheduler"]

Informers = Mapping[type[Any], Informer[Any]]


def dashboard_of_embedded(
    api: ApiAccess,
    clock: Clock,
    sign_in: SignIn,
    *,
    title: str,
    scheduler: Callable[[], Scheduler],
    configuration: Callable[[], KubeSchedulerConfiguration],
    plugins: Mapping[str, Any],
    changes: EmbeddedChanges,
) -> tuple[Dashboard, DecisionLog, tuple[Component, ...]]:
    """The page of a cluster in this process, which may be changed.

    The log is to watch the scheduler, also one that takes the place of the first; the components
    are to be run beside the cluster.
    """
    informers = _informers_of(api, clock, SCHEDULING_KINDS)
    decisions = DecisionLog(clock.now_ns, is_told=True)
    picture = _live(decisions, informers, lambda: informers, configuration)
    dashboard = _served(
        picture,
        clock,
        sign_in,
        title=title,
        queue=lambda: scheduler().queue,
        plugins=plugins,
        changes=changes,
    )
    return dashboard, decisions, tuple(informers.values())


def dashboard_of_scheduler(
    scheduler: Scheduler,
    clock: Clock,
    *,
    title: str,
    configuration: KubeSchedulerConfiguration,
    plugins: Mapping[str, Any],
) -> Dashboard:
    """The page of a scheduler in this process, read-only, with what its informers have anyway."""

    def informers() -> Informers:
        return {each.kind: each for each in scheduler.informers.components()}

    decisions = DecisionLog(clock.now_ns, is_told=True)
    picture = _live(decisions, informers(), informers, lambda: configuration)
    scheduler.watch(decisions)
    return _served(
        picture, clock, None, title=title, queue=lambda: scheduler.queue, plugins=plugins
    )


def dashboard_of_api(
    api: ApiAccess, clock: Clock, sign_in: SignIn, *, title: str, kinds: Iterable[Kind]
) -> tuple[Dashboard, tuple[Component, ...]]:
    """The page of any cluster, read-only; `kinds` are those that may be read."""
    informers = _informers_of(api, clock, kinds)
    picture = _live(DecisionLog(clock.now_ns), informers, lambda: informers, lambda: None)
    return _served(picture, clock, sign_in, title=title), tuple(informers.values())


def _informers_of(api: ApiAccess, clock: Clock, kinds: Iterable[Kind]) -> Informers:
    return {
        kind.type: Informer(api, kind.type, clock, derive(0, "dashboard", kind.kind))
        for kind in kinds
    }


def _live(
    decisions: DecisionLog,
    followed: Informers,
    informers: Callable[[], Informers],
    configuration: Callable[[], KubeSchedulerConfiguration | None],
) -> LivePicture:
    view = ClusterView()
    view.pod_listeners.append(decisions.note)

    def node_changed(_old: Node, new: Node) -> None:
        view.put_node(new)

    def pod_changed(_old: Pod, new: Pod) -> None:
        view.put_pod(new)

    followed[Node].add_handler(view.put_node, node_changed, lambda node, _: view.remove_node(node))
    followed[Pod].add_handler(view.put_pod, pod_changed, lambda pod, _: view.remove_pod(pod))
    return LivePicture(view, decisions, informers, configuration)


def _served(
    picture: LivePicture,
    clock: Clock,
    sign_in: SignIn | None,
    *,
    title: str,
    queue: Callable[[], SchedulingQueue | None] = lambda: None,
    plugins: Mapping[str, Any] | None = None,
    changes: EmbeddedChanges | None = None,
) -> Dashboard:
    answers = Answers(
        picture, title=title, queue=queue, now_ns=clock.now_ns, plugins=plugins, changes=changes
    )
    hub = FrameHub(picture.view, picture.decisions, answers.decorated)
    return Dashboard(answers, sign_in, hub)
