"""An index of pods by the claims that they use, and of volumes by claim or class.

A pod may have thousands of claims, and the plan for each claim looks up its pods and volumes.
Without the index each lookup would read all pods and volumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubesched.api import PersistentVolume, Pod

__all__ = ["StorageIndex", "claims_of"]

_ClaimKey = tuple[str, str]  # namespace and name
_EMPTY: Mapping[str, Any] = {}


def claims_of(pod: Pod) -> list[str]:
    """Return the names of the claims that a pod uses, in its namespace."""
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return names


class StorageIndex:
    """Pods by the claims that they use, and volumes by their claim or class."""

    def __init__(self) -> None:
        # Pods by the claim that they use, and by uid.
        self._users: dict[_ClaimKey, dict[str, Pod]] = {}
        # Volumes by the claim in their `claimRef`, and by uid.
        self._reserved: dict[_ClaimKey, dict[str, PersistentVolume]] = {}
        # Volumes without `claimRef`, by their class and by uid.
        self._free: dict[str, dict[str, PersistentVolume]] = {}

    def users(self, namespace: str, claim: str) -> Iterable[Pod]:
        """Return the pods that use a claim, whether the claim exists or not."""
        return self._users.get((namespace, claim), _EMPTY).values()

    def reserved(self, namespace: str, claim: str) -> Iterable[PersistentVolume]:
        """Return the volumes whose `claimRef` names a claim."""
        return self._reserved.get((namespace, claim), _EMPTY).values()

    def free(self, storage_class: str) -> Iterable[PersistentVolume]:
        """Return the volumes of a class that have no `claimRef`."""
        return self._free.get(storage_class, _EMPTY).values()

    def observe(self, subject: Any, before: Any | None) -> None:
        """Add a pod or a volume; `before` is its previous version."""
        if before is not None:
            self.remove(before)
        uid = subject.metadata.uid
        for tables, key in self._tables_of(subject):
            tables.setdefault(key, {})[uid] = subject

    def remove(self, subject: Any) -> None:
        """Remove a pod or a volume."""
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
                yield self._reserved, (reference.namespace or "", reference.name)
