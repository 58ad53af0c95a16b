"""Server-side apply: several writers of one object, each the owner of the fields it sets."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.apply.applying import apply_document
from kubesched.cluster.apiserver.rules.apply.ownership import Manager
from kubesched.cluster.apiserver.rules.apply.tracking import is_tracked, tracked_document

__all__ = ["Manager", "apply_document", "is_tracked", "tracked_document"]
