"""What the plugins of a profile may call, as far as all profiles share it.

`Framework` adds `dry_run`; together they are the `Handle` of the plugin contract.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec

from kubesched.api import Pod
from kubesched.api.access import ApiAccess
from kubesched.framework import (
    ClaimCache,
    EventRecorder,
    Extender,
    Informer,
    Lister,
    Nominator,
    SharedState,
    Snapshot,
)
from kubesched.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.runtime.services import Services
from kubesched.runtime.waiting_pods import PodInPreBind, WaitingPodEntry
from kubesched.util.clock import Clock

__all__ = ["ProfileHandle"]

T = TypeVar("T", bound=msgspec.Struct)


class ProfileHandle:
    """Hands the services of the scheduler to the plugins of one profile."""

    def __init__(self, profile_name: str, services: Services) -> None:
        self.profile_name = profile_name
        self._services = services
        self._recorder = services.recorder_of(profile_name)

    @property
    def snapshot(self) -> Snapshot:
        return self._services.snapshot

    @property
    def nominator(self) -> Nominator:
        return self._services.nominator()

    @property
    def api(self) -> ApiAccess:
        return self._services.api

    @property
    def recorder(self) -> EventRecorder:
        return self._recorder

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def random(self) -> Random:
        return self._services.random

    def lister(self, kind: type[T]) -> Lister[T]:
        found: Lister[T] = self._services.lister(kind)
        return found

    @property
    def claims(self) -> ClaimCache:
        return self._services.claims

    @property
    def shared(self) -> SharedState:
        return self._services.shared

    def informer(self, kind: type[T]) -> Informer[T]:
        found: Informer[T] = self._services.informer(kind)
        return found

    @property
    def extenders(self) -> Sequence[Extender]:
        return self._services.extenders

    @property
    def kubeconfig(self) -> Any:
        return self._services.kubeconfig

    @property
    def component_config_version(self) -> str:
        return self._services.component_config_version

    def feature_enabled(self, gate: str) -> bool:
        return self._services.feature_enabled(gate)

    @property
    def metrics(self) -> SchedulerMetrics:
        return self._services.metrics

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._services.spawn(work, name)

    def activate(self, pods: Mapping[str, Pod]) -> None:
        self._services.activate(pods)

    def waiting_pod(self, uid: str) -> WaitingPodEntry | None:
        return self._services.waiting_pods.get(uid)

    def waiting_pods(self) -> Iterable[WaitingPodEntry]:
        return self._services.waiting_pods

    def pod_in_pre_bind(self, uid: str) -> PodInPreBind | None:
        return self._services.pods_in_pre_bind.get(uid)
