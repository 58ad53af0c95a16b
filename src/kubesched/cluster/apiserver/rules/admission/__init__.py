"""Admission policies: CEL rules of a cluster administrator for writes to the cluster."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.admission.admission_review import Review
from kubesched.cluster.apiserver.rules.admission.mutating_policy import (
    Mutation,
    MutationError,
    compile_mutation,
)
from kubesched.cluster.apiserver.rules.admission.validating_policy import (
    Denial,
    Policy,
    compile_policy,
)

__all__ = [
    "Denial",
    "Mutation",
    "MutationError",
    "Policy",
    "Review",
    "compile_mutation",
    "compile_policy",
]
