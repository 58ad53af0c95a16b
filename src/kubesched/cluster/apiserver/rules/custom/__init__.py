"""Custom resources: what a definition's schema does to objects.

Fields that the schema does not know are dropped, what is left out gets its default, values are
checked, and rules in CEL are evaluated. What is invalid but unchanged by an update passes.
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
