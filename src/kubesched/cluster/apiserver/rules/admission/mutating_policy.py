"""MutatingAdmissionPolicy: changes objects before they are stored.

The expression of a mutation evaluates either to fields, which are merged into the object as in a
server-side apply, or to a JSON patch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubesched.cluster.apiserver.rules.admission.admission_review import Review
from kubesched.cluster.apiserver.rules.admission.policy_expressions import (
    ExpressionCompiler,
    make_bindings,
)
from kubesched.cluster.apiserver.rules.apply.merge_structure import schema_of
from kubesched.cluster.apiserver.rules.apply.object_merge import merge_applied
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem, not_supported
from kubesched.cluster.apiserver.rules.patching.patches import PatchError, json_patch
from kubesched.foundation.cel import CelRuntimeError, Program

__all__ = ["Mutation", "MutationError", "compile_mutation"]

Json = dict[str, Any]

_MAKES: Final = ("Object", "JSONPatch")
_PARTS: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
# A policy cannot change these fields, which identify the object.
_IDENTITY: Final = ("name", "generateName", "namespace", "uid", "resourceVersion", "generation")


class MutationError(Exception):
    """The mutation cannot be computed or applied."""


class Mutation(msgspec.Struct, frozen=True):
    """A compiled mutating policy."""

    variables: Mapping[str, Program]
    conditions: tuple[Program, ...]
    steps: tuple[tuple[str, Program], ...]
    fails_closed: bool

    def apply(self, review: Review, params: Any, namespace: Json | None) -> Json:
        """Return the object with the mutations of the policy.

        Raises:
            MutationError: a mutation failed, and the failure policy is `Fail`.
        """
        assert review.new is not None
        data = review.new
        try:
            bindings = make_bindings(review, params, namespace, self.variables)
            if not all(each.evaluate(bindings) is True for each in self.conditions):
                return review.new
            for kind, program in self.steps:
                step = msgspec.structs.replace(review, new=data)
                bindings = make_bindings(step, params, namespace, self.variables)
                data = _changed(step, kind, program.evaluate(bindings))
        except (CelRuntimeError, PatchError, MutationError) as error:
            if self.fails_closed:
                raise MutationError(str(error)) from error
            return review.new
        return data


def _changed(review: Review, kind: str, result: Any) -> Json:
    """Apply the result of a mutation's expression to the object of a review."""
    assert review.new is not None
    if kind == "JSONPatch":
        if not isinstance(result, list):
            raise MutationError("expression must evaluate to a list of JSONPatch")
        patched = json_patch(review.new, result)
    elif isinstance(result, dict):
        patched = merge_applied(review.new, result, schema_of(review.resource))
    else:
        raise MutationError("expression must evaluate to Object")
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise MutationError("the mutated document is not an object")
    before, metadata = review.new["metadata"], dict(patched["metadata"])
    for field in _IDENTITY:
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    changed = {**patched, "metadata": metadata}
    if review.resource.type is not None:
        try:
            msgspec.convert(changed, review.resource.type)
        except msgspec.ValidationError as error:
            raise MutationError(str(error)) from None
    return changed


def compile_mutation(spec: Json) -> tuple[Mutation, list[FieldProblem]]:
    """Compile a policy. Returns it with its problems."""
    compiler = ExpressionCompiler(spec, makes=_MAKES)
    variables, conditions = compiler.common_parts(spec)
    steps: list[tuple[str, Program]] = []
    for index, each in enumerate(spec.get("mutations") or ()):
        kind = each.get("patchType") or ""
        part = _PARTS.get(kind)
        if part is None:
            path = f"spec.mutations[{index}].patchType"
            compiler.problems.append(not_supported(path, kind, sorted(_PARTS)))
            continue
        declared = each.get(part)
        expression = declared.get("expression") if isinstance(declared, dict) else None
        program = compiler.compile(expression, f"spec.mutations[{index}].{part}.expression")
        if program is not None:
            steps.append((kind, program))
    fails_closed = spec.get("failurePolicy", "Fail") != "Ignore"
    return Mutation(variables, conditions, tuple(steps), fails_closed), compiler.problems
