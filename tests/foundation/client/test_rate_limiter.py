from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.errors import ConfigError
from kubesched.foundation.client.rate_limiter import TokenBucket
from kubesched.foundation.util.clock import SECOND


def test_a_full_bucket_lets_a_burst_through_and_then_one_at_a_time() -> None:
    bucket = TokenBucket(qps=50, burst=100)
    waits = [bucket.take(0) for _ in range(103)]
    assert waits[:100] == [0] * 100
    assert waits[100:] == [SECOND // 50, 2 * SECOND // 50, 3 * SECOND // 50]


def test_a_negative_rate_is_no_limit() -> None:
    bucket = TokenBucket(qps=-1, burst=0)
    assert [bucket.take(0) for _ in range(1000)] == [0] * 1000


def test_a_bucket_that_never_holds_a_token_is_refused() -> None:
    with pytest.raises(ConfigError, match="burst is required to be greater than 0"):
        TokenBucket(qps=5, burst=0)


@given(st.lists(st.integers(0, 2 * SECOND), max_size=60), st.integers(1, 5), st.integers(1, 5))
def test_no_window_has_more_than_the_burst_and_what_is_refilled(
    gaps: list[int], qps: int, burst: int
) -> None:
    bucket, now_ns, used_ns = TokenBucket(qps, burst), 0, []
    for gap in gaps:
        now_ns += gap
        used_ns.append(now_ns + bucket.take(now_ns))
    assert used_ns == sorted(used_ns)  # served in the order of the calls
    for first, start in enumerate(used_ns):
        for last in range(first, len(used_ns)):
            allowed = burst + (used_ns[last] - start) * qps / SECOND
            assert last - first + 1 <= allowed + 0.001
