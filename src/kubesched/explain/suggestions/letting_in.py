"""Pods that no attempt is made at: let them in, or give them to a scheduler that runs."""

from __future__ import annotations

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.explain.model import ClusterModel
from kubesched.explain.results import Suggestion
from kubesched.explain.suggestions.candidate import POD, Candidate
from kubesched.explain.suggestions.trying import try_out

__all__ = ["let_in", "with_other_scheduler"]

_REMOVE_GATES = '[{"op":"remove","path":"/spec/schedulingGates"}]'


def let_in(model: ClusterModel, pod: Pod) -> tuple[Suggestion, ...]:
    """Without its gates, if it would fit then."""
    gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    if not gates:
        return ()
    metadata = pod.metadata
    candidate = Candidate(
        f"remove the scheduling gate {gates}",
        POD,
        1.0,
        replace(pod, spec=replace(pod.spec, scheduling_gates=())),
        command=f"kubectl patch pod -n {metadata.namespace} {metadata.name} --type=json "
        f"-p '{_REMOVE_GATES}'",
    )
    found = try_out(model, candidate)
    return () if found is None else (found,)


def with_other_scheduler(model: ClusterModel, pod: Pod, name: str) -> tuple[Suggestion, ...]:
    """As a pod of another profile, if it would fit then."""
    other = replace(pod, spec=replace(pod.spec, scheduler_name=name))
    found = try_out(model, Candidate(f"set schedulerName to {name!r}", POD, 1.0, other))
    return () if found is None else (found,)
