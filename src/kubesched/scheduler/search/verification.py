"""Compares every decision with a full search (`--verify-engine`).

The answer cache must never change a decision. `VerifyingSearch` runs the cached and the full search
for every pod, and stops the scheduler on the first difference. It makes attempts slower than
without a cache.
"""

from __future__ import annotations

import random
from typing import Any

from kubesched.errors import KubeschedError
from kubesched.framework import CycleState, Diagnosis, FitError, PodInfo
from kubesched.framework.pod_groups import enter_group_cycle, group_cycle_of
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.scheduler.search.full_search import FullSearch
from kubesched.scheduler.search.schedule_result import ScheduleResult

__all__ = ["EngineMismatchError", "VerifyingSearch"]

_SHOWN = 5


class EngineMismatchError(KubeschedError):
    """Cached and full search differ: a bug in kubesched, or in what a plugin declares."""


class VerifyingSearch:
    """Decides as `CachedSearch` does, and checks that `FullSearch` decides the same."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        rng: random.Random,
        percentage: int | None = None,
        *,
        extenders_choose: bool = False,
    ) -> None:
        """Arguments are those of `FullSearch`."""
        self._cached = CachedSearch(snapshot, rng, percentage, extenders_choose=extenders_choose)
        self._full = FullSearch(
            snapshot, random.Random(0), percentage, extenders_choose=extenders_choose
        )
        self.sampling = self._cached.sampling
        self.filtering = self._cached.filtering
        self.scoring = self._cached.scoring

    def use_percentage(self, percentage: int) -> None:
        """Search other shares of the nodes from now on; 0 means all nodes."""
        self.sampling.percentage = self._full.sampling.percentage = percentage

    def schedule_pod(
        self, framework: Framework, state: CycleState, pod_info: PodInfo
    ) -> ScheduleResult:
        """Choose a node for the pod.

        Raises:
            EngineMismatchError: the full search decides otherwise.
            NoNodesError: there is no node.
            FitError: no node fits; carries the diagnosis.
            PluginError: a plugin failed.
        """
        self._full.sampling.start_index = self.sampling.start_index
        try:
            result = self._cached.schedule_pod(framework, state, pod_info)
        except FitError as error:
            self._compare(framework, state, pod_info, _failure(error))
            raise
        self._compare(framework, state, pod_info, _choices(result))
        return result

    def _compare(
        self, framework: Framework, state: CycleState, pod_info: PodInfo, got: dict[str, Any]
    ) -> None:
        full_state = CycleState()
        if (cycle := group_cycle_of(state)) is not None:
            # Both searches see the claims that other members of the group were given.
            enter_group_cycle(full_state, cycle)
        try:
            full = _choices(self._full.schedule_pod(framework, full_state, pod_info))
        except FitError as error:
            full = _failure(error)
        node = got.pop("node", None)
        full.pop("node", None)
        if got == full and (node is None or node in full["best"]):
            return
        metadata = pod_info.pod.metadata
        differing = [key for key in full if got.get(key) != full[key]] or ["node"]
        mismatch = EngineMismatchError(
            f"pod {metadata.namespace}/{metadata.name}: the engine and a full evaluation "
            f"differ in {', '.join(differing)}"
        )
        for key in differing:
            mismatch.add_note(_difference(key, got.get(key, node), full.get(key)))
        mismatch.add_note("a plugin that reads more than it declares is the usual cause")
        raise mismatch


def _difference(key: str, got: Any, full: Any) -> str:
    """Describe a difference in one line; of two mappings, only a few differing entries."""
    if isinstance(got, dict) and isinstance(full, dict):
        names = [name for name in {**got, **full} if got.get(name) != full.get(name)]
        shown = ", ".join(f"{n} {got.get(n)!r} / {full.get(n)!r}" for n in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"{key}, engine / full: {shown}{more}"
    return f"{key}: engine {got!r}, full {full!r}"


def _choices(result: ScheduleResult) -> dict[str, Any]:
    names = list(result.feasible.names)
    scores = result.scores
    totals = [0] * len(names) if scores is None else scores.total.tolist()
    by_node = dict(zip(names, totals, strict=True))
    highest = max(totals)
    return {
        "node": result.node_name,
        "feasible": sorted(names),
        "totals": by_node,
        "best": sorted(name for name, total in by_node.items() if total == highest),
        **_verdicts(result.diagnosis),
    }


def _failure(error: FitError) -> dict[str, Any]:
    return {"message": str(error), **_verdicts(error.diagnosis)}


def _verdicts(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "verdicts": diagnosis.node_statuses(),
        "rejecting plugins": sorted(diagnosis.unschedulable_plugins),
    }
