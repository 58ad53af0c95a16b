"""Objects as rows of a table, with the columns that `kubectl get` shows."""

from __future__ import annotations

from kubesched.cluster.apiserver.http.tables.layouts import layout_of
from kubesched.cluster.apiserver.http.tables.table import Layout

__all__ = ["Layout", "layout_of"]
