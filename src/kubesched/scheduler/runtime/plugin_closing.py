"""Closes the plugins of a profile."""

from __future__ import annotations

from kubesched.errors import place_of
from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.runtime.plugin_calls import THROWN, is_being_ended
from kubesched.scheduler.runtime.plugin_resources import PluginResources

__all__ = ["close_plugins"]

log = get_logger(__name__)


async def close_plugins(resources: PluginResources) -> None:
    """Close the plugins in order, and remove their handlers. Idempotent.

    The failure of one plugin does not stop the others.
    """
    plugins, resources.plugins = resources.plugins, []
    for plugin in plugins:
        try:
            closing = plugin.close()
            if closing is not None:
                await closing
        except THROWN as exc:
            if is_being_ended(exc):
                raise
            pass_on_interrupt(exc)
            log.error("Failed to close plugins", exc=exc, plugin=plugin.name, at=place_of(exc))
    resources.remove_handlers()
