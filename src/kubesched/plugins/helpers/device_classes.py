"""Which DeviceClass serves an extended resource (docs/reference/05 §7.8.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubesched.api import DeviceClass
from kubesched.api.resource_names import DEVICE_CLASS_PREFIX
from kubesched.framework import Handle, Lister
from kubesched.plugins.helpers.features import feature_enabled

__all__ = ["DeviceClassResolver"]


class DeviceClassResolver:
    """Extended resources by name, each with the class that serves it.

    Without a handle, or with the gate DRAExtendedResource off, no class serves anything.
    """

    def __init__(self, handle: Handle | None) -> None:
        self._lister: Lister[DeviceClass] | None = None
        if handle is not None and feature_enabled(handle, "DRAExtendedResource"):
            self._lister = handle.lister(DeviceClass)

    def class_for(self, resource: str) -> DeviceClass | None:
        return self._by_resource().get(resource)

    def served(self, resources: Iterable[str]) -> frozenset[str]:
        """Those of the resources that some class serves."""
        wanted = frozenset(resources)
        return wanted & self._by_resource().keys() if wanted else wanted

    def _by_resource(self) -> Mapping[str, DeviceClass]:
        found: dict[str, DeviceClass] = {}
        for each in self._lister.list() if self._lister is not None else ():
            explicit = each.spec.extended_resource_name
            if explicit:
                owner = found.get(explicit)
                if owner is not None and not _takes_over(each, owner):
                    # A class that loses a clash is not known by its own name either.
                    continue
                found[explicit] = each
            found[DEVICE_CLASS_PREFIX + each.metadata.name] = each
        return found


def _takes_over(new: DeviceClass, owner: DeviceClass) -> bool:
    """The younger class wins; of two of the same age, the one whose name sorts first."""
    age, owner_age = (each.metadata.creation_timestamp or "" for each in (new, owner))
    return age > owner_age or (age == owner_age and new.metadata.name < owner.metadata.name)
