"""The base class of strategies: the rules of a kind for writes to its objects.

A strategy does not change its arguments. It returns new objects that share unchanged parts. Its
results depend only on the new object, the stored object and other objects in the cluster. It
reads no clock and uses no random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.validation.metadata_validation import (
    check_metadata,
    check_metadata_update,
)
from kubesched.cluster.apiserver.rules.validation.names import dns_subdomain

__all__ = ["Json", "ObjectLookup", "ResourceStrategy", "set_part"]

Json = dict[str, Any]


class ObjectLookup(Protocol):
    """Read access of strategies to other objects, by resource (`nodes`) and name."""

    def find(self, resource: str, name: str) -> Json | None: ...

    def all(self, resource: str) -> Iterable[Json]: ...

    def in_namespace(self, resource: str, namespace: str) -> Iterable[Json]:
        """Return the objects of a namespaced core resource in one namespace."""
        ...


class ResourceStrategy:
    """The default rules, for kinds that have no strategy of their own."""

    name_rule: Callable[[str], Sequence[str]] = staticmethod(dns_subdomain)
    # Whether the status is a subresource. Writes to the object then ignore the status.
    has_status = False
    # Subresources that write the status.
    status_parts: tuple[str, ...] = ("status",)
    # Subresources that write parts of the spec.
    spec_parts: tuple[str, ...] = ()
    # Whether the server stores the status of a new object.
    keeps_status = False
    # Whether metadata.generation counts the changes outside of metadata and status.
    counts_generations = False
    # Whether an update may omit the resource version.
    unconditional_update = True
    # The propagation policy of deletions that set none.
    default_propagation = "Background"
    # Whether `stamp_update` sets times.
    has_stamps = False
    # Whether deletion has a grace period.
    graceful = False

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        """Add defaults. Idempotent; the store calls this before every write.

        Parts that are the same objects as in `old` already have their defaults.
        """
        return new

    def admit(self, new: Json, _cluster: ObjectLookup, /) -> Json:
        """Complete a new object with data of other objects. Raises ApiError to refuse it."""
        return new

    def admit_update(self, new: Json, _old: Json, _cluster: ObjectLookup, /) -> Json:
        """Complete a valid update with data of other objects. Raises ApiError to refuse it."""
        return new

    def complete_loaded(self, new: Json, /) -> Json:
        """Add to an object of another server what a controller needs and a file may lack."""
        return new

    def prepare_create(self, new: Json, _stamp: str, /) -> Json:
        if self.has_status and not self.keeps_status and "status" in new:
            return {key: value for key, value in new.items() if key != "status"}
        return new

    def prepare_update(self, new: Json, old: Json, /) -> Json:
        """Restore the fields that an update of the object cannot change."""
        if self.has_status:
            new = set_part(new, "status", old.get("status"))
        return new

    def stamp_update(self, new: Json, _old: Json, _stamp: str, /) -> Json:
        """Set the times of a write that the client has left out."""
        return new

    def prepare_status(self, new: Json, old: Json, /) -> Json:
        return {**old, "metadata": new["metadata"], "status": new.get("status", {})}

    def prepare_part(self, _part: str, new: Json, _old: Json, /) -> Json:
        """Return the object after a write to one of the subresources `spec_parts`."""
        return new

    def check(self, new: Json, *, namespaced: bool) -> list[FieldProblem]:
        problems = check_metadata(new["metadata"], namespaced=namespaced, name_rule=self.name_rule)
        return problems + self.check_new(new)

    def check_new(self, _new: Json, /) -> list[FieldProblem]:
        return []

    def check_update(self, new: Json, old: Json, /) -> list[FieldProblem]:
        problems = check_metadata_update(new["metadata"], old["metadata"])
        return problems + self.check_new(new) + self.check_change(new, old)

    def check_change(self, _new: Json, _old: Json, /) -> list[FieldProblem]:
        return []

    def check_part(self, _part: str, new: Json, old: Json, /) -> list[FieldProblem]:
        return self.check_update(new, old)

    def check_status(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_metadata_update(new["metadata"], old["metadata"])

    def grace_period(self, _old: Json, _requested: int | None, /) -> int:
        """Return the grace period of a deletion in seconds. Called only for graceful kinds."""
        return 0

    def changed(self, new: Json, old: Json, /) -> bool:
        """Whether a write increments the generation."""
        return any(new.get(key) != old.get(key) for key in {*new, *old} - {"metadata", "status"})


def set_part(data: Json, key: str, value: Any) -> Json:
    """Set one part of an object, or remove it if the value is None."""
    if data.get(key) is value:
        return data
    changed = dict(data)
    if value is None:
        changed.pop(key, None)
    else:
        changed[key] = value
    return changed
