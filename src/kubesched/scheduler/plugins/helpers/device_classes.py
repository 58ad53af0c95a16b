"""The DeviceClass that serves an extended resource.

docs/reference/05 §7.8.4, 08 §3.7.

The mapping applies changes of classes one by one and has the reference's oddities. If two classes
claim one resource name, the younger class wins. The other class is then not found by its own
name either, until it changes. Deleting either class removes the resource name.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.api import DeviceClass
from kubesched.api.resource_names import DEVICE_CLASS_PREFIX, is_extended_resource_name
from kubesched.framework import Handle
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled

__all__ = ["DeviceClassResolver", "is_served_by_devices"]

_SHARED_NAME = "extended-resource-classes"


def is_served_by_devices(resource: str) -> bool:
    """Whether a device class can serve a resource of this name."""
    return resource.startswith(DEVICE_CLASS_PREFIX) or is_extended_resource_name(resource)


class DeviceClassResolver:
    """Finds the class that serves an extended resource.

    Without a handle, or with the gate DRAExtendedResource off, no class serves a resource.
    """

    def __init__(self, handle: Handle | None) -> None:
        self._classes: _ClassesByResource | None = None
        if handle is not None and feature_enabled(handle, "DRAExtendedResource"):
            known = handle

            def build() -> _ClassesByResource:
                classes = _ClassesByResource()
                known.lister(DeviceClass).follow(classes.changed)
                return classes

            self._classes = handle.shared.get(_SHARED_NAME, build)

    def class_for(self, resource: str) -> DeviceClass | None:
        return None if self._classes is None else self._classes.by_resource.get(resource)

    def served(self, resources: Iterable[str]) -> frozenset[str]:
        """Return those of the resources that a class serves."""
        if self._classes is None or not self._classes.by_resource:
            return frozenset()
        known = self._classes.by_resource
        return frozenset(name for name in resources if name in known)


class _ClassesByResource:
    def __init__(self) -> None:
        self.by_resource: dict[str, DeviceClass] = {}

    def changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if new is not None:
            self._put(old, new)
        elif old is not None:
            self._drop(old)

    def _put(self, old: DeviceClass | None, new: DeviceClass) -> None:
        explicit = new.spec.extended_resource_name
        if explicit:
            owner = self.by_resource.get(explicit)
            if owner is not None and not _takes_over(new, owner):
                return
        if old is not None:
            self._drop(old)
        if explicit:
            self.by_resource[explicit] = new
        self.by_resource[DEVICE_CLASS_PREFIX + new.metadata.name] = new

    def _drop(self, old: DeviceClass) -> None:
        self.by_resource.pop(DEVICE_CLASS_PREFIX + old.metadata.name, None)
        if old.spec.extended_resource_name:
            self.by_resource.pop(old.spec.extended_resource_name, None)


def _takes_over(new: DeviceClass, owner: DeviceClass) -> bool:
    """Whether the new class wins.

    The younger one does, then the name that sorts first.
    """
    age, owner_age = (each.metadata.creation_timestamp or "" for each in (new, owner))
    return age > owner_age or (age == owner_age and new.metadata.name < owner.metadata.name)
