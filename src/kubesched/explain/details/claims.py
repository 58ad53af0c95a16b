"""Volumes and devices: which of the pod's claims it is about, and in what state that is."""

from __future__ import annotations

from kubesched.api import PersistentVolumeClaim, Pod
from kubesched.explain.details.context import DetailContext

__all__ = ["claim_names", "describe_claims"]


def claim_names(pod: Pod) -> list[str]:
    """Names of the volume claims that a pod uses, generic ephemeral ones included."""
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return names


def describe_claims(context: DetailContext, _reason: str) -> tuple[str, str, str]:
    pod = context.pod
    states = []
    for name in claim_names(pod):
        claim = context.objects.get(PersistentVolumeClaim, name, pod.metadata.namespace)
        if claim is None:
            states.append(f"claim {name} does not exist")
        elif claim.spec.volume_name:
            states.append(f"claim {name} is bound to {claim.spec.volume_name}")
        else:
            kind = claim.spec.storage_class_name or "no class"
            states.append(f"claim {name} is not bound ({kind})")
    return "", "", "; ".join(states)
