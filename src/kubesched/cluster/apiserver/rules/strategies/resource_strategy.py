"""What the server does to objects of a kind, beyond storing them.

A strategy never changes the JSON it is given: it returns new objects that share what stays.
It decides from the object, the stored object and a look at the rest of the cluster; it reads
no clock and draws no random numbers.
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

__all__ = ["Json", "ObjectLookup", "ResourceStrategy", "with_part"]

Json = dict[str, Any]


class ObjectLookup(Protocol):
    """What a rule may look up: other objects, by resource (`nodes`) and name."""

    def find(self, resource: str, name: str) -> Json | None: ...

    def all(self, resource: str) -> Iterable[Json]: ...

    def within(self, resource: str, namespace: str) -> Iterable[Json]:
        """Objects of a namespaced core resource in one namespace."""
        ...


class ResourceStrategy:
    """Rules that hold for kinds without rules of their own."""

    name_rule: Callable[[str], Sequence[str]] = staticmethod(dns_subdomain)
    # Whether status is a subresource: written on its own, and ignored elsewhere.
    has_status = False
    # Subresources that write the status, if there is one.
    status_parts: tuple[str, ...] = ("status",)
    # Subresources that write some of the rest.
    spec_parts: tuple[str, ...] = ()
    # Whether a status given at creation is stored.
    keeps_status = False
    # Whether metadata.generation counts the changes of everything but metadata and status.
    counts_generations = False
    # Whether an update may leave out the version it is based on.
    unconditional_update = True
    # What becomes of what an object owns when a deletion does not say.
    default_propagation = "Background"
    # Whether deletion gives the object time, and passes through an update.
    graceful = False

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        """Fill in what the user left out. Idempotent; runs before every write.

        Parts that are the very parts of `old` have their defaults already.
        """
        return new

    def admit(self, new: Json, _cluster: ObjectLookup, /) -> Json:
        """Complete a new object from others in the cluster. Raises ApiError to refuse it."""
        return new

    def prepare_create(self, new: Json, _stamp: str, /) -> Json:
        if self.has_status and not self.keeps_status and "status" in new:
            return {key: value for key, value in new.items() if key != "status"}
        return new

    def prepare_update(self, new: Json, old: Json, /) -> Json:
        """Undo what this write may not touch."""
        if self.has_status:
            new = with_part(new, "status", old.get("status"))
        return new

    def prepare_status(self, new: Json, old: Json, /) -> Json:
        return {**old, "metadata": new["metadata"], "status": new.get("status", {})}

    def prepare_part(self, _part: str, new: Json, _old: Json, /) -> Json:
        """The object after a write to one of `spec_parts`."""
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

    def grace_period(self, _old: Json, _asked: int | None, /) -> int:
        """Seconds that a deletion leaves the object; only for graceful kinds."""
        return 0

    def changed(self, new: Json, old: Json, /) -> bool:
        """Whether a write counts as a new generation."""
        return any(new.get(key) != old.get(key) for key in {*new, *old} - {"metadata", "status"})


def with_part(data: Json, key: str, value: Any) -> Json:
    """The object with one part set, or left out if None; itself if nothing changes."""
    if data.get(key) is value:
        return data
    changed = dict(data)
    if value is None:
        changed.pop(key, None)
    else:
        changed[key] = value
    return changed
