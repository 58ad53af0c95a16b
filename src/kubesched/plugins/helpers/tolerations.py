"""What plugins that look at tolerations share beyond `api.taints`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubesched.api import Pod, Toleration

__all__ = ["COMPARISON_OPERATORS", "signed_tolerations"]

# The gate that lets tolerations use `Lt` and `Gt`.
COMPARISON_OPERATORS = "TaintTolerationComparisonOperators"


def signed_tolerations(pod: Pod) -> Mapping[str, Sequence[Toleration]]:
    """The signature fragment; only key and value decide the order (docs/reference/05 §8)."""
    ordered = sorted(pod.spec.tolerations, key=lambda each: (each.key, each.value))
    return {"v1.Pod.Spec.Tolerations": ordered}
