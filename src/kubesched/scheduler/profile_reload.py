"""Replaces the configuration of a running scheduler (docs/decisions/0045).

Everything that can fail comes first: the check of the fields, the building of frameworks, the first
lists of kinds that no informer watched. Then profiles, queue and settings change in one step,
without an await.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from kubesched.api import Pod
from kubesched.errors import ConfigError
from kubesched.foundation.client.informer_factory import InformerFactory
from kubesched.foundation.client.late_informers import LateInformers
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue import QueueProfile, SchedulingQueue
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.events.event_handlers import EventHandlers
from kubesched.scheduler.events.event_subscriptions import EventSubscriptions
from kubesched.scheduler.live_profiles import BuiltProfiles, LiveProfiles, registered_actions
from kubesched.scheduler.reload_check import check_reloadable

__all__ = ["ProfileReload"]

_SYNC_TIMEOUT_NS: Final = 30 * SECOND


class ProfileReload:
    """Applies one configuration after another to the parts of a scheduler."""

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        profiles: LiveProfiles,
        subscriptions: EventSubscriptions,
        informers: InformerFactory,
        late_informers: LateInformers,
        may_watch_more: bool,
        cache: Cache,
        queue: SchedulingQueue,
        handlers: EventHandlers,
        use_percentage: Callable[[int], None],
        clock: Clock,
    ) -> None:
        """With `may_watch_more`, new plugins may need kinds that no informer watches."""
        self.configuration = configuration  # the current configuration
        self._profiles = profiles
        self._subscriptions = subscriptions
        self._informers = informers
        self._late_informers = late_informers
        self._may_watch_more = may_watch_more
        self._cache = cache
        self._queue = queue
        self._handlers = handlers
        self._use_percentage = use_percentage
        self._clock = clock
        self._lock = asyncio.Lock()

    async def apply(self, new: KubeSchedulerConfiguration) -> bool:
        """Change to another complete configuration; False if it is the current one.

        Raises:
            ConfigError: the new one cannot be used. Nothing has changed then.
        """
        async with self._lock:
            if new == self.configuration:
                return False
            check_reloadable(self.configuration, new)
            built = await self._profiles.build(new.profiles)
            try:
                await self._sync_informers(built.queue_profiles)
            except BaseException:
                for framework in built.new:
                    await framework.close()
                raise
            self._use(new, built)
            self.configuration = new
            return True

    async def _sync_informers(self, profiles: Mapping[str, QueueProfile]) -> None:
        """Watch the kinds that new plugins need and no informer watches."""
        self._subscriptions.make_informers(registered_actions(profiles))
        late = [each for each in self._informers.components() if self._late_informers.is_late(each)]
        if not late:
            return
        kinds = ", ".join(each.kind.__name__ for each in late if not each.has_synced)
        if not self._may_watch_more:
            raise ConfigError(f"to watch {kinds} needs a restart")
        if not await self._late_informers.start(late, _SYNC_TIMEOUT_NS):
            error = ConfigError(f"the API server did not list {kinds} in time")
            error.add_note("plugins of the new profiles read them; may the scheduler list them?")
            raise error

    def _use(self, configuration: KubeSchedulerConfiguration, built: BuiltProfiles) -> None:
        profiles, queue = self._profiles, self._queue
        added = built.frameworks.keys() - profiles.by_name.keys()
        profiles.use(built)
        dropped = queue.replace_profiles(
            built.queue_profiles,
            self._clock.now_ns(),
            initial_backoff_ns=configuration.pod_initial_backoff_seconds * SECOND,
            max_backoff_ns=configuration.pod_max_backoff_seconds * SECOND,
        )
        for pod in dropped:
            self._handlers.forget_waiting(pod)
        self._use_percentage(configuration.percentage_of_nodes_to_score)
        actions = registered_actions(built.queue_profiles)
        self._subscriptions.add(actions, profiles.kinds_read())
        for pod in tuple(self._informers.lister(Pod).list()):
            is_new = pod.spec.scheduler_name in added and not pod.spec.node_name
            if is_new and not queue.holds(pod) and not self._cache.is_assumed(pod):
                self._handlers.add_pod(pod)
