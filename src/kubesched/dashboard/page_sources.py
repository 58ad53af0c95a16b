"""Builds dashboards: for an embedded cluster, for a scheduler, and for any API server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.access import ApiAccess
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.dashboard.cluster_view import ClusterView
from kubesched.dashboard.dashboard import Dashboard
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.embedded_changes import EmbeddedChanges
from kubesched.dashboard.page_queries import PageQueries, UnreadableKinds
from kubesched.dashboard.page_state import LivePageState
from kubesched.dashboard.plugin_panels import panels_of
from kubesched.dashboard.scheduler_view import SchedulerView
from kubesched.dashboard.sign_in import SignIn
from kubesched.dashboard.stream_frames import FrameHub
from kubesched.explain.clusters.sources import SCHEDULING_KINDS, Reading
from kubesched.explain.shadow.shadow_watch import ShadowWatch
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.components import Component
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.all_plugins import complete_registry
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.runtime.plugin_registry import custom_kinds_of
from kubesched.scheduler.scheduler import Scheduler

__all__ = [
    "dashboard_of_api",
    "dashboard_of_embedded",
    "dashboard_of_scheduler",
    "dashboard_of_shadow",
]

Informers = Mapping[type[Any], SharedInformer[Any]]


def dashboard_of_embedded(
    api: LocalApi,
    clock: Clock,
    sign_in: SignIn,
    *,
    title: str,
    scheduler: Callable[[], Scheduler],
    configuration: Callable[[], KubeSchedulerConfiguration],
    plugins: Mapping[str, Any],
    changes: EmbeddedChanges,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> tuple[Dashboard, Callable[[Scheduler], None]]:
    """Build the dashboard of an embedded cluster, which can be changed.

    Objects come from its store, and amounts from its scheduler. The caller must call the second
    result with the scheduler, and with each scheduler that replaces it.
    """
    decisions = DecisionLog(clock.now_ns)
    registry = complete_registry(plugins)

    def kinds() -> list[type[Any]]:
        custom = custom_kinds_of(registry, sorted(configuration().enabled_plugins()))
        return [kind.type for kind in (*SCHEDULING_KINDS, *custom)]

    state = LivePageState(
        SchedulerView(scheduler),
        decisions,
        kinds=kinds,
        of_kind=api.present,
        configuration=configuration,
    )
    queries = PageQueries(
        state,
        title=title,
        queue=lambda: scheduler().queue,
        now_ns=clock.now_ns,
        plugins=plugins,
        changes=changes,
        panels=lambda: panels_of(scheduler().profiles.values()),
        gates=gates,
    )
    return _dashboard(state, queries, sign_in), lambda found: _record(found, decisions)


def dashboard_of_scheduler(
    scheduler: Scheduler,
    clock: Clock,
    *,
    title: str,
    plugins: Mapping[str, Any],
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> Dashboard:
    """Build the read-only dashboard of a scheduler in this process, from its informers."""

    def informers() -> Informers:
        return {each.kind: each for each in scheduler.informers.components()}

    decisions = DecisionLog(clock.now_ns)
    state = LivePageState(
        SchedulerView(lambda: scheduler),
        decisions,
        kinds=informers,
        of_kind=lambda kind: _listed(informers(), kind),
        configuration=lambda: scheduler.configuration,
    )
    _record(scheduler, decisions)
    queries = PageQueries(
        state,
        title=title,
        queue=lambda: scheduler.queue,
        now_ns=clock.now_ns,
        plugins=plugins,
        gates=gates,
        read=scheduler.synced.wait,
        panels=lambda: panels_of(scheduler.profiles.values()),
    )
    return _dashboard(state, queries, None)


def dashboard_of_api(
    api: ApiAccess, clock: Clock, sign_in: SignIn, *, title: str, reading: Reading
) -> tuple[Dashboard, tuple[Component, ...]]:
    """Build the read-only dashboard of any cluster, from the kinds that may be read."""
    informers: Informers = {
        kind.type: SharedInformer(
            api,
            kind.type,
            clock,
            derive(0, "dashboard", kind.kind),
            namespace=reading.namespace_of(kind),
        )
        for kind in reading.kinds
    }
    state = _watched_state(informers, clock, lambda: None)
    limits = UnreadableKinds(reading.unknown, reading.partial, reading.namespace)

    async def read() -> None:
        for informer in informers.values():
            await informer.wait_for_sync()

    queries = PageQueries(state, title=title, now_ns=clock.now_ns, limits=limits, read=read)
    return _dashboard(state, queries, sign_in), tuple(informers.values())


def dashboard_of_shadow(
    watch: ShadowWatch,
    clock: Clock,
    *,
    title: str,
    configuration: KubeSchedulerConfiguration,
    plugins: Mapping[str, Any],
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> Dashboard:
    """Build the read-only dashboard of a shadow, with the cluster and the ledger."""
    informers: Informers = {each.kind: each for each in watch.informers.components()}
    state = _watched_state(informers, clock, lambda: configuration)
    queries = PageQueries(
        state,
        title=title,
        now_ns=clock.now_ns,
        plugins=plugins,
        gates=gates,
        read=watch.synced.wait,
        shadow=watch.report,
    )
    return _dashboard(state, queries, None)


def _watched_state(
    informers: Informers,
    clock: Clock,
    configuration: Callable[[], KubeSchedulerConfiguration | None],
) -> LivePageState:
    """Build the state of a cluster without a scheduler in this process."""
    view, decisions = ClusterView(), DecisionLog(clock.now_ns)
    view.pod_listeners.append(decisions.note)
    if (nodes := informers.get(Node)) is not None:
        nodes.add_handler(
            view.put_node, lambda _, new: view.put_node(new), lambda node, _: view.remove_node(node)
        )
    informers[Pod].add_handler(
        view.put_pod, lambda _, new: view.put_pod(new), lambda pod, _: view.remove_pod(pod)
    )
    return LivePageState(
        view,
        decisions,
        kinds=lambda: informers,
        of_kind=lambda kind: _listed(informers, kind),
        configuration=configuration,
    )


def _record(scheduler: Scheduler, decisions: DecisionLog) -> None:
    """Record the attempts of a scheduler, and preempted pods, in the decision log."""
    scheduler.watch(decisions)
    pods = scheduler.informers.informer(Pod)
    pods.add_handler(None, decisions.changed, decisions.removed)


def _listed(informers: Informers, kind: type[Any]) -> Iterable[Any]:
    informer = informers.get(kind)
    return () if informer is None else informer.store.list()


def _dashboard(state: LivePageState, queries: PageQueries, sign_in: SignIn | None) -> Dashboard:
    return Dashboard(queries, sign_in, FrameHub(state.view, state.decisions, queries.decorated))
