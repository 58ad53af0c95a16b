"""Validation of the pod templates of workloads, as strict as that of pods.

Otherwise a controller would endlessly create pods that the server refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.metadata_validation import (
    check_annotations,
    check_labels,
)
from kubesched.cluster.apiserver.rules.validation.pod_validation import check_pod_spec

__all__ = ["check_job_template", "check_lasting_template", "check_pod_template"]

Json = Mapping[str, Any]

_ALWAYS = "Always"
_OF_JOBS = ("OnFailure", "Never")


def check_pod_template(
    template: Json, path: str, *, has_other_volumes: bool = False
) -> list[FieldProblem]:
    """Check the labels, the annotations and the spec of a template that has its defaults."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    problems: list[FieldProblem] = []
    if labels := metadata.get("labels"):
        problems += check_labels(labels, f"{path}.labels")
    if annotations := metadata.get("annotations"):
        problems += check_annotations(annotations, f"{path}.annotations")
    problems += check_pod_spec(
        spec, f"{path}.spec", template=True, has_other_volumes=has_other_volumes
    )
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        problems.append(forbidden(f"{path}.spec.ephemeralContainers", text))
    return problems


def check_lasting_template(template: Json, path: str, kind: str) -> list[FieldProblem]:
    """Check the template of a controller that replaces its pods; `kind` is part of the message."""
    # A StatefulSet adds the volumes of its claim templates.
    adds_volumes = kind == "StatefulSet"
    problems = check_pod_template(template, path, has_other_volumes=adds_volumes)
    spec = template.get("spec") or {}
    if (policy := spec.get("restartPolicy", "")) in _OF_JOBS:
        problems.append(not_supported(f"{path}.spec.restartPolicy", policy, (_ALWAYS,)))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        problems.append(forbidden(f"{path}.spec.activeDeadlineSeconds", text))
    return problems


def check_job_template(template: Json, path: str) -> list[FieldProblem]:
    """Check the template of a job, whose pods end."""
    problems = check_pod_template(template, path)
    if (template.get("spec") or {}).get("restartPolicy", "") in ("", _ALWAYS):
        text = 'valid values: "OnFailure", "Never"'
        problems.append(required(f"{path}.spec.restartPolicy", text))
    return problems
