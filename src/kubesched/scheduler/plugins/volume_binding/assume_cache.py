"""Objects in the state after pending writes (docs/reference/07 §6).

The cache is an overlay over an informer. An assumed object replaces the stored one only while both
have the same resource version: any other change of the object ends the assumption.
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
    """Assumed objects of one kind over a lister.

    `plural` is the name of the kind in error messages. The cache calls `on_change` with a name
    and the result of `get` after each change.
    """

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
        """The number of objects with an assumption."""
        return len(self._assumed)

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return the assumed object, or the stored one if none is assumed."""
        stored = self._lister.get(name, namespace)
        if stored is None or not self._assumed:
            return stored
        assumed = self._assumed.get((namespace, name))
        if assumed is not None and _version(assumed) == _version(stored):
            return assumed
        return stored

    def stored(self, name: str, namespace: str = "") -> T | None:
        """Return the object as the informer has it."""
        return self._lister.get(name, namespace)

    def assume(self, changed: T) -> None:
        """Return this object from `get` from now on.

        Raises:
            VolumeClaimError: the object was deleted, or has another resource version.
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
        self._notify(metadata)

    def restore(self, changed: T) -> None:
        """Drop the assumption about this version of the object."""
        metadata = changed.metadata
        key = (metadata.namespace, metadata.name)
        assumed = self._assumed.get(key)
        if assumed is None or _version(assumed) != _version(changed):
            return
        del self._assumed[key]
        self._notify(metadata)

    def not_found(self, name: str, namespace: str = "") -> str:
        return f'{self._plural} "{_name(name, namespace)}" not found'

    def _follow(self, old: T | None, new: T | None) -> None:
        changed = old if new is None else new
        assert changed is not None
        metadata = changed.metadata
        key = (metadata.namespace, metadata.name)
        assumed = self._assumed.get(key)
        if assumed is not None:
            # Compare with the stored object, not the event's: the event may be late.
            stored = self._lister.get(metadata.name, metadata.namespace)
            if stored is None or _version(stored) != _version(assumed):
                del self._assumed[key]
        self._notify(metadata)

    def _notify(self, metadata: ObjectMeta) -> None:
        if self._on_change is not None:
            self._on_change(metadata.name, self.get(metadata.name, metadata.namespace))


def _version(stored: PersistentVolume | PersistentVolumeClaim) -> str:
    return stored.metadata.resource_version


def _name(name: str, namespace: str) -> str:
    return f"{namespace}/{name}" if namespace else name
