"""The ledger of shadow mode: counts of all decisions, and details of the last ones.

Its size is bounded: counts have a fixed set of keys, and old entries are evicted.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Final

from kubesched.api.time import format_time
from kubesched.explain.shadow.shadow_entries import (
    AGREEMENTS,
    AssumedState,
    ShadowEntry,
    ShadowReport,
    ShadowVerdict,
)

__all__ = ["ShadowLedger"]

_DIFFERENCES: Final = 1000
_ENTRIES: Final = 200


class ShadowLedger:
    """Counts entries. Metrics set `on_entry`, which is called with each entry."""

    def __init__(
        self, started_ns: int, on_entry: Callable[[ShadowEntry], object] = lambda _: None
    ) -> None:
        self._started_ns = started_ns
        self._on_entry = on_entry
        self._by_profile: dict[str, Counter[str]] = defaultdict(Counter)
        self._states: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()
        self._not_compared: Counter[str] = Counter()
        self._differences: deque[ShadowEntry] = deque(maxlen=_DIFFERENCES)
        self._entries: deque[ShadowEntry] = deque(maxlen=_ENTRIES)

    def add(self, entry: ShadowEntry) -> None:
        self._by_profile[entry.profile][entry.verdict] += 1
        self._states[entry.state] += 1
        self._entries.append(entry)
        if entry.verdict not in AGREEMENTS:
            self._causes[entry.plugin or "none"] += 1
            self._differences.append(entry)
        self._on_entry(entry)

    def leave_out(self, reason: str) -> None:
        """Count a pod that cannot be compared."""
        self._not_compared[reason] += 1

    def report(self, now_ns: int) -> ShadowReport:
        verdicts: Counter[str] = sum(self._by_profile.values(), Counter())
        compared = verdicts.total()
        agreed = sum(verdicts[verdict] for verdict in AGREEMENTS)
        return ShadowReport(
            since=format_time(self._started_ns),
            until=format_time(now_ns),
            compared=compared,
            agreed=agreed / compared if compared else 0.0,
            verdicts=_in_order(verdicts),
            profiles={name: _in_order(found) for name, found in self._by_profile.items()},
            states={state: self._states[state] for state in AssumedState if self._states[state]},
            causes=dict(self._causes.most_common()),
            not_compared=dict(self._not_compared.most_common()),
            differences=tuple(reversed(self._differences)),
            entries=tuple(reversed(self._entries)),
        )


def _in_order(counts: Counter[str]) -> dict[str, int]:
    return {verdict: counts[verdict] for verdict in ShadowVerdict if counts[verdict]}
