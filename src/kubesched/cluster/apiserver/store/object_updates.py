"""Updates and patches of an object: which part of it a write changes, and the result.

These functions neither read nor change the store.
"""

from __future__ import annotations

from typing import Any, Literal

from kubesched.api.access import PatchType
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.patching.merge_rules import kind_merge_rules
from kubesched.cluster.apiserver.rules.patching.patches import PatchError, apply_patch
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource

__all__ = ["patched_document", "prepared_update", "with_next_generation", "written_part"]

Json = dict[str, Any]

WrittenPart = Literal["object", "spec", "status", "finalizers"]


def written_part(resource: Resource, subresource: str) -> WrittenPart:
    """Return the part of an object that a subresource writes. Raises ApiError 404."""
    strategy = resource.strategy
    if subresource == "finalize" and resource.group_resource == "namespaces":
        return "finalizers"
    if subresource in strategy.spec_parts:
        return "spec"
    if strategy.has_status and subresource in strategy.status_parts:
        return "status"
    raise api_errors.unknown_resource()


def prepared_update(
    resource: Resource, part: WrittenPart, subresource: str, new: Json, old: Json
) -> tuple[Json, list[FieldProblem]]:
    """Return the object with only the part changed that the write may change, and its problems."""
    strategy = resource.strategy
    if part == "object":
        new = strategy.prepare_update(new, old)
        return new, strategy.check_update(new, old)
    if part == "status":
        new = strategy.prepare_status(new, old)
        return new, strategy.check_status(new, old)
    if part == "spec":
        new = strategy.prepare_part(subresource, new, old)
        return new, strategy.check_part(subresource, new, old)
    spec = {**old.get("spec", {}), "finalizers": new.get("spec", {}).get("finalizers", [])}
    return {**old, "metadata": new["metadata"], "spec": spec}, []


def with_next_generation(resource: Resource, metadata: Json, new: Json, old: Json) -> Json:
    """Increment the generation in `metadata` if the write changes the spec."""
    if not resource.strategy.changed(new, old):
        return new
    return {**new, "metadata": {**new["metadata"], "generation": metadata["generation"] + 1}}


def patched_document(resource: Resource, old: Json, patch: Any, patch_type: PatchType) -> Json:
    if patch_type == "apply" or (patch_type == "strategic" and resource.type is None):
        raise api_errors.unsupported_patch(strategic=resource.type is not None)
    # The reference always has a status, so a path of a JSON patch may lead into an empty one.
    shows_status = patch_type == "json" and resource.strategy.has_status and "status" not in old
    rules = kind_merge_rules(resource.group, resource.version, resource.kind)
    shown = {**old, "status": {}} if shows_status else old
    try:
        patched = apply_patch(shown, patch, patch_type, rules)
    except PatchError as exc:
        raise api_errors.bad_patch(str(exc)) from exc
    if shows_status and patched.get("status") == {}:
        del patched["status"]
    return {key: value for key, value in patched.items() if key not in ("kind", "apiVersion")}
