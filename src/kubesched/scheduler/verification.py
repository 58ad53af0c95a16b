"""Checks every decision against a full evaluation (`--verify-engine`).

Kept answers must never change a decision. This evaluates each pod a second time with nothing
kept and stops the scheduler on the first difference. It costs what the engine saves.
"""

from __future__ import annotations

import random
from typing import Any

from kubesched.framework import CycleState, Diagnosis, FitError, PodInfo
from kubesched.runtime.framework import Framework
from kubesched.scheduler.algorithm import (
    EngineMismatchError,
    ScheduleResult,
    SchedulingAlgorithm,
)

__all__ = ["VerifyingAlgorithm"]

_SHOWN = 5


class VerifyingAlgorithm(SchedulingAlgorithm):
    """Decides as `SchedulingAlgorithm` does, and checks that nothing kept was wrong."""

    def schedule_pod(
        self, framework: Framework, state: CycleState, pod_info: PodInfo
    ) -> ScheduleResult:
        """Choose a node.

        Raises:
            EngineMismatchError: a full evaluation comes to another result.
        """
        start_index = self._start_index
        try:
            result = super().schedule_pod(framework, state, pod_info)
        except FitError as error:
            self._compare(framework, pod_info, start_index, _failure(error))
            raise
        self._compare(framework, pod_info, start_index, _choices(result))
        return result

    def _compare(
        self, framework: Framework, pod_info: PodInfo, start_index: int, got: dict[str, Any]
    ) -> None:
        checking = SchedulingAlgorithm(
            self._snapshot,
            random.Random(0),
            self._percentage,
            others_choose=self._others_choose,
        )
        checking._start_index = start_index
        framework.keeps_evaluations = False
        try:
            full = _choices(checking.schedule_pod(framework, CycleState(), pod_info))
        except FitError as error:
            full = _failure(error)
        finally:
            framework.keeps_evaluations = True
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
        mismatch.add_note("a plugin that is not node-local but says so is the usual cause")
        raise mismatch


def _difference(key: str, got: Any, full: Any) -> str:
    """One line; of two mappings only what differs, and no more than a few entries of it."""
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
