"""Notes for the events of pods that fit no node (`run --explain-events`).

The event loop writes them from the diagnosis of the attempt; no filter runs again. A note is cached
for a pod and its set of reasons. If writing one took long, events that follow soon get none, so
notes take at most a twentieth of the time, however many pods fail.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.explain.headline import find_headline
from kubesched.explain.plugin_explanations import PluginExplanations
from kubesched.explain.verdicts import AllVerdicts, PluginVerdicts, one_cause_each
from kubesched.foundation.util.clock import Clock
from kubesched.framework import CycleState, Diagnosis, Lister, PodInfo, Snapshot, Status
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["EventNoteWriter"]

_KEPT: Final = 4096
_SHARE: Final = 20


class EventNoteWriter:
    """Writes and caches notes. `lister` returns the lister of a kind."""

    def __init__(
        self, lister: Callable[[type[Any]], Lister[Any]], snapshot: Snapshot, clock: Clock
    ) -> None:
        self._objects = _Listed(lister)
        self._snapshot = snapshot
        self._clock = clock
        self._made: OrderedDict[str, tuple[frozenset[str], str]] = OrderedDict()
        self._rests_until_ns = 0

    def note(self, framework: Framework, pod_info: PodInfo, diagnosis: Diagnosis) -> str:
        """Return the reason with amounts and names; empty if the time budget is used up."""
        reasons = frozenset(diagnosis.reason_counts(len(self._snapshot.nodes)))
        known = self._made.get(pod_info.uid)
        if known is not None and known[0] == reasons:
            self._made.move_to_end(pod_info.uid)
            return known[1]
        began_ns = self._clock.monotonic_ns()
        if began_ns < self._rests_until_ns:
            return ""
        text = self._sentence(framework, pod_info, diagnosis)
        ended_ns = self._clock.monotonic_ns()
        self._rests_until_ns = ended_ns + _SHARE * (ended_ns - began_ns)
        self._made[pod_info.uid] = reasons, text
        if len(self._made) > _KEPT:
            self._made.popitem(last=False)
        return text

    def _sentence(self, framework: Framework, pod_info: PodInfo, diagnosis: Diagnosis) -> str:
        verdicts = _verdicts_of(self._snapshot, diagnosis)
        if verdicts is None:
            return ""
        explanations = PluginExplanations.of_framework(framework)
        once = one_cause_each(pod_info.pod, verdicts, explanations)
        headline = find_headline(self._objects, pod_info, once, explanations, is_complete=False)
        sentence = headline.sentence
        return sentence if sentence.endswith((".", "?")) else f"{sentence}."


class _Listed(NamedTuple):
    """An `ObjectReader` over listers."""

    lister: Callable[[type[Any]], Lister[Any]]

    def get(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        return self.lister(kind).get(name, namespace or None) if name else None

    def list(self, kind: type[Any], namespace: str | None = None) -> Collection[Any]:
        return self.lister(kind).list(namespace)


def _verdicts_of(snapshot: Snapshot, diagnosis: Diagnosis) -> AllVerdicts | None:
    """Return the verdicts of an attempt; each node has that of the first rule that rejects it."""
    nodes = snapshot.nodes
    count = len(nodes)
    if not count:
        return None
    found: dict[str, tuple[list[Status], NDArray[np.intp]]] = {}

    def add(status: Status, positions: NDArray[np.intp] | list[int]) -> None:
        known, codes = found.setdefault(status.plugin, ([], np.zeros(count, dtype=np.intp)))
        if status not in known:
            known.append(status)
        codes[positions] = known.index(status) + 1

    position = np.full(nodes.table.capacity, -1, dtype=np.intp)  # by row
    position[nodes.rows] = np.arange(count)
    for verdicts in diagnosis.iter_verdicts():
        for number, status in enumerate(verdicts.statuses, start=1):
            hit = position[verdicts.rows[verdicts.codes == number]]
            if len(hit):
                add(status, hit[hit >= 0])
    for name, status in diagnosis.statuses_by_name().items():
        row = nodes.table.row_of.get(name)
        if row is not None and position[row] >= 0:
            add(status, [int(position[row])])
    verdicts_found = [
        PluginVerdicts(plugin, codes, tuple(known)) for plugin, (known, codes) in found.items()
    ]
    absent = diagnosis.absent_nodes_status
    if absent.plugin and absent.all_reasons:
        everywhere = np.ones(count, dtype=np.intp)
        verdicts_found.insert(
            0, PluginVerdicts(absent.plugin, everywhere, (absent,), is_about_pod=True)
        )
    return AllVerdicts(nodes, CycleState(), verdicts_found) if verdicts_found else None
