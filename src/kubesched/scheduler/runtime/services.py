"""The collaborators that all profiles of a scheduler share: snapshot, listers, clock, API."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from kubesched.api import Pod, ResourceClaim
from kubesched.api.access import ApiAccess
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.spans import Tracer
from kubesched.framework import (
    ClaimCache,
    ClusterVersion,
    EventRecorder,
    Extender,
    Handle,
    Informer,
    Lister,
    Nominator,
    PodInfo,
    PreemptionRules,
    SharedState,
    Snapshot,
    VictimPreemption,
)
from kubesched.framework.background_calls import ApiDispatcher
from kubesched.framework.pod_groups import PodGroups
from kubesched.scheduler.runtime.object_versions import ObjectVersions
from kubesched.scheduler.runtime.waiting_pods import PodsInPreBind, WaitingPods

__all__ = ["ReadPage", "Services"]

_CLAIMS = "claims"
_MakePreemption = Callable[[Handle, str, PreemptionRules, int, int], VictimPreemption]


class ReadPage(Protocol):
    """See `Handle.read_page`."""

    async def __call__(
        self, url: str, *, token: str = "", verify_tls: bool = True, timeout_ns: int = 10**10
    ) -> bytes: ...


class Services:
    """Collaborators that the scheduler passes to every framework it builds.

    The queue and the search are passed as functions, because both are built after the plugins,
    which are built with these services.
    """

    def __init__(
        self,
        *,
        snapshot: Snapshot,
        api: ApiAccess,
        recorder_of: Callable[[str], EventRecorder],
        clock: Clock,
        random: random.Random,
        lister: Callable[[type[Any]], Lister[Any]],
        feature_enabled: Callable[[str], bool],
        nominator: Callable[[], Nominator],
        activate: Callable[[Mapping[str, Pod]], None],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        fits_now: Callable[[str, PodInfo, ClusterVersion], bool],
        fits_without: Callable[[str, PodInfo, str, Collection[PodInfo]], bool],
        metrics: SchedulerMetrics | None = None,
        informer: Callable[[type[Any]], Informer[Any]] | None = None,
        extenders: Sequence[Extender] = (),
        kubeconfig: Any = None,
        component_config_version: str = "",
        shared: SharedState | None = None,
        pod_groups: PodGroups | None = None,
        api_dispatcher: ApiDispatcher | None = None,
        read_page: ReadPage | None = None,
        preemption: Callable[[Handle, str, PreemptionRules, int, int], VictimPreemption]
        | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.api = api
        self.recorder_of = recorder_of  # by profile, which is the events' reporting controller
        self.clock = clock
        self.random = random
        self.lister = lister
        self.feature_enabled = feature_enabled
        self.nominator = nominator
        self.activate = activate
        self.spawn = spawn
        # (profile, pod, version in which the pod fitted no node): see `FitChecks.fits_now`.
        self.fits_now = fits_now
        # (profile, pod, node, pods to leave out): see `FitChecks.fits_without`.
        self.fits_without = fits_without
        self._informer = informer
        self.extenders = tuple(extenders)
        self.kubeconfig = kubeconfig
        self.component_config_version = component_config_version
        self.metrics = metrics or SchedulerMetrics(CollectorRegistry())
        self.object_versions = ObjectVersions()
        self.waiting_pods = WaitingPods()
        self.pods_in_pre_bind = PodsInPreBind()
        self.shared = shared or SharedState()
        self.pod_groups = pod_groups
        self.api_dispatcher = api_dispatcher
        self.tracer = tracer
        self._preemption = preemption
        self._read_page = read_page

    def preemption(
        self, handle: Handle, plugin: str, rules: PreemptionRules, percentage: int, absolute: int
    ) -> VictimPreemption:
        if self._preemption is None:
            raise RuntimeError("these services have no preemption")
        return self._preemption(handle, plugin, rules, percentage, absolute)

    @property
    def read_page(self) -> ReadPage:
        if self._read_page is None:
            raise RuntimeError("these services read no pages")
        return self._read_page

    def informer(self, kind: type[Any]) -> Informer[Any]:
        if self._informer is None:
            raise RuntimeError("these services have no informers")
        return self._informer(kind)

    @property
    def claims(self) -> ClaimCache:
        """The claims that all profiles share. The first read starts their informer."""
        return self.shared.get(_CLAIMS, self._build_claims)

    @property
    def uses_claims(self) -> bool:
        """Whether a plugin has read `claims`."""
        return _CLAIMS in self.shared

    def _build_claims(self) -> ClaimCache:
        claims = ClaimCache()
        self.lister(ResourceClaim).follow(claims.watched)
        return claims
