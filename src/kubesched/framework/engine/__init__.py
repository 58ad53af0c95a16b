"""The node table: columns for all nodes, without plugin rules."""

from kubesched.framework.engine.interning import Interner
from kubesched.framework.engine.node_table import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    ChangeLog,
    LabelColumn,
    NodeTable,
    number_of_label,
)
from kubesched.framework.engine.total_index import TotalIndex

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "ChangeLog",
    "Interner",
    "LabelColumn",
    "NodeTable",
    "TotalIndex",
    "number_of_label",
]
