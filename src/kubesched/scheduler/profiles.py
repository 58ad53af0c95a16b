"""The profiles of a scheduler: one framework per scheduler name (docs/reference/04 §8, 01 §9.2)."""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.config.types import KubeSchedulerProfile
from kubesched.runtime.framework import Framework
from kubesched.runtime.plugin_set import Registry
from kubesched.runtime.services import Services
from kubesched.util.errors import ConfigError
from kubesched.util.go_format import quote

__all__ = ["build_profiles"]

_PREFIX = "initializing profiles: "


def build_profiles(
    profiles: Iterable[KubeSchedulerProfile], registry: Registry, services: Services
) -> dict[str, Framework]:
    """Build every profile, in order; all must sort the queue in the same way."""
    built: dict[str, Framework] = {}
    first: tuple[str, object] | None = None
    for profile in profiles:
        name = profile.scheduler_name
        if not name:
            raise ConfigError(f"{_PREFIX}scheduler name is needed")
        if name in built:
            raise ConfigError(f"{_PREFIX}duplicate profile with scheduler name {quote(name)}")
        try:
            framework = Framework(profile, registry, services)
        except ConfigError as exc:
            error = ConfigError(f"{_PREFIX}creating profile for scheduler name {name}: {exc}")
            for note in getattr(exc, "__notes__", ()):
                error.add_note(note)
            raise error from exc
        sort_name = framework.queue_sort_plugin.name
        sort_args = profile.args_of(sort_name)
        if first is None:
            first = (sort_name, sort_args)
        elif sort_name != first[0]:
            raise ConfigError(
                f"{_PREFIX}different queue sort plugins for profile {quote(name)}: "
                f"{quote(sort_name)}, first: {quote(first[0])}"
            )
        elif sort_args != first[1]:
            raise ConfigError(
                f"{_PREFIX}different queue sort plugin args for profile {quote(name)}"
            )
        built[name] = framework
    if not built:
        raise ConfigError("at least one profile is required")
    return built
