"""Pod signatures: equal for pods that every plugin treats alike (docs/reference/04 §17.1)."""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.framework import ExtensionPoint, Plugin, Status, overrides
from kubesched.runtime.plugin_set import ProfilePlugins
from kubesched.util.logging import get_logger

__all__ = ["PodSigner"]

log = get_logger(__name__)

_SIGNING_POINTS = (
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.PRE_SCORE,
    ExtensionPoint.SCORE,
)
_SCHEDULER_NAME = "v1.Pod.Spec.SchedulerName"
_encoder = msgspec.json.Encoder(order="deterministic")


class PodSigner:
    """Asks every plugin that judges nodes what of a pod it looks at."""

    def __init__(self, scheduler_name: str, plugins: ProfilePlugins) -> None:
        self._scheduler_name = scheduler_name
        involved: dict[str, Plugin] = {
            plugin.name: plugin for point in _SIGNING_POINTS for plugin in plugins.at(point)
        }
        self._plugins = list(involved.values())
        # One plugin that cannot tell makes every pod of the profile unsigned.
        self.is_enabled = all(overrides(plugin, "sign_pod") for plugin in self._plugins)

    def sign(self, pod: Pod) -> bytes | None:
        if not self.is_enabled:
            return None
        fragments: dict[str, Any] = {_SCHEDULER_NAME: self._scheduler_name}
        for plugin in self._plugins:
            try:
                answer = plugin.sign_pod(pod)
            except Exception as exc:
                log.exception("Signing a pod failed", exc, plugin=plugin.name, pod=pod)
                return None
            if isinstance(answer, Status):
                return None
            fragments.update(answer)
        return _encoder.encode(fragments)
