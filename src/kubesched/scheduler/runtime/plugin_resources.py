"""Resources of the plugins of one profile: handlers of informers, and `close`.

A scheduler may replace a profile while it runs. The handlers that the plugins of the old profile
registered are then removed, and the plugins are closed. Handlers of state that plugins of all
profiles share (`SharedState`) stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from kubesched.framework import Informer, Lister, Plugin, SharedState

__all__ = ["PluginResources", "ProfileInformer", "ProfileLister"]


class PluginResources:
    """The plugins of a profile that were built so far, and the handlers they registered."""

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared
        self._removers: list[Callable[[], None]] = []
        self.plugins: list[Plugin] = []

    def add(self, remove: Callable[[], None]) -> Callable[[], None]:
        """Record how to remove a handler, unless it belongs to shared state that is being built."""
        if not self._shared.is_building:
            self._removers.append(remove)
        return remove

    def remove_handlers(self) -> None:
        removers, self._removers = self._removers, []
        for remove in removers:
            remove()


class ProfileLister:
    """The lister of a kind for the plugins of one profile. Reads go directly to the store."""

    __slots__ = ("_lister", "_resources", "get", "list")

    def __init__(self, lister: Lister[Any], resources: PluginResources) -> None:
        self._lister, self._resources = lister, resources
        self.get: Callable[..., Any] = lister.get
        self.list: Callable[..., Collection[Any]] = lister.list

    def follow(self, listener: Callable[[Any, Any], None]) -> Callable[[], None]:
        return self._resources.add(self._lister.follow(listener))


class ProfileInformer:
    """The informer of a kind for the plugins of one profile."""

    __slots__ = ("_informer", "_resources")

    def __init__(self, informer: Informer[Any], resources: PluginResources) -> None:
        self._informer, self._resources = informer, resources

    @property
    def has_synced(self) -> bool:
        return self._informer.has_synced

    def add_handler(
        self,
        on_add: Callable[[Any], None] | None = None,
        on_update: Callable[[Any, Any], None] | None = None,
        on_delete: Callable[[Any, bool], None] | None = None,
    ) -> Callable[[], None]:
        return self._resources.add(self._informer.add_handler(on_add, on_update, on_delete))
