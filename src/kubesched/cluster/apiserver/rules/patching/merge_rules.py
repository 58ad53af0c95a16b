"""How a strategic merge patch merges each field, by the published schema of a kind.

The schema of a list says whether a patch merges its items, and which field identifies an item
(`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`). A patch replaces all other lists,
among them taints and tolerations, as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from kubesched.cluster.apiserver.rules.schema.definitions import (
    definition_of,
    definitions,
    reference_target,
)

__all__ = [
    "NO_RULES",
    "MergeRule",
    "MergeRules",
    "kind_merge_rules",
    "merge_rules",
    "remove_unidentified_items",
]

Json = dict[str, Any]
Schema = Mapping[str, Any]

_STRATEGY, _KEY = "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"


class MergeRule(NamedTuple):
    """How a patch merges one field."""

    # The rules for the fields of the value, of the items of a list or of the entries of a map.
    inner: MergeRules
    # Whether a list merges item by item.
    merges: bool = False
    # The field that identifies an item; None for a list of scalars, which identify themselves.
    key: str | None = None
    # Whether a patch replaces a map as a whole.
    replaces: bool = False


class MergeRules:
    """The rules for the fields of an object with a schema. They are built on first use."""

    __slots__ = ("_fields", "_others", "_schema")

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._fields: dict[str, MergeRule] | None = None
        # The rule for fields that the schema does not name: those of a map.
        self._others: MergeRule | None = None

    def field(self, name: str) -> MergeRule:
        fields = self._fields
        if fields is None:
            fields = self._fields = {
                field: _rule_of(part) for field, part in self._schema.get("properties", {}).items()
            }
        return fields.get(name) or self._other()

    def _other(self) -> MergeRule:
        if self._others is None:
            part = self._schema.get("additionalProperties")
            self._others = _rule_of(part) if isinstance(part, Mapping) else MergeRule(NO_RULES)
        return self._others


# For an object without a schema: maps merge, lists are replaced.
NO_RULES = MergeRules({})


def kind_merge_rules(group: str, version: str, kind: str) -> MergeRules:
    """Return the rules of a built-in kind. A kind without a definition has those of metadata."""
    name = definition_of(group, version, kind)
    return _CUSTOM_RULES if name is None else merge_rules(name)


@cache
def merge_rules(definition: str) -> MergeRules:
    """Return the rules of a definition, such as `io.k8s.api.core.v1.PodSpec`."""
    return MergeRules(definitions()[definition])


_CUSTOM_RULES = MergeRules(
    {
        "properties": {
            "metadata": {
                "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
            }
        }
    }
)


def _rule_of(schema: Schema) -> MergeRule:
    strategies = str(schema.get(_STRATEGY, "")).split(",")
    items = schema.get("items")
    inner = _rules_of(schema if items is None else items)
    merges = items is not None and "merge" in strategies
    return MergeRule(inner, merges, schema.get(_KEY) if merges else None, "replace" in strategies)


def _rules_of(schema: Schema) -> MergeRules:
    name = reference_target(schema)
    if name is None and len(parts := schema.get("allOf", ())) == 1:
        name = reference_target(parts[0])
    if name is not None:
        return merge_rules(name)
    is_object = "properties" in schema or "additionalProperties" in schema
    return MergeRules(schema) if is_object else NO_RULES


def remove_unidentified_items(document: Json, rules: MergeRules) -> Json:
    """Remove items without a merge key from the lists in metadata and status.

    No server has such items, but a file may, and lookups by key would not find them. The spec is
    not changed.
    """
    return {
        field: _identified(value, rules.field(field)) if field in ("metadata", "status") else value
        for field, value in document.items()
    }


def _identified(value: Any, rule: MergeRule) -> Any:
    if isinstance(value, dict):
        return {name: _identified(each, rule.inner.field(name)) for name, each in value.items()}
    if not isinstance(value, list | tuple):
        return value
    key = rule.key
    return [
        _identified(each, rule) if isinstance(each, dict) else each
        for each in value
        if key is None or not isinstance(each, dict) or each.get(key) is not None
    ]
