from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kubesched.foundation.client.informer_backoff import InformerBackoff, jitter
from kubesched.foundation.util.clock import MINUTE, SECOND


class SmallestDraw(random.Random):
    """Always draws the smallest number."""

    def random(self) -> float:
        return 0.0


def delays(backoff: InformerBackoff, now_ns: int, count: int) -> list[float]:
    return [backoff.next_delay_ns(now_ns) / SECOND for _ in range(count)]


def test_delays_double_up_to_half_a_minute() -> None:
    backoff = InformerBackoff(SmallestDraw(), 0)
    assert delays(backoff, 0, 8) == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]


def test_the_sequence_restarts_more_than_two_minutes_after_it_began() -> None:
    backoff = InformerBackoff(SmallestDraw(), 0)
    assert delays(backoff, MINUTE, 2) == [0.8, 1.6]
    assert delays(backoff, 2 * MINUTE, 1) == [3.2]
    assert delays(backoff, 2 * MINUTE + 1, 2) == [0.8, 1.6]
    # Counted from the restart, although the last failure was just now.
    assert delays(backoff, 4 * MINUTE + 1, 1) == [3.2]
    assert delays(backoff, 4 * MINUTE + 2, 1) == [0.8]


@given(st.integers(0, 2**32))
def test_chance_makes_a_delay_up_to_twice_as_long(seed: int) -> None:
    backoff = InformerBackoff(random.Random(seed), 0)
    for base in (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30):
        assert base * SECOND <= backoff.next_delay_ns(0) < 2 * base * SECOND


@given(st.integers(0, 2**32), st.floats(0, 3))
def test_jitter_stays_within_its_factor(seed: int, factor: float) -> None:
    jittered = jitter(10 * SECOND, factor, random.Random(seed))
    assert 10 * SECOND <= jittered <= 10 * SECOND * (1 + factor)


def test_an_unavailable_server_is_retried_every_few_seconds() -> None:
    backoff = InformerBackoff(SmallestDraw(), 0)
    delays = [backoff.next_delay_ns(0, is_away=True) / SECOND for _ in range(6)]
    assert delays == [0.8, 1.6, 3, 3, 3, 3]


def test_a_server_that_is_not_ready_yet_is_retried_soon() -> None:
    backoff = InformerBackoff(SmallestDraw(), 0)
    for _ in range(6):
        backoff.next_delay_ns(0, is_away=True)
    assert delays(backoff, 0, 3) == [0.8, 1.6, 3.2]
    assert backoff.next_delay_ns(0, is_away=True) == 0.8 * SECOND
