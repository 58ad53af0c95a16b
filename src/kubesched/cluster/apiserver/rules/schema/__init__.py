"""The published schemas of API objects: their fields, types and list merge rules."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.schema.definitions import (
    collect_definitions,
    definition_of,
    definitions,
)
from kubesched.cluster.apiserver.rules.schema.field_types import type_problem
from kubesched.cluster.apiserver.rules.schema.unknown_fields import unknown_fields

__all__ = ["collect_definitions", "definition_of", "definitions", "type_problem", "unknown_fields"]
