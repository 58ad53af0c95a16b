"""An embedded cluster without a scheduler: store, kubelets, controllers, and an HTTP server.

`LiveCluster` adds the scheduler, which uses `api` like that of any API server.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from kubesched.api import Pod, Service, StorageClass
from kubesched.api.base import ApiObject
from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.http.metrics_api import MetricsApi, PodUsage
from kubesched.cluster.apiserver.local_api import Faults, LocalApi
from kubesched.cluster.apiserver.rules.strategies.server_features import (
    GROUP_CLAIMS,
    JOB_GROUPS,
    POD_GROUPS,
)
from kubesched.cluster.apiserver.rules.strategies.service_addresses import KUBERNETES_ADDRESS
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.persistence import DataFile, open_store
from kubesched.cluster.apiserver.store.stored_records import StoredChange
from kubesched.cluster.certificate_expiry import CertificateRequestExpiry
from kubesched.cluster.certificate_signer import CertificateSigner
from kubesched.cluster.cluster_server import ClusterServer, Listen
from kubesched.cluster.controllers import Controllers, GarbageCollector
from kubesched.cluster.controllers.control_loop import EventSink
from kubesched.cluster.controllers.event_expiry import LASTS_NS, EventExpiry
from kubesched.cluster.controllers.quota_resync import QuotaResync
from kubesched.cluster.controllers.terminated_pods import TerminatedPodCollector
from kubesched.cluster.controllers.volume_provisioning import STORAGE_CLASSES
from kubesched.cluster.nodes.container_usage import ContainerUsage
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.cluster.nodes.node_agent import NodeAgent
from kubesched.cluster.nodes.pod_behavior import Behavior, behavior_of
from kubesched.cluster.nodes.pod_events import PodEvent, PodEventSink
from kubesched.foundation.client.core_event_recorder import CoreEventBroadcaster
from kubesched.foundation.client.rate_limiter import TokenBucket
from kubesched.foundation.http.http_messages import Handler
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock
from kubesched.foundation.util.components import Component

__all__ = ["ClusterPart", "EmbeddedCluster", "Listen"]

# The limit of events of all kubelets together: when thousands of pods start at once, most of their
# events are dropped.
_EVENTS_PER_SECOND, _EVENTS_AT_ONCE = 50.0, 300


class ClusterPart(enum.Flag):
    """The groups of components that can run with the store of an embedded cluster."""

    NODES = enum.auto()  # kubelets and the heartbeats of nodes
    CONTROLLERS = enum.auto()
    POD_GROUPS = enum.auto()  # controllers of pod groups, if the features are on
    GARBAGE_COLLECTION = enum.auto()
    EVENTS = enum.auto()  # recording and expiry of events
    ALL = NODES | CONTROLLERS | POD_GROUPS | GARBAGE_COLLECTION | EVENTS
    NONE = 0


class EmbeddedCluster:
    """An API server with nodes and controllers in this process.

    Enter it to serve HTTP. Run its `parts` to have pods started and controllers act.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        *,
        listen: Listen | None = None,
        limits: ApiLimits | None = None,
        data: Path | None = None,
        with_initial_objects: bool = True,
        heartbeats: bool = True,
        rbac: bool = False,
        behavior: Callable[[Pod], Behavior] = behavior_of,
        scripts: Callable[[Pod], Mapping[str, str]] | None = None,
        events_last_ns: int = LASTS_NS,
        start_delay_ns: int = 100 * MILLISECOND,
        stop_delay_ns: int = SECOND,
        features: frozenset[str] = frozenset(),
        parts: ClusterPart = ClusterPart.ALL,
        on_change: Callable[[StoredChange], None] | None = None,
        faults: Faults | None = None,
    ) -> None:
        """Build the cluster; nothing runs yet.

        With `data` the store is persistent, and continues from the content of that file.
        `with_initial_objects` creates storage classes and the Service `kubernetes`. Without
        `heartbeats` nodes renew no leases, neither controllers nor kubelets record events, and
        ended pods are not removed: for simulations of long times. With `rbac` the server authorizes
        clients by their roles. `scripts` returns annotations that a pod has in addition to its own.
        `behavior` determines the behavior of each pod; it starts after `start_delay_ns` and stops
        after `stop_delay_ns` unless the behavior says otherwise. `features` are names of feature
        gates of the server that are on. `parts` are the components to build. `on_change` is called
        with every change of the store, which then cannot be persistent; `faults` may delay or fail
        requests to `api`.

        Raises:
            KubeschedError: the file cannot be used.
        """
        self.clock = clock
        self._data = None if data is None else DataFile(data)
        # Whether the cluster has just been created, and not read from a file.
        self.is_new = self._data is None or self._data.revision == 0
        self.store = self._open(rng, features, on_change)
        self.api = LocalApi(self.store, clock, faults=faults)
        if self.is_new and with_initial_objects:
            self._create_initial_objects(clock.now_ns())
        self._usage = self._measured_usage(scripts) if ClusterPart.NODES in parts else None
        self._server: ClusterServer | None = None
        if listen is not None:
            self._server = ClusterServer(
                listen,
                self.store,
                self.api,
                clock,
                data=self._data,
                limits=limits,
                rbac=rbac,
                scripts=scripts,
                usage=self._usage,
            )
        events = None
        if ClusterPart.EVENTS in parts:
            events = CoreEventBroadcaster(self.api, clock, random.Random(rng.random()))
        recorder = events if heartbeats else None
        # In the order in which their tasks start: a simulation's digest depends on it.
        self.parts: list[Component] = [] if events is None else [events]
        if ClusterPart.NODES in parts:
            kubelet = FakeKubelet(
                self.api,
                clock,
                behavior=behavior,
                start_delay_ns=start_delay_ns,
                stop_delay_ns=stop_delay_ns,
                events=_pod_events(recorder, clock),
            )
            self.parts += [kubelet, NodeAgent(self.api, clock, heartbeats=heartbeats)]
        if ClusterPart.CONTROLLERS in parts:
            groups = features if ClusterPart.POD_GROUPS in parts else frozenset()
            self.parts.append(self._controllers(recorder, groups))
        self.parts += self._maintenance(parts, heartbeats=heartbeats, events_last_ns=events_last_ns)
        self.parts += self._parts_of_server(parts)

    def _open(
        self,
        rng: random.Random,
        features: frozenset[str],
        on_change: Callable[[StoredChange], None] | None,
    ) -> Store:
        """Create the store, or read it from the data file."""
        now_ns = self.clock.now_ns()
        if self._data is None:
            return Store(rng, now_ns=now_ns, features=features, on_change=on_change)
        assert on_change is None, "the file follows the changes of a persistent store"
        return open_store(self._data, rng, now_ns, features)

    def _measured_usage(self, scripts: Callable[[Pod], Mapping[str, str]] | None) -> PodUsage:
        """Return the usage of pods, and let the metrics of nodes be computed from it."""
        usage = ContainerUsage(self.store, scripts).of
        self.api.node_metrics = MetricsApi(self.store, self.clock.now_ns, usage).nodes
        return usage

    def _controllers(
        self, recorder: CoreEventBroadcaster | None, groups: frozenset[str]
    ) -> Controllers:
        """Build the controllers. `groups` are the features of the server, if groups run."""
        return Controllers(
            self.api,
            self.clock,
            events=None if recorder is None else _recorded(recorder),
            authority=self._trusted_certificate,
            usage=self._usage,
            needs_accounts=self._server is not None,
            has_pod_groups=POD_GROUPS in groups,
            has_group_claims={POD_GROUPS, GROUP_CLAIMS} <= groups,
            has_job_groups={POD_GROUPS, JOB_GROUPS} <= groups,
        )

    def _maintenance(
        self, parts: ClusterPart, *, heartbeats: bool, events_last_ns: int
    ) -> Iterator[Component]:
        """Yield the parts that remove objects or correct them periodically."""
        if heartbeats and ClusterPart.CONTROLLERS in parts:
            yield QuotaResync(self.store, self.clock)
        if ClusterPart.GARBAGE_COLLECTION in parts:
            yield GarbageCollector(self.store, self.clock)
        if ClusterPart.EVENTS in parts:
            yield EventExpiry(self.store, self.clock, lasts_ns=events_last_ns)
        if heartbeats and ClusterPart.NODES in parts:
            # Not without heartbeats: a simulation counts its ended pods at the end.
            yield TerminatedPodCollector(self.store, self.clock)

    def _parts_of_server(self, parts: ClusterPart) -> Iterator[Component]:
        """Yield the parts that exist only if the cluster is served over HTTP."""
        if self._server is None:
            return
        if ClusterPart.CONTROLLERS in parts:
            yield CertificateSigner(self.store, self.clock, self._server.authority)
            yield CertificateRequestExpiry(self.store, self.clock)
            yield self._server.account_token_secrets
        yield self._server.extension_checks

    def _create_initial_objects(self, now_ns: int) -> None:
        """Create the storage classes and the Service that every cluster starts with."""
        classes = self.store.catalog.by_type(StorageClass)
        for each in STORAGE_CLASSES:
            self.store.create(classes, None, each, now_ns)
        services = self.store.catalog.by_type(Service)
        port = {"name": "https", "port": 443, "targetPort": 6443}
        labels = {"component": "apiserver", "provider": "kubernetes"}
        body = {
            "metadata": {"name": "kubernetes", "labels": labels},
            "spec": {"clusterIP": KUBERNETES_ADDRESS, "ports": [port]},
        }
        self.store.create(services, "default", body, now_ns)

    def mount(self, prefix: str, handler: Handler) -> None:
        """Let `handler` respond to every request below `prefix` of the server."""
        if self._server is not None:
            self._server.mount(prefix, handler)

    @property
    def url(self) -> str:
        """The URL of the server; empty if the cluster is not served."""
        return "" if self._server is None else self._server.url

    @property
    def token(self) -> str:
        """The administrator's bearer token; empty if the server needs none."""
        return "" if self._server is None else self._server.token

    def kubeconfig(self) -> str:
        """Return the text of a kubeconfig for the administrator; the cluster must be entered."""
        assert self._server is not None, "the cluster is not served"
        return self._server.kubeconfig()

    def _trusted_certificate(self) -> str:
        return "" if self._server is None else self._server.certificate.decode()

    def close(self) -> None:
        """Close the data file of a cluster that was never entered. Idempotent."""
        if self._data is not None:
            self._data.close()

    async def __aenter__(self) -> EmbeddedCluster:
        if self._server is not None:
            await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            await self._server.stop()
        self.close()


def _recorded(broadcaster: CoreEventBroadcaster) -> EventSink:
    def record(controller: str, subject: ApiObject, kind: str, reason: str, message: str) -> None:
        broadcaster.recorder(controller, "").event(subject, kind, reason, "", message)

    return record


def _pod_events(broadcaster: CoreEventBroadcaster | None, clock: Clock) -> PodEventSink | None:
    """Return a sink for events of kubelets that drops those above the rate limit."""
    if broadcaster is None:
        return None
    bucket = TokenBucket(_EVENTS_PER_SECOND, _EVENTS_AT_ONCE)

    def record(pod: Pod, event: PodEvent) -> None:
        if bucket.take_if_any(clock.now_ns()):
            kind = "Warning" if event.warning else "Normal"
            recorder = broadcaster.recorder("kubelet", pod.spec.node_name)
            recorder.event(pod, kind, event.reason, "", event.message)

    return record
