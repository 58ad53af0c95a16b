"""A harness for tests of the runtime and the search: real parts without an API server."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from typing import Any, NoReturn

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.foundation.util.clock import RealClock
from kubesched.framework import (
    SUCCESS,
    CycleState,
    Nominating,
    Plugin,
    PodInfo,
    QueuedPodInfo,
    Status,
)
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.config.types import KubeSchedulerProfile, PluginRef, Plugins, PluginSet
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.services import Services
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.scheduler.search.fit_checks import FitChecks

__all__ = ["EmptyLister", "FixedNominator", "PluginHarness", "plugin_class"]


class EmptyLister:
    def get(self, name: str, namespace: str | None = None) -> None:
        return None

    def list(self, namespace: str | None = None) -> Collection[Any]:
        return ()

    def follow(self, listener: Callable[[Any, Any], None]) -> Callable[[], None]:
        return lambda: None


class FixedNominator:
    """Nominations that a test sets directly."""

    def __init__(self) -> None:
        self.by_node: dict[str, list[PodInfo]] = {}

    def nominated_pods(self, node_name: str) -> Collection[PodInfo]:
        return self.by_node.get(node_name, [])

    def nominated_nodes(self) -> Collection[str]:
        return list(self.by_node)

    position = 0

    def changes_since(self, position: int) -> Collection[str] | None:
        return None if self.by_node else ()

    def add_nominated_pod(self, pod_info: PodInfo, nominating: Nominating | None) -> None:
        raise AssertionError("nothing here nominates")

    def delete_nominated_pod(self, pod: Pod) -> None:
        raise AssertionError("nothing here nominates")


class Recorder:
    def event(
        self,
        regarding: Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ApiObject | None = None,
    ) -> None:
        raise AssertionError("nothing here records events")


def _not_expected(*_: object) -> NoReturn:
    raise AssertionError("no plugin here is to do this")


class Order(Plugin):
    """A QueueSort plugin, which every profile needs."""

    name = "Order"

    def sort_key(self, queued: QueuedPodInfo) -> int:
        return queued.timestamp_ns


class Binder(Plugin):
    """A Bind plugin, which every profile needs."""

    name = "Binder"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS


def plugin_class(name: str, **methods: Any) -> type[Plugin]:
    """Make a plugin class from functions for its extension points (without `self`)."""
    return type(name, (Plugin,), {"name": name} | {k: _method(f) for k, f in methods.items()})


def _method(function: Any) -> Any:
    if callable(function):
        return lambda self, *args: function(*args)
    return function


class PluginHarness:
    """A cache, one profile with some plugins, and the search."""

    def __init__(
        self,
        *plugins: type[Plugin],
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        percentage: int | None = None,
        profile_percentage: int | None = None,
        weights: dict[str, int] | None = None,
    ) -> None:
        self.cache = Cache()
        for node in nodes:
            self.cache.add_node(node)
        for pod in pods:
            self.cache.add_pod(pod)
        self.nominator = FixedNominator()
        self.services = Services(
            snapshot=self.cache.snapshot,
            api=None,  # type: ignore[arg-type]
            recorder_of=lambda name: Recorder(),
            clock=RealClock(),
            random=random.Random(0),
            lister=lambda kind: EmptyLister(),
            feature_enabled=lambda gate: False,
            nominator=lambda: self.nominator,
            activate=_not_expected,
            spawn=_not_expected,
            fits_now=_not_expected,
            fits_without=_not_expected,
        )
        everything = (Order, Binder, *plugins)
        weights = weights or {}
        refs = tuple(PluginRef(cls.name, weights.get(cls.name, 0)) for cls in everything)
        profile = KubeSchedulerProfile(
            scheduler_name="default-scheduler",
            percentage_of_nodes_to_score=profile_percentage,
            plugins=Plugins(multi_point=PluginSet(enabled=refs)),
        )
        registry = {cls.name: cls for cls in everything}
        self.framework = Framework(profile, registry, self.services)
        self.search = CachedSearch(self.cache.snapshot, random.Random(0), percentage)
        self.fit_checks = FitChecks(self.cache.snapshot, self.search.filtering)

    def schedule(self, pod: Pod, state: CycleState | None = None) -> Any:
        self.cache.update_snapshot()
        return self.search.schedule_pod(self.framework, state or CycleState(), PodInfo(pod))
