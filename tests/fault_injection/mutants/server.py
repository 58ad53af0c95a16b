"""Mutants of the embedded API server and its data file."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace as replaced

from tests.fault_injection.mutants.mutant import Mutant, skip_every, wrap

__all__ = ["MUTANTS"]

_STORE = "kubesched.cluster.apiserver.store.object_store"
_FILE = "kubesched.cluster.apiserver.store.persistence.DataFile"


def _bind_assigned_pod(original: Any, pod: Any, *args: Any) -> Any:
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return original({**pod, "spec": spec}, *args)


def _accept_stale_version(original: Any, resource: Any, old: Any, given: dict[str, Any]) -> None:
    if given.get("resourceVersion"):
        given = {**given, "resourceVersion": old.data["metadata"]["resourceVersion"]}
    original(resource, old, given)


def _keep_deleted_objects(original: Any, self: Any, change: Any) -> None:
    original(self, replaced(change, type="MODIFIED") if change.type == "DELETED" else change)


MUTANTS = {
    "the server accepts a second binding": Mutant(
        15, (wrap(f"{_STORE}.bind", _bind_assigned_pod),)
    ),
    "deleted objects are back after a restart": Mutant(
        9, (wrap(f"{_FILE}.write", _keep_deleted_objects),)
    ),
    "one in nine writes is missing from the data file": Mutant(
        9, (skip_every(f"{_FILE}.write", 9),)
    ),
    "the server accepts a write with a stale version": Mutant(
        1, (wrap(f"{_STORE}.check_write", _accept_stale_version),)
    ),
}
