"""Reviews of tokens and permissions by the API server, with retries.

docs/reference/02 §3.3, §4.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

import msgspec

from kubesched.api.access import ApiAccess, ApiError
from kubesched.errors import KubeschedError
from kubesched.foundation.metrics.instruments import CounterMetric, Family, HistogramMetric
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock

__all__ = ["ReviewError", "Reviewer"]

T = TypeVar("T", bound=msgspec.Struct)

_BUDGET_NS = 10 * SECOND
_ATTEMPTS = 5
_FIRST_DELAY_NS = 500 * MILLISECOND
_GROWTH = 1.5
_JITTER = 0.2
_WORTH_ANOTHER_TRY = frozenset({429, 500, 504})
_CREATED = "201"
_NO_ANSWER = "<error>"


class ReviewError(KubeschedError):
    """The API server did not complete a review."""


class Reviewer:
    """Creates reviews. All attempts of one review share a time limit."""

    def __init__(
        self,
        api: ApiAccess,
        clock: Clock,
        rng: random.Random,
        requests_total: Family[CounterMetric],
        request_duration_seconds: Family[HistogramMetric],
    ) -> None:
        self._api, self._clock, self._random = api, clock, rng
        self._requests_total = requests_total
        self._request_duration_seconds = request_duration_seconds

    async def review(self, review: T) -> T:
        """Create a review and return it with its status.

        Raises:
            ReviewError: no attempt succeeded in time.
        """
        try:
            async with asyncio.timeout(_BUDGET_NS / SECOND):
                return await self._with_retries(review)
        except TimeoutError as exc:
            raise ReviewError("context deadline exceeded") from exc

    async def _with_retries(self, review: T) -> T:
        delay_ns = float(_FIRST_DELAY_NS)
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                return await self._create(review)
            except ApiError as exc:
                if not attempts_left or not _is_worth_another_try(exc):
                    raise ReviewError(str(exc)) from exc
            jittered = delay_ns * (1 + _JITTER * self._random.random())
            await self._clock.sleep(int(jittered))
            delay_ns *= _GROWTH
        raise AssertionError("the last attempt returns or raises")

    async def _create(self, review: T) -> T:
        started_ns = self._clock.monotonic_ns()
        code = _NO_ANSWER
        try:
            answer = await self._api.create(review)
            code = _CREATED
        except ApiError as exc:
            if exc.code:
                code = str(exc.code)
            raise
        finally:
            duration_ns = self._clock.monotonic_ns() - started_ns
            self._requests_total.labels(code).inc()
            self._request_duration_seconds.labels(code).observe_ns(duration_ns)
        return answer


def _is_worth_another_try(error: ApiError) -> bool:
    if error.code:
        details = error.status.details
        asks_to_retry = details is not None and details.retry_after_seconds > 0
        return error.code in _WORTH_ANOTHER_TRY or asks_to_retry
    # Retry a broken connection. A refused one will not recover within seconds.
    return _caused_by(error, lambda cause: isinstance(cause, ConnectionResetError))


def _caused_by(error: BaseException, matches: Callable[[BaseException], bool]) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if matches(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
