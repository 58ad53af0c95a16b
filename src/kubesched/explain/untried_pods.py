"""Suggestions for pods that no scheduler tries: remove gates, or set another scheduler name."""

from __future__ import annotations

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.explanation import Suggestion
from kubesched.explain.remedy_trials import try_out
from kubesched.framework import Remedy

__all__ = ["with_other_scheduler", "without_gates"]

_REMOVE_GATES = '[{"op":"remove","path":"/spec/schedulingGates"}]'


def without_gates(model: ClusterModel, pod: Pod) -> tuple[Suggestion, ...]:
    """Suggest to remove the pod's scheduling gates, if it would fit then."""
    gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    if not gates:
        return ()
    metadata = pod.metadata
    remedy = Remedy(
        f"remove the scheduling gate {gates}",
        1.0,
        replace(pod, spec=replace(pod.spec, scheduling_gates=())),
        command=f"kubectl patch pod -n {metadata.namespace} {metadata.name} --type=json "
        f"-p '{_REMOVE_GATES}'",
    )
    found = try_out(model, remedy)
    return () if found is None else (found,)


def with_other_scheduler(model: ClusterModel, pod: Pod, name: str) -> tuple[Suggestion, ...]:
    """Suggest another scheduler name, if the pod would fit then."""
    other = replace(pod, spec=replace(pod.spec, scheduler_name=name))
    found = try_out(model, Remedy(f"set schedulerName to {name!r}", 1.0, other))
    return () if found is None else (found,)
