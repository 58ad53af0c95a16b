"""Field ownership: the field managers of an object and the fields that each owns.

The serialized form is `metadata.managedFields`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubesched.cluster.apiserver.rules.apply.merge_structure import ITEM, Path

__all__ = ["Manager", "Owners", "fields_v1", "tree_paths"]

Json = dict[str, Any]


class Manager(msgspec.Struct, frozen=True):
    """A field manager, identified by its name and its operation."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class Owners:
    """The paths that each manager owns, and the time of the last change per manager."""

    def __init__(self, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self._owned: dict[Manager, set[Path]] = {}
        self._times: dict[Manager, str] = {}
        for entry in entries:
            manager = Manager(
                entry.get("manager", ""),
                entry.get("operation", ""),
                entry.get("apiVersion", ""),
                entry.get("subresource", ""),
            )
            self._owned[manager] = tree_paths(entry.get("fieldsV1", {}))
            self._times[manager] = entry.get("time", "")

    def __iter__(self) -> Any:
        return iter(list(self._owned.items()))

    def of(self, manager: Manager) -> set[Path]:
        return set(self._owned.get(manager, ()))

    def time(self, manager: Manager) -> str:
        return self._times.get(manager, "")

    def set(self, manager: Manager, owned: set[Path], time: str) -> None:
        """Set the paths that a manager owns. The time is updated only if they change."""
        if self._owned.get(manager) == owned:
            return
        if owned:
            self._owned[manager] = owned
            self._times[manager] = time
        else:
            self._owned.pop(manager, None)
            self._times.pop(manager, None)

    def entries(self) -> list[Json]:
        """Return the entries of `metadata.managedFields`, `Apply` operations first."""
        ordered = sorted(self._owned, key=lambda each: (each.operation, self._times[each]))
        entries = []
        for manager in ordered:
            entry: Json = {"manager": manager.name, "operation": manager.operation}
            entry["apiVersion"] = manager.api_version
            if self._times[manager]:
                entry["time"] = self._times[manager]
            entry |= {"fieldsType": "FieldsV1", "fieldsV1": fields_v1(self._owned[manager])}
            if manager.subresource:
                entry["subresource"] = manager.subresource
            entries.append(entry)
        return entries


def fields_v1(owned: Iterable[Path]) -> Json:
    """Convert a set of paths to a tree of steps, the form of the API."""
    tree: Json = {}
    for path in sorted(owned):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    return tree


def tree_paths(tree: Mapping[str, Any], so_far: Path = ()) -> set[Path]:
    """Return the paths to the leaves of a tree, and to inner nodes that `.` marks."""
    found: set[Path] = set()
    for step, inner in tree.items():
        here = (*so_far, step)
        if step == ITEM or not inner:
            # A map that is owned in addition to its entries is marked with `.` like an item.
            found.add(here if step != ITEM or so_far[-1][:2] in ("k:", "v:") else so_far)
        else:
            found |= tree_paths(inner, here)
    return found
