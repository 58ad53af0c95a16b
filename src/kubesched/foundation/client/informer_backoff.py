"""The delays between an informer's retries (docs/reference/02 §10.4)."""

from __future__ import annotations

import random

from kubesched.foundation.util.clock import MILLISECOND, MINUTE, SECOND

__all__ = ["InformerBackoff", "jitter"]

_FIRST_NS = 800 * MILLISECOND
_LONGEST_NS = 30 * SECOND
_LONGEST_AWAY_NS = 3 * SECOND
_RESTART_AFTER_NS = 2 * MINUTE


def jitter(duration_ns: int, factor: float, dice: random.Random) -> int:
    """Return the duration, lengthened by up to `factor` of itself."""
    return duration_ns + int(dice.random() * factor * duration_ns)


class InformerBackoff:
    """Doubling delays from 0.8 s to 30 s, each multiplied by a random factor from 1 to 2.

    The sequence starts over on the first use more than two minutes after its start, no matter how
    recent the last failure was. Delays for an unreachable server stay short: such requests cost the
    server nothing, and the informer should find it soon after it starts. They are a separate
    sequence, because a server that has just started may refuse requests at first.
    """

    def __init__(self, dice: random.Random, now_ns: int) -> None:
        self._dice = dice
        self._started_ns = now_ns
        self._next_ns = _FIRST_NS
        self._next_away_ns = _FIRST_NS

    def next_delay_ns(self, now_ns: int, *, is_away: bool = False) -> int:
        if now_ns - self._started_ns > _RESTART_AFTER_NS:
            self._started_ns = now_ns
            self._next_ns = self._next_away_ns = _FIRST_NS
        if is_away:
            delay_ns = self._next_away_ns
            self._next_away_ns = min(2 * delay_ns, _LONGEST_AWAY_NS)
        else:
            delay_ns = self._next_ns
            self._next_ns = min(2 * delay_ns, _LONGEST_NS)
            self._next_away_ns = _FIRST_NS
        return jitter(delay_ns, 1.0, self._dice)
