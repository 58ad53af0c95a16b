"""Admission policies: rules in CEL that a cluster's owner puts on other people's objects."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.admission.mutation import (
    Mutation,
    MutationError,
    compile_mutation,
)
from kubesched.cluster.apiserver.rules.admission.policy import Denial, Policy, compile_policy
from kubesched.cluster.apiserver.rules.admission.review import Review

__all__ = [
    "Denial",
    "Mutation",
    "MutationError",
    "Policy",
    "Review",
    "compile_mutation",
    "compile_policy",
]
