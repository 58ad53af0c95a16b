"""A small cluster in which DefaultPreemption runs among the real in-tree plugins."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.base import ApiObject
from kubesched.api.time import parse_time
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.framework import (
    CycleState,
    Diagnosis,
    FitError,
    Nominating,
    NominatingMode,
    Plugin,
    PodInfo,
    PostFilterResult,
)
from kubesched.scheduler.config import default_profile
from kubesched.scheduler.config.args import DefaultPreemptionArgs
from kubesched.scheduler.config.types import KubeSchedulerProfile, PluginRef, PluginSet
from kubesched.scheduler.plugins.default_preemption import DefaultPreemption
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.testing import FakeHandle

NOW = "2026-06-01T00:00:00Z"

T = TypeVar("T")


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a scenario in virtual time, starting at `NOW`."""
    return virtual_loop.run(work, start_ns=parse_time(NOW))


class PreemptionHarness:
    """Objects, a profile with DefaultPreemption, and the parts that an attempt needs."""

    def __init__(
        self,
        objects: Iterable[ApiObject],
        *plugins: type[Plugin],
        args: DefaultPreemptionArgs | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        seed: int = 0,
        **handle_options: Any,
    ) -> None:
        self.handle = FakeHandle(
            objects,
            clock=current_clock(),
            feature_gates=feature_gates,
            seed=seed,
            **handle_options,
        )
        registry = {
            **IN_TREE_PLUGINS,
            DefaultPreemption.name: DefaultPreemption,
            **{plugin.name: plugin for plugin in plugins},
        }
        profile = _with_plugins(default_profile(), plugins, args)
        self.framework = Framework(profile, registry, self.handle.services())
        plugin = self.framework.plugins.by_name[DefaultPreemption.name]
        assert isinstance(plugin, DefaultPreemption)
        self.plugin = plugin
        self.state = CycleState()

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod, which must be among the objects, to the node."""
        nominating = Nominating(NominatingMode.OVERRIDE, node_name)
        self.handle.nominator.add_nominated_pod(PodInfo(pod), nominating)

    def diagnose(self, pod: Pod) -> Diagnosis:
        """Return the diagnosis of the pod; `state` has the state of the attempt."""
        snapshot: Any = self.handle.snapshot
        algorithm = CachedSearch(snapshot, random.Random(0))
        self.state = CycleState()
        try:
            algorithm.schedule_pod(self.framework, self.state, PodInfo(pod))
        except FitError as exc:
            return exc.diagnosis
        raise AssertionError(f"{pod.metadata.name} fits")

    def preempt(self, pod: Pod, diagnosis: Diagnosis | None = None) -> PostFilterResult:
        """Return the result of PostFilter; evictions run in the background."""
        if diagnosis is None:
            diagnosis = self.diagnose(pod)
        return self.plugin.post_filter(self.state, PodInfo(pod), diagnosis)

    async def evicted(self) -> list[str]:
        """Return the names of the deleted pods, in order, after all evictions."""
        await self.handle.finish_work()
        return [call.name for call in self.handle.fake_api.calls if call.verb == "delete"]


def nominated_to(result: PostFilterResult) -> str | None:
    """Return the nominated node: empty if it is cleared, None if it is unchanged."""
    if result.nominating is None or result.nominating.mode is NominatingMode.NOOP:
        return None
    return result.nominating.node_name


def _with_plugins(
    profile: KubeSchedulerProfile,
    plugins: Iterable[type[Plugin]],
    args: DefaultPreemptionArgs | None,
) -> KubeSchedulerProfile:
    point = profile.plugins.multi_point
    enabled = (*point.enabled, *(PluginRef(plugin.name) for plugin in plugins))
    profile = replace(
        profile,
        plugins=replace(profile.plugins, multi_point=PluginSet(enabled, point.disabled)),
    )
    if args is None:
        return profile
    config = tuple(
        replace(entry, args=args) if entry.name == DefaultPreemption.name else entry
        for entry in profile.plugin_config
    )
    return replace(profile, plugin_config=config)
