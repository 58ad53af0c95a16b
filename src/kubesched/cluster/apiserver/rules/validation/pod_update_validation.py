"""Validation of changes to a pod's spec. Only a few fields are mutable."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    invalid,
    required,
)
from kubesched.cluster.apiserver.rules.validation.go_pod_spec import pod_spec_view
from kubesched.cluster.apiserver.rules.validation.placement_validation import check_tolerations

__all__ = ["check_spec_change"]

Json = Mapping[str, Any]

_MAX_INT32 = 2**31 - 1
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_spec_change(new: Json, old: Json) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    for field in ("containers", "initContainers"):
        after, before = new.get(field, ()), old.get(field, ())
        if len(after) != len(before):
            text = "pod updates may not add or remove containers"
            return [*problems, forbidden(f"spec.{field}", text)]
        problems += [
            required(f"spec.{field}[{index}].image")
            for index, container in enumerate(after)
            if not container.get("image")
        ]
    deadline = _check_deadline(new, old)
    problems += deadline
    if deadline and new.get("activeDeadlineSeconds") is not None:
        return problems
    problems += _check_added_tolerations(new.get("tolerations", ()), old.get("tolerations", ()))
    problems += _check_removed_gates(new.get("schedulingGates", ()), old.get("schedulingGates", ()))
    masked = _masked(new, old)
    if old.get("schedulingGates"):
        problems += _check_gated_changes(masked, old)
    if masked != old:
        difference = _difference(old, masked)
        text = f"pod updates may not change fields other than {_UPDATABLE}\n{difference}"
        problems.append(forbidden("spec", text))
    return problems


def _check_deadline(new: Json, old: Json) -> list[FieldProblem]:
    field = "spec.activeDeadlineSeconds"
    after, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if after is None:
        if before is None:
            return []
        text = "must not update from a positive integer to nil value"
        return [invalid(field, None, text)]
    if not 0 <= after <= _MAX_INT32:
        return [invalid(field, after, f"must be between 0 and {_MAX_INT32}, inclusive")]
    if before is not None and before < after:
        return [invalid(field, after, "must be less than or equal to previous value")]
    return []


def _check_added_tolerations(new: Sequence[Json], old: Sequence[Json]) -> list[FieldProblem]:
    def identity(toleration: Json) -> Json:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [identity(toleration) for toleration in new]
    if any(identity(toleration) not in kept for toleration in old):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden("spec.tolerations", text)]
    return check_tolerations(new, "spec.tolerations")


def _check_removed_gates(new: Sequence[Json], old: Sequence[Json]) -> list[FieldProblem]:
    known = {gate.get("name") for gate in old}
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for index, gate in enumerate(new)
        if gate.get("name") not in known
    ]


def _put(spec: dict[str, Any], field: str, value: Any) -> None:
    if value is None:
        spec.pop(field, None)
    else:
        spec[field] = value


def _masked(new: Json, old: Json) -> dict[str, Any]:
    """Return the new spec with all mutable fields reset to their old values."""
    masked = dict(new)
    for field in ("containers", "initContainers"):
        if field in masked:
            masked[field] = [
                {**after, "image": before.get("image", "")}
                for after, before in zip(masked[field], old.get(field, ()), strict=True)
            ]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _put(masked, field, old.get(field))
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and (
        masked.get("terminationGracePeriodSeconds") == 1
    ):
        masked["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return masked


def _check_gated_changes(masked: dict[str, Any], old: Json) -> list[FieldProblem]:
    """Check the node selection of a gated pod, which may become narrower.

    Resets the fields in `masked` to their old values.
    """
    problems = []
    selector, before = masked.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if selector != before:
        changed = any(selector.get(key) != value for key, value in before.items())
        if changed:
            text = "only additions are allowed (no mutations or deletions)"
            problems.append(invalid("spec.nodeSelector", dict(selector), text))
        _put(masked, "nodeSelector", old.get("nodeSelector"))
    affinity = masked.get("affinity") or {}
    old_affinity = old.get("affinity") or {}
    node, old_node = affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity")
    if node != old_node:
        problems += _check_narrowed(node or {}, old_node or {})
        restored = dict(affinity)
        _put(restored, "nodeAffinity", old_node)
        _put(masked, "affinity", restored if restored or "affinity" in old else None)
    return problems


def _check_narrowed(new: Json, old: Json) -> list[FieldProblem]:
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    path = f"spec.affinity.nodeAffinity.{field}"
    before = (old.get(field) or {}).get("nodeSelectorTerms", ())
    if not before:
        return []
    after = (new.get(field) or {}).get("nodeSelectorTerms", ())
    if len(after) != len(before):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(f"{path}.nodeSelectorTerms", list(after), text)]
    problems = []
    for index, (term, previous) in enumerate(zip(after, before, strict=True)):
        kept = all(
            list(term.get(part, ()))[: len(previous.get(part, ()))] == list(previous.get(part, ()))
            for part in ("matchExpressions", "matchFields")
        )
        empty = not previous.get("matchExpressions") and not previous.get("matchFields")
        if not kept or (empty and term != previous):
            at = f"{path}.nodeSelectorTerms[{index}]"
            text = "only additions are allowed (no mutations or deletions)"
            problems.append(invalid(at, dict(term), text))
    return problems


def _difference(old: Json, new: Json) -> str:
    """Return a unified diff of both specs, in the form that the reference prints them."""
    before, after = (
        json.dumps(pod_spec_view(spec), indent=1, ensure_ascii=False).splitlines()
        for spec in (old, new)
    )
    lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in lines)
