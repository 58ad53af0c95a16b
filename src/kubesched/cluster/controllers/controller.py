"""One controller: its plan function, and what triggers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubesched.api.base import ApiObject
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import ActionPlan
from kubesched.cluster.controllers.triggers import Trigger

__all__ = ["Controller"]


def _always(_subject: Any) -> bool:
    return True


class Controller(NamedTuple):
    """Plans for objects of one kind. `Controllers` calls it and carries out its plans."""

    name: str  # the reporting controller of its events
    kind: type[ApiObject]
    # From the index, an object, its whole JSON document and the present time to a plan.
    plan: Callable[[ObjectIndex, Any, Mapping[str, Any], int], ActionPlan]
    triggers: tuple[Trigger, ...]
    # A cheap check whether there can be anything to do for an object.
    applies: Callable[[Any], bool] = _always
