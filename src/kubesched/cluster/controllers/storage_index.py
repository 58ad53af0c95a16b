"""Who uses which claim, and which volume is for whom: found by name, not by looking at all.

A pod may have thousands of claims, and each of them asks who uses it and what is kept for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubesched.api import PersistentVolume, Pod

__all__ = ["StorageIndex", "claims_of"]

_Place = tuple[str, str]
_NOBODY: Mapping[str, Any] = {}


def claims_of(pod: Pod) -> list[str]:
    """Names of the claims that a pod uses, in its namespace."""
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return names


class StorageIndex:
    """Pods by the claims that they use, volumes by the claims or classes that they are for."""

    def __init__(self) -> None:
        self._users: dict[_Place, dict[str, Pod]] = {}
        """By namespace and name of a claim, and by uid."""
        self._promised: dict[_Place, dict[str, PersistentVolume]] = {}
        """By namespace and name of the claim that a volume names, and by uid."""
        self._free: dict[str, dict[str, PersistentVolume]] = {}
        """Volumes that name no claim, by their class and by uid."""

    def users(self, namespace: str, claim: str) -> Iterable[Pod]:
        """Pods that have a claim among their volumes, whether it is there or not."""
        return self._users.get((namespace, claim), _NOBODY).values()

    def promised(self, namespace: str, claim: str) -> Iterable[PersistentVolume]:
        """Volumes that name a claim."""
        return self._promised.get((namespace, claim), _NOBODY).values()

    def free(self, storage_class: str) -> Iterable[PersistentVolume]:
        """Volumes of a class that name no claim."""
        return self._free.get(storage_class, _NOBODY).values()

    def observe(self, subject: Any, before: Any | None) -> None:
        """Take in a pod or a volume, and what was known of it."""
        if before is not None:
            self.forget(before)
        uid = subject.metadata.uid
        for tables, key in self._tables_of(subject):
            tables.setdefault(key, {})[uid] = subject

    def forget(self, subject: Any) -> None:
        uid = subject.metadata.uid
        for tables, key in self._tables_of(subject):
            table = tables.get(key)
            if table is not None:
                table.pop(uid, None)
                if not table:
                    del tables[key]

    def _tables_of(self, subject: Any) -> Iterator[tuple[dict[Any, dict[str, Any]], Any]]:
        if isinstance(subject, Pod):
            if subject.spec.volumes:
                for name in claims_of(subject):
                    yield self._users, (subject.metadata.namespace, name)
        elif isinstance(subject, PersistentVolume):
            reference = subject.spec.claim_ref
            if reference is None:
                yield self._free, subject.spec.storage_class_name or ""
            else:
                yield self._promised, (reference.namespace or "", reference.name)
