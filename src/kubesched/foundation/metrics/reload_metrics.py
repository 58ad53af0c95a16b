"""Metrics of reloads of the configuration file. The reference cannot reload, and has none."""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from kubesched.foundation.metrics.instruments import FamilyGroup
from kubesched.foundation.util.clock import SECOND

__all__ = ["ReloadMetrics"]

_RESULTS = ("success", "unchanged", "failure")


class ReloadMetrics(FamilyGroup):
    """How reloads of the configuration ended, and which file is in use."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        reloads = self.counter(
            "kubesched_config_reloads_total",
            "[ALPHA] Number of reloads of the configuration file by result: success, unchanged or "
            "failure. An addition of kubesched.",
            "result",
        )
        self._reloads = {result: reloads.labels(result) for result in _RESULTS}
        self._is_good = self.gauge(
            "kubesched_config_last_reload_successful",
            "[ALPHA] Whether the last reload of the configuration file succeeded; 1 before the "
            "first. An addition of kubesched.",
        ).labels()
        self._time = self.gauge(
            "kubesched_config_last_reload_success_timestamp_seconds",
            "[ALPHA] When the configuration in use was loaded. An addition of kubesched.",
        ).labels()
        self._info = self.gauge(
            "kubesched_config_info",
            "[ALPHA] The SHA-256 of the configuration file in use; constant 1. An addition of "
            "kubesched.",
            "sha256",
        )
        self._hash = ""
        registry.register(self)

    def loaded(self, sha256: str, now_ns: int) -> None:
        """Note the file that is in use."""
        self._is_good.set(1)
        self._time.set(now_ns / SECOND)
        if sha256 != self._hash:
            self._info.remove(self._hash)
            self._info.labels(sha256).set(1)
            self._hash = sha256

    def count(self, result: str) -> None:
        """Count a reload that ended in success, unchanged or failure."""
        self._reloads[result].inc()
        if result == "failure":
            self._is_good.set(0)
