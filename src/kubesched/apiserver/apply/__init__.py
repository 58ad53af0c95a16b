"""Server-side apply: several writers of one object, each the owner of the fields it sets."""

from __future__ import annotations

from kubesched.apiserver.apply.applying import apply_document
from kubesched.apiserver.apply.ownership import Manager
from kubesched.apiserver.apply.tracking import is_tracked, tracked_document

__all__ = ["Manager", "apply_document", "is_tracked", "tracked_document"]
