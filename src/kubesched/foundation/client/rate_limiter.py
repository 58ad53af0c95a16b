"""The rate limit of a client: a token bucket (docs/reference/02 §9.2).

`TokenBucket` has no clock: it takes the time and returns how long to wait. Callers proceed in the
order of their calls, because each takes its token at once, even a future one.
"""

from __future__ import annotations

from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import SECOND

__all__ = ["TokenBucket"]


class TokenBucket:
    """Holds up to `burst` tokens and gains `qps` a second; full at first.

    Raises:
        ConfigError: the bucket could never hold a token.
    """

    def __init__(self, qps: float, burst: int) -> None:
        if qps > 0 and burst <= 0:
            raise ConfigError(
                "burst is required to be greater than 0 when RateLimiter is not set and QPS is set "
                "to greater than 0"
            )
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)
        self._counted_ns: int | None = None

    def take(self, now_ns: int) -> int:
        """Take a token and return how long to wait before using it."""
        if self._qps <= 0:
            return 0
        self._refill(now_ns)
        self._tokens -= 1
        return 0 if self._tokens >= 0 else int(-self._tokens * SECOND / self._qps)

    def take_if_any(self, now_ns: int) -> bool:
        """Take a token if one is available now."""
        self._refill(now_ns)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self, now_ns: int) -> None:
        if self._counted_ns is not None:
            gained = max(0, now_ns - self._counted_ns) * self._qps / SECOND
            self._tokens = min(self._burst, self._tokens + gained)
        self._counted_ns = now_ns
