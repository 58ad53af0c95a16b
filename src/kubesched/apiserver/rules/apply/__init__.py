"""Server-side apply: several writers of one object, each the owner of the fields it sets."""

from __future__ import annotations

from kubesched.apiserver.rules.apply.applying import apply_document
from kubesched.apiserver.rules.apply.ownership import Manager
from kubesched.apiserver.rules.apply.tracking import is_tracked, tracked_document

__all__ = ["Manager", "apply_document", "is_tracked", "tracked_document"]
