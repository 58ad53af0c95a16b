"""The profiles of a running scheduler, which a reload of the configuration replaces.

New frameworks are built beside the old ones. A profile that has not changed keeps its framework,
with its plugins and its cached answers. A framework that is replaced finishes its pods in flight,
and is then closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple

from kubesched.errors import ConfigError
from kubesched.framework import ActionType, overrides
from kubesched.scheduler.backend.queue import QueueProfile, RegisteredHint, register_hints
from kubesched.scheduler.config.types import KubeSchedulerProfile
from kubesched.scheduler.profiles import build_profile
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_closing import close_plugins
from kubesched.scheduler.runtime.plugin_resources import PluginResources
from kubesched.scheduler.runtime.plugin_set import Registry
from kubesched.scheduler.runtime.services import Services

__all__ = ["BuiltProfiles", "LiveProfiles", "registered_actions"]


class BuiltProfiles(NamedTuple):
    """Frameworks that are ready to be used, and what the queue needs of them."""

    frameworks: dict[str, Framework]
    queue_profiles: dict[str, QueueProfile]
    new: tuple[Framework, ...]  # frameworks that were not in use before


class LiveProfiles:
    """The frameworks in use by scheduler name, and replaced ones that have pods in flight."""

    def __init__(
        self,
        registry: Registry,
        services: Services,
        spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
        *,
        with_extenders: bool,
        with_pod_groups: bool,
    ) -> None:
        # Other components share this mapping, so it is changed and never replaced.
        self.by_name: dict[str, Framework] = {}
        self._registry = registry
        self._services = services
        self._with_extenders = with_extenders
        self._with_pod_groups = with_pod_groups
        self._replaced: set[Framework] = set()
        self._spawn = spawn
        # The tasks of `Plugin.work_as_leader`, once the scheduler places pods.
        self._work: dict[Framework, list[asyncio.Task[None]]] | None = None

    async def build(self, profiles: Iterable[KubeSchedulerProfile]) -> BuiltProfiles:
        """Build the frameworks of profiles that have changed. Nothing uses them yet.

        Raises:
            ConfigError: a plugin cannot be built; those that were built are closed again.
        """
        resources: list[PluginResources] = []
        try:
            return self._build(profiles, resources)
        except BaseException:
            for each in resources:
                await close_plugins(each)
            raise

    def build_first(self, profiles: Iterable[KubeSchedulerProfile]) -> BuiltProfiles:
        """Build the frameworks of a scheduler that does not run yet.

        Raises:
            ConfigError: a plugin cannot be built.
        """
        return self._build(profiles, [])

    def _build(
        self, profiles: Iterable[KubeSchedulerProfile], resources: list[PluginResources]
    ) -> BuiltProfiles:
        frameworks: dict[str, Framework] = {}
        new: list[Framework] = []
        for profile in profiles:
            name = profile.scheduler_name
            present = self.by_name.get(name)
            if present is not None and present.profile == profile:
                frameworks[name] = present
                continue
            resources.append(PluginResources(self._services.shared))
            built = build_profile(profile, self._registry, self._services, resources[-1])
            frameworks[name] = built
            new.append(built)
        return BuiltProfiles(frameworks, self._queue_profiles(frameworks), tuple(new))

    def _queue_profiles(self, frameworks: Mapping[str, Framework]) -> dict[str, QueueProfile]:
        problems: list[str] = []
        profiles = {
            name: QueueProfile(
                scheduler_name=name,
                sort_key=framework.sort_key,
                pre_enqueue=framework.pre_enqueue_plugins,
                hints=self._hints_of(framework, problems),
            )
            for name, framework in frameworks.items()
        }
        if problems:
            raise ConfigError("\n".join(dict.fromkeys(problems)))
        return profiles

    def _hints_of(self, framework: Framework, problems: list[str]) -> tuple[RegisteredHint, ...]:
        return register_hints(
            tuple(framework.plugins.by_name.values()),
            problems,
            with_extenders=self._with_extenders,
            with_pod_groups=self._with_pod_groups,
        )

    def use(self, built: BuiltProfiles) -> None:
        """Use these frameworks from now on.

        Replaced ones are closed after their last pod in flight.
        """
        replaced = set(self.by_name.values()) - set(built.frameworks.values())
        self.by_name.clear()
        self.by_name.update(built.frameworks)
        for framework in replaced:
            self._stop_work_of(framework)
            self._replaced.add(framework)
            self._spawn(self._close_when_unused(framework), "close profile")
        if self._work is not None:
            self.start_work()

    def start_work(self) -> None:
        """Start `Plugin.work_as_leader` of the plugins that have it and do not work yet."""
        work = self._work = self._work or {}
        for framework in self.by_name.values():
            if framework not in work:
                work[framework] = [
                    self._spawn(plugin.work_as_leader(), f"{plugin.name} as leader")
                    for plugin in framework.plugins.by_name.values()
                    if overrides(plugin, "work_as_leader")
                ]

    def stop_work(self) -> None:
        """Cancel the work of all plugins, because the scheduler ends."""
        for framework in tuple(self._work or ()):
            self._stop_work_of(framework)

    def _stop_work_of(self, framework: Framework) -> None:
        for task in (self._work or {}).pop(framework, ()):
            task.cancel()

    async def _close_when_unused(self, framework: Framework) -> None:
        await framework.pods_in_flight.wait_for_none()
        self._replaced.discard(framework)
        await framework.close()

    async def close(self) -> None:
        """Close all frameworks, in order, when the scheduler has ended."""
        for framework in (*self.by_name.values(), *self._replaced):
            await framework.close()

    @property
    def replaced_count(self) -> int:
        """The number of replaced frameworks that have pods in flight."""
        return len(self._replaced)

    def kinds_read(self) -> set[type[Any]]:
        """Return the kinds of objects that the cached answers of plugins depend on."""
        return {
            kind
            for framework in self.by_name.values()
            for plugin in framework.plugins.by_name.values()
            for kind in plugin.reads.objects or ()
        }


def registered_actions(profiles: Mapping[str, QueueProfile]) -> dict[str, ActionType]:
    """Return the actions by resource that some plugin registered events for."""
    wanted: dict[str, ActionType] = {}
    for profile in profiles.values():
        for hint in profile.hints:
            resource = hint.event.resource
            wanted[resource] = wanted.get(resource, ActionType.NONE) | hint.event.action
    return wanted
