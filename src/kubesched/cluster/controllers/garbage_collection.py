"""Objects whose owners are all gone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kubesched.api import OwnerReference
from kubesched.cluster.controllers.plans import Delete

__all__ = ["garbage"]


def garbage(candidates: Collection[Any], is_gone: Callable[[OwnerReference], bool]) -> list[Delete]:
    """Deletions of those that have owners, none of which is there any more."""
    return [
        Delete(each)
        for each in candidates
        if each.metadata.owner_references
        and each.metadata.deletion_timestamp is None
        and all(is_gone(owner) for owner in each.metadata.owner_references)
    ]
