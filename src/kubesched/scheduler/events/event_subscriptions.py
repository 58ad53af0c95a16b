"""Adds the handlers of the events that plugins registered, and counts changes of what they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.api import ResourceClaim
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.informer_factory import InformerFactory
from kubesched.framework import ActionType
from kubesched.scheduler.events.event_handlers import EventHandlers
from kubesched.scheduler.events.watched_kinds import watched_kind
from kubesched.scheduler.runtime.services import Services

__all__ = ["EventSubscriptions"]


class EventSubscriptions:
    """The handlers of informers for registered events. Later profiles may add some.

    Handlers are never removed: the queue ignores events that no profile has registered, so a
    surplus handler costs little.
    """

    def __init__(
        self,
        informers: InformerFactory,
        services: Services,
        handlers: EventHandlers,
        *,
        with_pod_groups: bool,
    ) -> None:
        self._informers = informers
        self._services = services
        self._handlers = handlers
        self._with_pod_groups = with_pod_groups
        self._handled: dict[str, ActionType] = {}
        self._follows_claims = False
        self._counted: set[type[Any]] = set()

    def make_informers(self, actions: Mapping[str, ActionType]) -> None:
        """Create the informers of the registered resources that have none yet."""
        for resource in actions:
            kind = watched_kind(resource, with_pod_groups=self._with_pod_groups)
            if kind is not None:
                self._informers.informer(kind)

    def add(self, actions: Mapping[str, ActionType], read: Iterable[type[Any]]) -> None:
        """Handle the registered actions by resource; count changes of the kinds in `read`."""
        counted = set(read)
        for resource, wanted in actions.items():
            kind = watched_kind(resource, with_pod_groups=self._with_pod_groups)
            if kind is None:
                continue
            is_claim = kind is ResourceClaim and self._services.uses_claims
            if not is_claim:
                counted.add(kind)
            handled = self._handled.get(resource, ActionType.NONE)
            missing = wanted & ~handled
            if is_claim and not self._follows_claims:
                missing, self._follows_claims = wanted, True
            if not missing:
                continue
            self._handled[resource] = handled | missing
            if is_claim:
                # The scheduler's own writes are events too, before the watch delivers them.
                listener = self._handlers.listener_of(resource, missing)
                self._services.claims.follow(listener)
                self._services.claims.on_return = listener
            else:
                informer = self._informers.informer(kind)
                informer.add_handler(*self._handlers.handlers_of(resource, missing))
        for informer in self._informers.components():
            if informer.kind in counted and informer.kind not in self._counted:
                self._counted.add(informer.kind)
                self._count_changes(informer)

    def _count_changes(self, informer: SharedInformer[Any]) -> None:
        """Invalidate cached answers when an object of the informer's kind changes."""

        def changed(*_objects: Any) -> None:
            self._services.object_versions.changed(informer.kind)

        informer.add_handler(changed, changed, changed)
