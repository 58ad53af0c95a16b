"""A cluster with a scheduler in one process, in real or in virtual time.

`kubesched up`, the test fixture, placement tests, what-if and simulation use this class. Each
selects the parts and options of its `EmbeddedCluster`, and adds only its specific parts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Unpack

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.cluster.apiserver.rules.resources.served_resources import custom_resource
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.manifests import Manifest, apply_manifests
from kubesched.cluster.scheduler_command import SchedulerCommand
from kubesched.cluster.takeover import Identity, take_over
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.components import Component, running
from kubesched.scheduler.backend.queue.view import PodPlace
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.options import SchedulerOptions
from kubesched.scheduler.process.add_ons import ProcessAddOns
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["LiveCluster"]

_POLL_NS = 1 * SECOND
_QUIET_NS = 20 * SECOND
_LONGEST_NS = 3600 * SECOND
_ENDED_PHASES = ("Succeeded", "Failed")


class LiveCluster:
    """An embedded cluster and the scheduler that places its pods.

    The scheduler uses the store directly, with the options given here. With `flags` the scheduler
    is the whole command `kubesched run` instead: `command` is then a process with these flags, with
    endpoints and leader election, that connects to the cluster over HTTP.
    """

    def __init__(
        self,
        cluster: EmbeddedCluster,
        *,
        flags: Sequence[str] | None = None,
        add_ons: ProcessAddOns | None = None,
        **options: Unpack[SchedulerOptions],
    ) -> None:
        """Build the scheduler; nothing runs yet.

        Raises:
            ConfigError: no scheduler can be built with these options.
        """
        self.cluster = cluster
        self.api = cluster.api
        self.clock = cluster.clock
        self._options = options
        self._schedulers: _SchedulerSequence | None = None
        self.command: SchedulerCommand | None = None
        if flags is None:
            self._schedulers = _SchedulerSequence(self._build(options.get("configuration")))
        else:
            self.command = SchedulerCommand(cluster, flags, add_ons)
        self._configuration = options.get("configuration")
        self._on_scheduler: Callable[[Scheduler], None] | None = None
        self._replacing = asyncio.Lock()
        self._is_serving = False

    @property
    def scheduler(self) -> Scheduler:
        """The current scheduler; `replace_scheduler` changes it."""
        assert self._schedulers is not None, "the command of a live cluster has the scheduler"
        return self._schedulers.current

    @property
    def configuration(self) -> KubeSchedulerConfiguration:
        """The configuration of the current scheduler."""
        assert self._configuration is not None, "built without a configuration"
        return self._configuration

    def serve_custom_kinds(self) -> None:
        """Serve the custom resources that the scheduler's plugins read, without a schema.

        For clusters that are not created from manifests, which contain definitions.
        """
        store = self.cluster.store
        for profile in self.scheduler.profiles.values():
            for plugin in profile.plugins.by_name.values():
                for kind in plugin.custom_kinds:
                    if not store.catalog.has_url(kind.group, kind.version, kind.plural):
                        made = custom_resource(
                            kind.group,
                            kind.version,
                            kind.kind,
                            kind.plural,
                            namespaced=kind.namespaced,
                            has_status=True,
                        )
                        store.register(made)

    def describe(self, pod_key_or_uid: str, now_ns: int) -> PodPlace | None:
        """Return a pod's place in the queue of the current scheduler."""
        return self.scheduler.queue.describe(pod_key_or_uid, now_ns)

    def watch_scheduler(self, on_scheduler: Callable[[Scheduler], None]) -> None:
        """Call `on_scheduler` with the current scheduler, and with each one that replaces it."""
        self._on_scheduler = on_scheduler
        on_scheduler(self.scheduler)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve the API, if the cluster has a server; nothing is scheduled yet."""
        async with self.cluster:
            self._is_serving = True
            try:
                yield
            finally:
                self._is_serving = False

    @contextlib.asynccontextmanager
    async def running(
        self, *, before: Iterable[Component] = (), after: Iterable[Component] = ()
    ) -> AsyncIterator[None]:
        """Run the whole cluster while the block runs; serve it unless it is served already.

        The components `before` start before the parts of the cluster and stop after them; those
        `after` start after the scheduler.
        """
        scheduler: Component
        if self._schedulers is not None:
            scheduler = self._schedulers
        else:
            assert self.command is not None, "without a scheduler there is a command"
            scheduler = self.command
        parts = (*before, *self.cluster.parts, scheduler, *after)
        serving = contextlib.nullcontext() if self._is_serving else self.serving()
        async with serving, running(*parts):
            yield

    async def replace_scheduler(self, configuration: KubeSchedulerConfiguration) -> None:
        """Stop the scheduler, start one with another configuration, and wait until it has synced.

        The old scheduler finishes the bindings in flight first.

        Raises:
            ConfigError: no scheduler can be built with it; the old one continues.
        """
        schedulers = self._schedulers
        assert schedulers is not None, "the scheduler of a command cannot be replaced"
        async with self._replacing:
            scheduler = self._build(configuration)
            if self._on_scheduler is not None:
                self._on_scheduler(scheduler)
            self._configuration = configuration
            await schedulers.replace(scheduler)

    async def reload_scheduler(self, configuration: KubeSchedulerConfiguration) -> bool:
        """Let the running scheduler use another complete configuration; see `Scheduler.reload`.

        Raises:
            ConfigError: it cannot be used. Nothing has changed then.
        """
        async with self._replacing:
            has_changed = await self.scheduler.reload(configuration)
            self._configuration = configuration
            return has_changed

    async def settle(self, longest_ns: int = _LONGEST_NS, quiet_ns: int = _QUIET_NS) -> bool:
        """Wait until no pod has been created, bound or deleted for `quiet_ns`.

        Returns False if pods still change after `longest_ns`.
        """
        clock = self.clock
        deadline_ns = clock.monotonic_ns() + longest_ns
        before, quiet_since_ns = await self._pod_states(), clock.monotonic_ns()
        while clock.monotonic_ns() < deadline_ns:
            await clock.sleep(min(_POLL_NS, quiet_ns))
            states = await self._pod_states()
            if states != before:
                before, quiet_since_ns = states, clock.monotonic_ns()
            elif clock.monotonic_ns() - quiet_since_ns >= quiet_ns:
                return True
        return False

    async def take_over(self, objects: Iterable[ApiObject], identity: Identity) -> None:
        """Store objects of another cluster; see `kubesched.cluster.takeover`."""
        await take_over(self.api, objects, identity)

    async def apply(self, manifests: Iterable[Manifest], *, keep_existing: bool = False) -> None:
        """Create the objects of manifests; see `kubesched.cluster.manifests`."""
        await apply_manifests(self.api, manifests, keep_existing=keep_existing)

    async def pods(self) -> dict[str, Pod]:
        """Return the pods that have not ended, by namespace and name."""
        found = await self.api.list(Pod)
        return {
            f"{pod.metadata.namespace}/{pod.metadata.name}": pod
            for pod in found.items
            if pod.status.phase not in _ENDED_PHASES
        }

    async def nodes(self) -> list[Node]:
        return list((await self.api.list(Node)).items)

    async def _pod_states(self) -> dict[str, tuple[str, bool]]:
        return {
            name: (pod.spec.node_name, pod.metadata.deletion_timestamp is not None)
            for name, pod in (await self.pods()).items()
        }

    def _build(self, configuration: KubeSchedulerConfiguration | None) -> Scheduler:
        options = self._options
        if configuration is not None:
            options = {**options, "configuration": configuration}
        return Scheduler(self.api, self.clock, **options)


class _SchedulerSequence:
    """A component that runs one scheduler after another."""

    def __init__(self, first: Scheduler) -> None:
        self.current = first
        self._next: Scheduler | None = None
        self._stopping = False

    async def replace(self, scheduler: Scheduler) -> None:
        """Stop the current scheduler, and return once the new one has synced."""
        self._next = scheduler
        self.current.stop()
        if not self._stopping:
            await scheduler.synced.wait()

    async def run(self) -> None:
        while True:
            await self.current.run()
            if self._next is None or self._stopping:
                return
            self.current, self._next = self._next, None

    def stop(self) -> None:
        self._stopping = True
        self.current.stop()
        if self._next is not None:
            # It will never run: release the caller that waits for it.
            self._next.synced.set()
