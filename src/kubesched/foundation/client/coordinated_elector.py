"""Leader election where the API server chooses the leader (docs/reference/02 §7.12).

A replica takes part by its `LeaseCandidate`. It never creates or seizes the lease: it renews a
lease that names it, until the server wants another holder.
"""

from __future__ import annotations

import msgspec

from kubesched.api.access import ApiError
from kubesched.api.coordination import Lease
from kubesched.foundation.client.leader_election import LeaderElector
from kubesched.foundation.util.logging import get_logger

__all__ = ["CoordinatedElector"]

log = get_logger(__name__)


class CoordinatedElector(LeaderElector):
    """A `LeaderElector` that leads once the server has written its name into the lease."""

    async def _try(self) -> bool:
        view, began = self._view, (self._clock.monotonic_ns(), self._clock.now_ns())
        try:
            found = await self._api.get(Lease, self._settings.name, self._settings.namespace)
        except ApiError as error:
            if error.code == 404:
                log.info("Lease lock not found", lock=self._lock)
                self.trouble.ended()
            else:
                self.trouble.failed("Failed to get lease lock", error)
            return False
        view.saw(found, self._clock.monotonic_ns())
        if not view.is_ours:
            self.fence.close()
        if not self._may_renew(found, began[0]):
            self.trouble.ended()
            return False
        if self._metrics is not None:
            self._metrics.count_slow_path()
        spec = self._spec(found.spec.acquire_time, found.spec.lease_transitions)
        return await self._write(msgspec.structs.replace(spec, strategy=found.spec.strategy), began)

    def _may_renew(self, found: Lease, now_ns: int) -> bool:
        if not self._view.is_valid(now_ns):
            log.info("Lease has expired", lock=self._lock)
            return False
        if not self._view.is_ours:
            log.detail(
                6,
                "Lease is held and has not yet expired",
                lock=self._lock,
                holder=found.spec.holder_identity,
            )
            return False
        if found.spec.preferred_holder:
            log.detail(4, 'Lease is marked as "end of term"', lock=self._lock)
            return False
        return True
