"""The strategy for objects of a custom resource."""

from __future__ import annotations

from typing import Final

from kubesched.cluster.apiserver.rules.custom.definition import CustomSchema
from kubesched.cluster.apiserver.rules.custom.schema_validation import (
    ABSENT,
    ValidationSteps,
    schema_problems,
)
from kubesched.cluster.apiserver.rules.custom.structural_schema import (
    DefaultedSize,
    add_defaults,
    prune,
)
from kubesched.cluster.apiserver.rules.custom.validation_rules import rule_problems
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy
from kubesched.cluster.apiserver.rules.validation.metadata_validation import check_metadata_update

__all__ = ["CustomStrategy"]

# After one of these problems the rules are not evaluated. They would repeat it or fail.
_BLOCKING: Final = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)
_NOT_CHECKED: Final = FieldProblem(
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class CustomStrategy(ResourceStrategy):
    """Prunes, defaults and validates objects by a schema."""

    counts_generations = True
    unconditional_update = False

    def __init__(self, custom: CustomSchema | None = None, *, has_status: bool = False) -> None:
        self.custom = custom
        self.has_status = has_status

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        if self.custom is None:
            return new
        kept = prune(new, self.custom.schema, is_resource=True)
        result: Json = add_defaults(kept, self.custom.schema, DefaultedSize())
        return result

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return self._problems(new, ABSENT)

    def check_update(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_metadata_update(new["metadata"], old["metadata"]) + self._problems(new, old)

    def check_status(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return self.check_update(new, old)

    def _problems(self, new: Json, old: object) -> list[FieldProblem]:
        if self.custom is None:
            return []
        # The metadata is validated separately.
        schema = _without_metadata(self.custom.schema)
        problems = list(schema_problems(new, schema, "", ValidationSteps(), old))
        if self.custom.rules is None:
            return problems
        if any(problem.reason in _BLOCKING for problem in problems):
            return [*problems, _NOT_CHECKED]
        return problems + rule_problems(new, self.custom.rules, "", old)


def _without_metadata(schema: Json) -> Json:
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    implied = ("apiVersion", "kind")
    if "metadata" not in properties and not any(name in required for name in implied):
        return schema
    kept = {key: part for key, part in properties.items() if key not in ("metadata", *implied)}
    needed = [name for name in required if name not in implied]
    return {**schema, "properties": kept, "required": needed}
