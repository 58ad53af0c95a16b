"""Watches a cluster, and compares the decisions of its scheduler with the shadow's.

The component only reads: it sends no requests other than lists and watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kubesched.api import Pod
from kubesched.api.access import ApiAccess
from kubesched.errors import ConfigError
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.shadow.decision_comparison import DecisionComparison, scoring_all_nodes
from kubesched.explain.shadow.ordered_changes import Change
from kubesched.explain.shadow.shadow_entries import ShadowEntry, ShadowReport
from kubesched.explain.shadow.shadow_ledger import ShadowLedger
from kubesched.explain.shadow.shadow_replay import ShadowReplay
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.informer_factory import NON_TERMINAL_PODS, InformerFactory
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock, SteadyClock
from kubesched.foundation.util.components import StopSwitch, running
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.runtime.plugin_registry import Registry

__all__ = ["DEFAULT_WINDOW_NS", "ShadowWatch"]

DEFAULT_WINDOW_NS: Final = SECOND
_PERIOD_NS: Final = 100 * MILLISECOND
# Time for which changes are applied before other tasks run. A decision may need hundreds of
# comparisons.
_TURN_NS: Final = 20 * MILLISECOND


class ShadowWatch:
    """A component that maintains the ledger of one cluster while it runs."""

    def __init__(
        self,
        api: ApiAccess,
        clock: Clock,
        configuration: KubeSchedulerConfiguration,
        plugins: Registry,
        *,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        window_ns: int = DEFAULT_WINDOW_NS,
        seed: int = 0,
        stream_lists: bool = False,
        share_parts: bool = False,
        on_entry: Callable[[ShadowEntry], object] = lambda _: None,
    ) -> None:
        """Build the watch; nothing is requested yet.

        Raises:
            ConfigError: the configuration has extenders, which shadow mode does not call.
        """
        if configuration.extenders:
            raise ConfigError("extenders: shadow mode calls no extenders; remove them")
        # Changes are held back for a time, so the clock must not jump.
        self._clock = SteadyClock(clock)
        self.model = ClusterModel(
            (),
            clock,
            configuration=scoring_all_nodes(configuration),
            plugins=plugins,
            gates=gates,
            seed=seed,
        )
        self.ledger = ShadowLedger(clock.now_ns(), on_entry)
        comparison = DecisionComparison(self.model, configuration)
        self.replay = ShadowReplay(self.model, comparison, self.ledger, window_ns)
        self.informers = InformerFactory(
            api,
            clock,
            seed,
            options={Pod: NON_TERMINAL_PODS},
            stream_lists=stream_lists,
            share_parts=share_parts,
        )
        for kind in sorted(self.model.kinds, key=lambda kind: kind.__name__):
            self.informers.informer(kind)
        self.synced = asyncio.Event()
        self._stop = StopSwitch()

    async def run(self) -> None:
        async with running(*self.informers.components()):
            await self._stop.guard(self._compare())

    def stop(self) -> None:
        self._stop.set()

    async def _compare(self) -> None:
        await self.informers.wait_for_sync()
        for informer in self.informers.components():
            self._follow(informer)
        self.synced.set()
        while True:
            is_more = self._take_turn()
            await self._clock.sleep(0 if is_more else _PERIOD_NS)

    def _take_turn(self) -> bool:
        """Apply changes for a while; return whether some are left."""
        now_ns = self._clock.now_ns()
        while self.replay.advance(now_ns, 1):
            if self._clock.now_ns() - now_ns >= _TURN_NS:
                return True
        return False

    def report(self) -> ShadowReport:
        """Return the current ledger."""
        return self.ledger.report(self._clock.now_ns())

    def _follow(self, informer: SharedInformer[Any]) -> None:
        """Pass the objects of an informer to the replay, and all following changes."""
        for present in informer.store.list():
            self.replay.begin(present)
        now_ns, take = self._clock.now_ns, self.replay.take
        is_past = True

        def changed(new: Any) -> None:
            if not is_past:
                take(Change(now_ns(), new, None))

        def deleted(gone: Any, _is_tombstone: bool) -> None:
            take(Change(now_ns(), None, gone))

        informer.add_handler(changed, lambda _, new: changed(new), deleted)
        is_past = False
