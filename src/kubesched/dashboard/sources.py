"""Where the page's picture of a cluster comes from: a scheduler in this process, or any API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.access import ApiAccess
from kubesched.api.base import ApiObject
from kubesched.api.kinds import Kind
from kubesched.client.informer import Informer
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.dashboard.answers import Answers, Changes
from kubesched.dashboard.cluster_view import ClusterView
from kubesched.dashboard.dashboard import Dashboard, follow
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.sign_in import SignIn
from kubesched.explain.sources import SCHEDULING_KINDS
from kubesched.scheduler.scheduler import Scheduler
from kubesched.util.clock import Clock
from kubesched.util.components import Component
from kubesched.util.randomness import derive

__all__ = ["dashboard_of_api", "dashboard_of_objects", "dashboard_of_scheduler"]


def dashboard_of_scheduler(
    scheduler: Scheduler,
    api: ApiAccess,
    clock: Clock,
    sign_in: SignIn,
    *,
    title: str,
    is_writable: bool,
    changes: Changes | None = None,
    configuration: KubeSchedulerConfiguration | None = None,
) -> tuple[Dashboard, tuple[Component, ...]]:
    """The page of a scheduler in this process; the components are to be run beside it."""
    dashboard, parts, _ = _live(
        api,
        clock,
        sign_in,
        title=title,
        queue=scheduler.queue,
        configuration=configuration,
        api=api if is_writable else None,
        changes=changes,
    )
    return dashboard, parts


def dashboard_of_api(
    api: ApiAccess, clock: Clock, sign_in: SignIn, *, title: str, kinds: Iterable[Kind]
) -> tuple[Dashboard, tuple[Component, ...]]:
    """The page of any cluster, read-only; `kinds` are those that may be read."""
    dashboard, parts, _ = _live(api, clock, sign_in, title=title, kinds=kinds)
    return dashboard, parts


def dashboard_of_objects(
    objects: Iterable[ApiObject],
    clock: Clock,
    sign_in: SignIn,
    *,
    title: str,
    configuration: KubeSchedulerConfiguration | None = None,
) -> Dashboard:
    """The page of a cluster that stands still, such as a capture."""
    whole = list(objects)
    view = ClusterView(DecisionLog(), clock.now_ns)
    for each in whole:
        if isinstance(each, Node):
            view.put_node(each)
        elif isinstance(each, Pod):
            view.put_pod(each)
    answers = Answers(
        view, lambda: whole, title=title, now_ns=clock.now_ns, configuration=configuration
    )
    return Dashboard(view, answers, sign_in)


def _live(
    source: ApiAccess,
    clock: Clock,
    sign_in: SignIn,
    *,
    kinds: Iterable[Kind] = SCHEDULING_KINDS,
    **options: Any,
) -> tuple[Dashboard, tuple[Component, ...], ClusterView]:
    informers: dict[type[Any], Informer[Any]] = {
        kind.type: Informer(source, kind.type, clock, derive(0, "dashboard", kind.kind))
        for kind in kinds
    }
    view = ClusterView(DecisionLog(), clock.now_ns)
    follow(view, informers[Node], informers[Pod])

    def objects() -> Iterable[ApiObject]:
        return [each for informer in informers.values() for each in informer.store.list()]

    answers = Answers(view, objects, now_ns=clock.now_ns, **options)
    return Dashboard(view, answers, sign_in), tuple(informers.values()), view
