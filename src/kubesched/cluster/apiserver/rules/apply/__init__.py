"""Server-side apply: each field manager of an object owns the fields that it sets."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.apply.field_ownership import Manager
from kubesched.cluster.apiserver.rules.apply.ownership_tracking import is_tracked, tracked_document
from kubesched.cluster.apiserver.rules.apply.server_side_apply import apply_document

__all__ = ["Manager", "apply_document", "is_tracked", "tracked_document"]
