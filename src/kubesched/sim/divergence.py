"""The first decision in which two runs differ, and the reason.

A run stores a digest of all events up to each sample. The first sample with different digests
bounds the first difference. Both runs are then repeated, and store only the decisions of that span.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubesched.api import Pod
from kubesched.cluster.apiserver import Fault, Faults
from kubesched.errors import KubeschedError
from kubesched.explain import Explanation, Snapshot
from kubesched.explain.clusters.sources import SCHEDULING_KINDS
from kubesched.sim.observer import Decision
from kubesched.sim.results import RunResult
from kubesched.sim.scenario import Configuration, Scenario
from kubesched.sim.simulation import Simulation, simulate
from kubesched.sim.values import format_duration

__all__ = ["Divergence", "Side", "first_divergence"]

_SHOWN: Final = 3


class Side(msgspec.Struct, frozen=True):
    """One of two runs: a scenario, a configuration and a seed."""

    scenario: Scenario
    configuration: Configuration
    seed: int

    @property
    def label(self) -> str:
        return self.configuration.name


class Divergence(msgspec.Struct, frozen=True):
    """The first difference of two runs."""

    time_ns: int
    first: Decision | None
    second: Decision | None
    first_label: str
    second_label: str
    because: list[str]

    def sentence(self) -> str:
        """Return text such as `default/x at 3h12m: A: bound to a; B: bound to b`."""
        sides = ((self.first_label, self.first), (self.second_label, self.second))
        time = format_duration(self.time_ns)
        names = {each[2] for _, each in sides if each is not None}
        if len(names) == 1:
            said = "; ".join(f"{label}: {_decision_text(each)}" for label, each in sides)
            return f"{names.pop()} at {time}: {said}"
        said = "; ".join(
            f"{label}: {_decision_text(each, each and each[2])}" for label, each in sides
        )
        return f"at {time}: {said}"


def first_divergence(
    first: Side,
    second: Side,
    results: tuple[RunResult, RunResult] | None = None,
    *,
    explain: bool = True,
) -> Divergence | None:
    """Find the first difference of two runs; None if there is none.

    With `results` the span of the difference is known without repeating the runs.
    """
    if results is None:
        results = (
            simulate(first.scenario, first.configuration, first.seed)[0],
            simulate(second.scenario, second.configuration, second.seed)[0],
        )
    window = _window(first.scenario, results)
    if window is None:
        return None
    decisions = [
        simulate(each.scenario, each.configuration, each.seed, window=window, until_ns=window[1])[
            1
        ].observer.decisions
        for each in (first, second)
    ]
    found = _first_difference(*decisions)
    if found is None:
        return None
    one, other = found
    because = _because(first, second, one, other) if explain else []
    time_ns = min(each[0] for each in found if each is not None)
    return Divergence(time_ns, one, other, first.label, second.label, because)


def _window(scenario: Scenario, results: tuple[RunResult, RunResult]) -> tuple[int, int] | None:
    one, other = (each.step_digests for each in results)
    times = results[0].series["time"]
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            start = round(times[place - 1] * 1e9) if place else 0
            return start, round(times[place] * 1e9)
    if results[0].digest != results[1].digest:
        return round(times[-1] * 1e9) if times else 0, scenario.duration_ns
    return None


def _first_difference(
    one: list[Decision], other: list[Decision]
) -> tuple[Decision | None, Decision | None] | None:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return left, right
    if len(one) > len(other):
        return one[len(other)], None
    if len(other) > len(one):
        return None, other[len(one)]
    return None


def _decision_text(decision: Decision | None, name: str | None = None) -> str:
    if decision is None:
        return "nothing"
    _, what, _, where = decision
    text = f"{what} {name}" if name else what
    return f"{text} to {where}" if what == "bound" else f"{text} {where}".strip()


def _because(first: Side, second: Side, one: Decision | None, other: Decision | None) -> list[str]:
    """Explain the pod with both configurations, with the objects right before the decision."""
    pod = next((each[2] for each in (one, other) if each is not None and each[1] == "bound"), None)
    if pod is None:
        return []
    side = first if one is not None and one[1] == "bound" else second
    objects = _objects_before(side, pod)
    if not objects:
        return []
    against = {first.label: other[3] if other else "", second.label: one[3] if one else ""}
    said = []
    for each in (first, second):
        try:
            snapshot = Snapshot(objects, configuration=each.configuration.configuration)
            explanation = snapshot.explain(pod, suggest=False, versus=against[each.label])
        except KubeschedError as error:
            said.append(f"{each.label}: cannot be explained: {error}")
            continue
        said.append(f"{each.label}: {_in_short(explanation)}")
    return said


def _in_short(explanation: Explanation) -> str:
    if explanation.verdict != "fits":
        return explanation.message or explanation.summary
    shown = ", ".join(f"{each.node} {each.total}" for each in explanation.scores[:_SHOWN])
    text = f"best nodes by score: {shown}"
    versus = explanation.versus
    return f"{text}; {versus.summary}" if versus is not None and versus.summary else text


def _objects_before(side: Side, pod: str) -> list[Any]:
    """Return all objects of the run at the moment when the pod is bound."""
    kept: list[Any] = []

    def watching(simulation: Simulation) -> Faults:
        def faults(verb: str, _kind: str, namespace: str | None, name: str) -> Fault | None:
            if verb == "bind" and f"{namespace}/{name}" == pod and not kept:
                for each in SCHEDULING_KINDS:
                    resource = simulation.store.catalog.by_type(each.type)
                    kept.extend(record.typed for record in simulation.store.list(resource).records)
            return None

        return faults

    simulate(side.scenario, side.configuration, side.seed, faults=watching)
    return [each for each in kept if not isinstance(each, Pod) or each.metadata.name]
