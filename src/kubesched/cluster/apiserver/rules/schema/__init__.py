"""The published schemas of API objects: their fields, types and list merge rules."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.schema.definitions import (
    definition_of,
    definitions,
    referenced,
)
from kubesched.cluster.apiserver.rules.schema.field_types import type_problem
from kubesched.cluster.apiserver.rules.schema.unknown_fields import unknown_fields

__all__ = ["definition_of", "definitions", "referenced", "type_problem", "unknown_fields"]
