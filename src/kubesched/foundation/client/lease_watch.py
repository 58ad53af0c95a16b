"""Detects the release of a lease, so that a standby does not wait for its next attempt.

The watch only ends the wait before the next attempt, which reads the lease and applies all rules.
Without the watch, for example if the account may not watch leases, the standby attempts to acquire
the lease every retry period, as the reference does.
"""

from __future__ import annotations

import asyncio

from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.coordination import Lease
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.logging import get_logger

__all__ = ["LeaseWatch"]

log = get_logger(__name__)

_UNREACHABLE = 0
_GONE = 410
_REFUSED_NS = 60 * SECOND  # the pause after a refusal


class LeaseWatch:
    """A watch of one lease while a standby waits. The watch is opened again when it has ended."""

    def __init__(
        self, api: ApiAccess, clock: Clock, name: str, namespace: str, identity: str
    ) -> None:
        self._api, self._clock = api, clock
        self._name, self._namespace, self._identity = name, namespace, identity
        self._is_free = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._not_before_ns = 0

    async def wait(self, known: Lease, limit_ns: int) -> None:
        """Wait until the lease is free or names this replica, or until the limit.

        `known` is the last state of the lease that the replica has; a new watch begins there.
        """
        now_ns = self._clock.monotonic_ns()
        version = known.metadata.resource_version
        if (self._task is None or self._task.done()) and version and now_ns >= self._not_before_ns:
            self._task = asyncio.create_task(self._watch(version), name="lease watch")
        await self._clock.wait(self._is_free, limit_ns)
        self._is_free.clear()

    async def close(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self, version: str) -> None:
        try:
            events = self._api.watch(
                Lease,
                self._namespace,
                resource_version=version,
                field_selector=f"metadata.name={self._name}",
            )
            async for event in events:
                if event.type in ("ADDED", "MODIFIED") and self._may_acquire(event.object):
                    self._is_free.set()
        except ApiError as error:
            log.detail(4, "Failed to watch the lease", err=error, name=self._name)
            if error.code not in (_UNREACHABLE, _GONE):
                self._not_before_ns = self._clock.monotonic_ns() + _REFUSED_NS

    def _may_acquire(self, lease: Lease | None) -> bool:
        if lease is None or lease.metadata.name != self._name:
            return False
        return lease.spec.holder_identity in (None, "", self._identity)
