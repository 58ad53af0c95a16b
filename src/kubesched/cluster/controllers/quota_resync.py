"""The periodic correction of quota statuses.

The store updates the usage of a quota with each write. A status that a client has changed is
corrected here, as the controller manager does (`--resource-quota-sync-period`).
"""

from __future__ import annotations

from typing import Final

from kubesched.api import ApiError
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = ["QUOTA_RESYNC_NS", "QuotaResync"]

QUOTA_RESYNC_NS: Final = 5 * 60 * SECOND

log = get_logger(__name__)


class QuotaResync:
    """Counts the usage of all quotas every five minutes and corrects their statuses."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._stop = StopSwitch()

    async def run(self) -> None:
        await self._stop.guard(self._correct_periodically())

    def stop(self) -> None:
        self._stop.set()

    async def _correct_periodically(self) -> None:
        while True:
            await self._clock.sleep(QUOTA_RESYNC_NS)
            try:
                self._store.recount_quotas(self._clock.now_ns())
            except ApiError as error:
                log.warning("Could not correct quotas; retrying later", error=error)
