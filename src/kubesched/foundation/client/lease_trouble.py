"""Why requests about a lease fail, and since when.

The reference only logs each failed request: a replica that may not write its lease stays ready, and
nothing reports that it can never lead. Here the first failure is logged, and then one line a
minute. A health check and a metric report the failures as well.
"""

from __future__ import annotations

from kubesched.api.access import ApiError
from kubesched.foundation.metrics.client_metrics import LeaderElectionMetrics
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.go_format import format_duration
from kubesched.foundation.util.logging import get_logger

__all__ = ["LeaseTrouble"]

log = get_logger(__name__)

_REPEAT_NS = 60 * SECOND
# Not refusals: absent, changed by another replica, busy.
_PASSING = frozenset({404, 409, 429})


class LeaseTrouble:
    """The failures of requests about one lease since the last success."""

    def __init__(
        self, clock: Clock, lock: str, tolerance_ns: int, metrics: LeaderElectionMetrics | None
    ) -> None:
        """Failures other than refusals count as a problem after `tolerance_ns`."""
        self._clock, self._lock, self._metrics = clock, lock, metrics
        self._tolerance_ns = tolerance_ns
        self._error: Exception | None = None  # of the last request
        self._began_ns = 0
        self._logged_ns = 0

    def failed(self, message: str, error: Exception) -> None:
        """Record a failed request; `message` is the reference's line about it."""
        now_ns = self._clock.monotonic_ns()
        if self._error is None:
            self._began_ns = self._logged_ns = now_ns
            log.error(message, exc=error, lock=self._lock)
        elif now_ns - self._logged_ns >= _REPEAT_NS:
            self._logged_ns = now_ns
            since = format_duration((now_ns - self._began_ns) // SECOND * SECOND)
            log.error(
                "The lease cannot be acquired; without it this replica schedules no pods",
                exc=error,
                lock=self._lock,
                since=since,
            )
        else:
            log.detail(4, message, err=error, lock=self._lock)
        self._error = error
        self._publish()

    def ended(self) -> None:
        """Record that the server has answered a request about the lease."""
        self._error = None
        self._publish()

    def problem(self) -> str | None:
        """Return the last failure if it is a refusal, or if there was no response for too long."""
        error = self._error
        if error is None:
            return None
        lasted_ns = self._clock.monotonic_ns() - self._began_ns
        if not _is_refusal(error) and lasted_ns <= self._tolerance_ns:
            return None
        return f"lease {self._lock} cannot be acquired: {error}"

    def _publish(self) -> None:
        if self._metrics is not None:
            self._metrics.set_failing(self._error is not None)


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, ApiError) and 400 <= error.code < 500 and error.code not in _PASSING
