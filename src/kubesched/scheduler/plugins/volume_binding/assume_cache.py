"""Objects as they will be once what was decided has been written (docs/reference/07 §6).

An overlay over what the informer shows. An assumed object stands in for the stored one only
while both have the same version: whatever else happens to the object ends the assumption.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kubesched.api import ObjectMeta, PersistentVolume, PersistentVolumeClaim
from kubesched.framework import Lister
from kubesched.scheduler.plugins.helpers.volume_claims import VolumeClaimError

__all__ = ["AssumeCache"]

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class AssumeCache(Generic[T]):
    """`plural` is how messages call the kind; `on_change` is told what `get` says of a name."""

    def __init__(
        self,
        lister: Lister[T],
        plural: str,
        on_change: Callable[[str, T | None], None] | None = None,
    ) -> None:
        self._lister: Lister[T] = lister
        self._plural = plural
        self._on_change: Callable[[str, T | None], None] | None = on_change
        self._assumed: dict[tuple[str, str], T] = {}
        lister.follow(self._follow)

    def __len__(self) -> int:
        """How many objects are assumed to be other than they are."""
        return len(self._assumed)

    def get(self, name: str, namespace: str = "") -> T | None:
        """The object as it is assumed to be."""
        stored = self._lister.get(name, namespace)
        if stored is None or not self._assumed:
            return stored
        assumed = self._assumed.get((namespace, name))
        if assumed is not None and _version(assumed) == _version(stored):
            return assumed
        return stored

    def stored(self, name: str, namespace: str = "") -> T | None:
        """The object as the informer shows it."""
        return self._lister.get(name, namespace)

    def assume(self, changed: T) -> None:
        """Take the object to be like this from now on.

        Raises:
            VolumeError: it is gone, or is no longer the one that was changed.
        """
        metadata = changed.metadata
        stored = self._lister.get(metadata.name, metadata.namespace)
        if stored is None:
            raise VolumeClaimError(self.not_found(metadata.name, metadata.namespace))
        if _version(stored) != _version(changed):
            raise VolumeClaimError(
                f'"{_name(metadata.name, metadata.namespace)}" is out of sync '
                f"(stored: {_version(stored)}, assume: {_version(changed)})"
            )
        self._assumed[metadata.namespace, metadata.name] = changed
        self._tell(metadata)

    def restore(self, changed: T) -> None:
        """End an assumption that was made about this version of the object."""
        metadata = changed.metadata
        key = (metadata.namespace, metadata.name)
        assumed = self._assumed.get(key)
        if assumed is None or _version(assumed) != _version(changed):
            return
        del self._assumed[key]
        self._tell(metadata)

    def not_found(self, name: str, namespace: str = "") -> str:
        return f'{self._plural} "{_name(name, namespace)}" not found'

    def _follow(self, old: T | None, new: T | None) -> None:
        changed = old if new is None else new
        assert changed is not None
        metadata = changed.metadata
        key = (metadata.namespace, metadata.name)
        assumed = self._assumed.get(key)
        if assumed is not None:
            # What is stored counts, not what the event says: it may be late.
            stored = self._lister.get(metadata.name, metadata.namespace)
            if stored is None or _version(stored) != _version(assumed):
                del self._assumed[key]
        self._tell(metadata)

    def _tell(self, metadata: ObjectMeta) -> None:
        if self._on_change is not None:
            self._on_change(metadata.name, self.get(metadata.name, metadata.namespace))


def _version(stored: PersistentVolume | PersistentVolumeClaim) -> str:
    return stored.metadata.resource_version


def _name(name: str, namespace: str) -> str:
    return f"{namespace}/{name}" if namespace else name
