"""The profiles of a scheduler: one framework per scheduler name (docs/reference/04 §8, 01 §9.2)."""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.errors import ConfigError
from kubesched.scheduler.config.types import KubeSchedulerProfile
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_resources import PluginResources
from kubesched.scheduler.runtime.plugin_set import Registry
from kubesched.scheduler.runtime.services import Services

__all__ = ["build_profile", "build_profiles"]


def build_profiles(
    profiles: Iterable[KubeSchedulerProfile], registry: Registry, services: Services
) -> dict[str, Framework]:
    """Build the profiles of a complete configuration.

    `config/configuration_completion.py` checks the rules for profiles.

    Raises:
        ConfigError: a plugin cannot be built.
    """
    return {
        profile.scheduler_name: build_profile(profile, registry, services) for profile in profiles
    }


def build_profile(
    profile: KubeSchedulerProfile,
    registry: Registry,
    services: Services,
    resources: PluginResources | None = None,
) -> Framework:
    """Build one profile; `resources` gets the resources of its plugins, even if one of them fails.

    Raises:
        ConfigError: a plugin cannot be built.
    """
    try:
        return Framework(profile, registry, services, resources)
    except ConfigError as exc:
        error = ConfigError(
            "initializing profiles: creating profile for scheduler name "
            f"{profile.scheduler_name}: {exc}"
        )
        for note in getattr(exc, "__notes__", ()):
            error.add_note(note)
        raise error from exc
