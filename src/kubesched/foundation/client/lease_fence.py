"""The fence that lets a leader write only while its lease is certainly valid.

    since the last renewal                        by default     what may be in flight
    until half way from retry to renew deadline        6 s       any number of writes
    until the renew deadline                          10 s       those, then one at a time
    until half way from there to the lease's end    12.5 s       the last one; nothing begins
    later                                                        nothing

Each renewal restarts the table. Other replicas count a whole lease duration from a later moment, so
every write has ended, here and at the server, well before another replica may act. The remaining
time allows for clocks that run at different speeds and for the transmission of a request.

A process that was suspended for minutes notices it only by its clocks. So the fence is checked
twice: before a write waits for a connection, and immediately before its first byte is sent.
"""

from __future__ import annotations

import asyncio

from kubesched.api.access import ApiError
from kubesched.api.meta import Status
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock

__all__ = ["LeaseFence"]

_NOT_LEADING = Status(status="Failure", code=0, message="not sent: the lease may be in other hands")
_LOOK_AGAIN_NS = 100 * MILLISECOND
_TRAVEL_NS = SECOND


class LeaseFence:
    """Closed at first; the holder of the lease opens it with each renewal."""

    def __init__(
        self, clock: Clock, lease_duration_ns: int, renew_deadline_ns: int, retry_period_ns: int
    ) -> None:
        self._clock = clock
        self._calm_ns = (retry_period_ns + renew_deadline_ns) // 2
        self._begins_ns = renew_deadline_ns
        self._ends_ns = (renew_deadline_ns + lease_duration_ns) // 2
        # The server counts from when a request arrives, which is a little later than when it
        # left, and by a clock that may be slower than ours.
        self._allowance_ns = max(_TRAVEL_NS, lease_duration_ns - self._ends_ns)
        self._is_open = False
        self._renewed_ns = 0
        self._renewed_wall_ns = 0
        self._under_way = 0
        self._settled_ns = 0  # by then the server has dropped the requests without a response
        self._left = asyncio.Event()

    @property
    def under_way(self) -> int:
        """The number of writes in flight."""
        return self._under_way

    def renewed(self, began_ns: int, began_wall_ns: int) -> None:
        """Open the fence after a renewal; its request began at these times of the two clocks."""
        self._is_open = True
        self._renewed_ns, self._renewed_wall_ns = began_ns, began_wall_ns

    def close(self) -> None:
        """Refuse new writes. The senders abandon those in flight."""
        self._is_open = False

    def may_begin(self) -> bool:
        """Whether this process holds the lease now, with time left for a write."""
        return self._is_open and self._age_ns() < self._begins_ns

    async def enter(self) -> int:
        """Wait until a write may begin, and return its deadline. `leave` must follow.

        Raises:
            ApiError: it must not be sent.
        """
        while True:
            self.check()
            age_ns = self._age_ns()
            # Without renewals the lease may end soon; few writes may be in flight then.
            is_calm = age_ns < self._calm_ns
            if is_calm or not self._under_way:
                self._under_way += 1
                limit_ns = self._begins_ns if is_calm else self._ends_ns
                return self._clock.monotonic_ns() + limit_ns - age_ns
            self._left.clear()
            await self._clock.wait(self._left, _LOOK_AGAIN_NS)

    def check(self, ends_ns: int | None = None) -> int:
        """Check the fence again, and return the time that is left until the deadline.

        Raises:
            ApiError: it must not be sent.
        """
        left_ns = 0 if ends_ns is None else ends_ns - self._clock.monotonic_ns()
        if left_ns < 0 or not self.may_begin():
            raise ApiError(_NOT_LEADING)
        return left_ns

    def leave(self, ends_ns: int, *, is_settled: bool) -> None:
        """Report the end of a write; it is settled if it has a response or was never sent.

        The server may execute an unsettled write until about `ends_ns`, the result of `enter`.
        """
        self._under_way -= 1
        self._left.set()
        if not is_settled:
            self._settled_ns = max(self._settled_ns, ends_ns + self._allowance_ns)

    async def settled(self) -> None:
        """Wait until the server can execute no write any more. Bounded by the limits."""
        while self._under_way:
            self._left.clear()
            await self._clock.wait(self._left, _LOOK_AGAIN_NS)
        await self._clock.sleep(max(0, self._settled_ns - self._clock.monotonic_ns()))

    def _age_ns(self) -> int:
        # After a suspension only the wall clock may have advanced. A wall clock that was set
        # forward closes the fence until the next renewal.
        return max(
            self._clock.monotonic_ns() - self._renewed_ns,
            self._clock.now_ns() - self._renewed_wall_ns,
        )
