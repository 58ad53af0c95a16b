"""Tables of objects, with the columns that `kubectl get` shows."""

from __future__ import annotations

from kubesched.cluster.apiserver.http.tables.table import Layout
from kubesched.cluster.apiserver.http.tables.table_layouts import layout_of

__all__ = ["Layout", "layout_of"]
