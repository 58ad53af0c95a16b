"""Custom resources: pruning, defaulting and validation by the schema of a definition.

Unknown fields are pruned, missing fields get their defaults, values are validated, and CEL rules
are evaluated. Invalid values that an update does not change are accepted.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.custom.custom_strategy import CustomStrategy
from kubesched.cluster.apiserver.rules.custom.definition import (
    CustomSchema,
    definition_problems,
    read_schema,
)
from kubesched.cluster.apiserver.rules.custom.schema_publication import (
    published_name,
    published_schema,
)

__all__ = [
    "CustomSchema",
    "CustomStrategy",
    "definition_problems",
    "published_name",
    "published_schema",
    "read_schema",
]
