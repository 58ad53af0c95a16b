"""An embedded cluster without a scheduler: store, kubelets, controllers, and an HTTP server.

`LiveCluster` adds the scheduler, which uses `api` like that of any API server.
"""

from __future__ import annotations

import enum
import os
import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from kubesched.api import Pod, Service, StorageClass
from kubesched.api.base import ApiObject
from kubesched.api.time import format_time
from kubesched.cluster.account_token_secrets import AccountTokenSecrets
from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.client_kubeconfig import kubeconfig
from kubesched.cluster.apiserver.http.metrics_api import MetricsApi, PodUsage
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.users import ADMIN, Users
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
from kubesched.cluster.certificate_signer import CertificateSigner, LazyAuthority
from kubesched.cluster.controllers import Controllers, GarbageCollector
from kubesched.cluster.controllers.control_loop import EventSink
from kubesched.cluster.controllers.event_expiry import LASTS_NS, EventExpiry
from kubesched.cluster.controllers.quota_resync import QuotaResync
from kubesched.cluster.controllers.terminated_pods import TerminatedPodCollector
from kubesched.cluster.controllers.volume_provisioning import STORAGE_CLASSES
from kubesched.cluster.extension_servers import ExtensionChecks, ExtensionClient
from kubesched.cluster.local_endpoints import check_local_address
from kubesched.cluster.nodes.container_scripts import ContainerScripts
from kubesched.cluster.nodes.container_usage import ContainerUsage
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.cluster.nodes.node_agent import NodeAgent
from kubesched.cluster.nodes.pod_behavior import Behavior, behavior_of
from kubesched.cluster.nodes.pod_events import PodEvent, PodEventSink
from kubesched.cluster.own_address import publish_own_address
from kubesched.cluster.webhook_client import WebhookClient
from kubesched.errors import KubeschedError
from kubesched.foundation.client.core_event_recorder import CoreEventBroadcaster
from kubesched.foundation.client.rate_limiter import TokenBucket
from kubesched.foundation.http.http_messages import Handler
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock
from kubesched.foundation.util.components import Component

if TYPE_CHECKING:
    import ssl

    from kubesched.foundation.http.self_signed import CertificatePair

__all__ = ["ClusterPart", "EmbeddedCluster", "Listen"]

# The limit of events of all kubelets together: when thousands of pods start at once, most of their
# events are dropped.
_EVENTS_PER_SECOND, _EVENTS_AT_ONCE = 50.0, 300
_CLIENT_AUTHORITY = "client-authority"


class Listen(NamedTuple):
    """The address of the server. Port 0 selects a free port; without TLS there are no tokens."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: bool = True


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
        furnished: bool = True,
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

        With `data` the store is persistent, and continues from the content of that file. A
        `furnished` cluster starts with storage classes and the Service `kubernetes`. Without
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
        if self.is_new and furnished:
            self._create_furniture(clock.now_ns())
        events = None
        if ClusterPart.EVENTS in parts:
            events = CoreEventBroadcaster(self.api, clock, random.Random(rng.random()))
        recorder = events if heartbeats else None
        # In the order in which their tasks start: a simulation's digest depends on it.
        self.parts: list[Component] = [] if events is None else [events]
        self._scripts = scripts
        self._usage: PodUsage | None = None
        self._certificate = b""
        if ClusterPart.NODES in parts:
            self._usage = ContainerUsage(self.store, scripts).of
            self.api.node_metrics = MetricsApi(self.store, clock.now_ns, self._usage).nodes
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
            if heartbeats:
                self.parts.append(QuotaResync(self.store, clock))
        self.parts += self._collectors(parts, heartbeats=heartbeats, events_last_ns=events_last_ns)
        self._tls: ssl.SSLContext | None = None
        self._authority = LazyAuthority(
            clock, lambda make: self._secret(_CLIENT_AUTHORITY, make), lambda: self._tls
        )
        if listen is not None and ClusterPart.CONTROLLERS in parts:
            self.parts.append(CertificateSigner(self.store, clock, self._authority))
            self.parts.append(CertificateRequestExpiry(self.store, clock))
        self._server: ApiServer | None = None
        self._webhooks: WebhookClient | None = None
        self._extensions: ExtensionClient | None = None
        self._token = ""
        self._listen = listen
        self._rbac = rbac
        if listen is not None:
            self._serve(listen, clock, limits, parts)

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

    def _controllers(
        self, recorder: CoreEventBroadcaster | None, groups: frozenset[str]
    ) -> Controllers:
        """Build the controllers. `groups` are the features of the server, if groups run."""
        return Controllers(
            self.api,
            self.clock,
            events=None if recorder is None else _recorded(recorder),
            authority=lambda: self._certificate.decode(),
            usage=self._usage,
            has_pod_groups=POD_GROUPS in groups,
            has_group_claims={POD_GROUPS, GROUP_CLAIMS} <= groups,
            has_job_groups={POD_GROUPS, JOB_GROUPS} <= groups,
        )

    def _collectors(
        self, parts: ClusterPart, *, heartbeats: bool, events_last_ns: int
    ) -> Iterator[Component]:
        """Yield the parts that remove objects."""
        if ClusterPart.GARBAGE_COLLECTION in parts:
            yield GarbageCollector(self.store, self.clock)
        if ClusterPart.EVENTS in parts:
            yield EventExpiry(self.store, self.clock, lasts_ns=events_last_ns)
        if heartbeats and ClusterPart.NODES in parts:
            # Not without heartbeats: a simulation counts its ended pods at the end.
            yield TerminatedPodCollector(self.store, self.clock)

    def _create_furniture(self, now_ns: int) -> None:
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

    def _serve(
        self, listen: Listen, clock: Clock, limits: ApiLimits | None, parts: ClusterPart
    ) -> None:
        users = context = None
        if listen.tls:
            # Not derived from the seed: a token must not be computable from it.
            self._token = self._secret("token", lambda: secrets.token_urlsafe(24).encode()).decode()
            users = Users({self._token: ADMIN})
            # Imported here: this import takes longer than all other imports of the cluster.
            from kubesched.foundation.http.self_signed import CertificatePair

            now_ns = clock.now_ns()
            # Certificates are valid for a year; a stored one is reused within its calendar year.
            name = f"certificate/{listen.host}/{format_time(now_ns)[:4]}"
            stored = self._secret(name, lambda: _certificate(listen.host, now_ns).joined())
            certificate = CertificatePair.split(stored)
            self._certificate, context = certificate.authority, certificate.server_context()
            self._tls = context
            if self._data is not None and self._data.has_secret(_CLIENT_AUTHORITY):
                self._authority.get()
        key = self._secret("service-account-key", lambda: secrets.token_bytes(32))
        service = ApiService(self.store, clock, users=users, rbac=self._rbac, token_key=key)
        if ClusterPart.CONTROLLERS in parts:
            self.parts.append(
                AccountTokenSecrets(self.store, service.tokens, clock, lambda: self._certificate)
            )
        service.show_processes(ContainerScripts(self._scripts, check_local_address))
        if self._usage is not None:
            service.show_usage(self._usage)
        self._webhooks = WebhookClient(self.store)
        self.api.webhook_calls = service.call_webhooks_with(self._webhooks)
        self._extensions = ExtensionClient(self.store, clock, self._authority)
        layer = service.forward_with(self._extensions)
        self.parts.append(ExtensionChecks(self.store, layer, clock, self._authority))
        self._server = ApiServer(
            service, host=listen.host, port=listen.port, tls=context, limits=limits
        )

    def mount(self, prefix: str, handler: Handler) -> None:
        """Let `handler` respond to every request below `prefix` of the server."""
        if self._server is not None:
            self._server.mount(prefix, handler)

    def _secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        return make() if self._data is None else self._data.secret(name, make)

    @property
    def url(self) -> str:
        """The URL of the server; empty if the cluster is not served."""
        return "" if self._server is None else self._server.url

    @property
    def token(self) -> str:
        """The administrator's bearer token; empty if the server needs none."""
        return self._token

    def kubeconfig(self) -> str:
        """Return the text of a kubeconfig for the administrator; the cluster must be entered."""
        return kubeconfig(self.url, token=self._token, authority=self._certificate)

    def close(self) -> None:
        """Close the data file of a cluster that was never entered. Idempotent."""
        if self._data is not None:
            self._data.close()

    async def __aenter__(self) -> EmbeddedCluster:
        if self._server is not None:
            try:
                await self._server.start()
            except OSError as exc:
                assert self._listen is not None
                where = f"{self._listen.host} port {self._listen.port}"
                # Errors of name resolution have negative numbers that `strerror` has no text for.
                number = exc.errno or 0
                why = os.strerror(number) if number > 0 else exc.strerror or str(exc)
                raise KubeschedError(f"cannot listen on {where}: {why}") from exc
            publish_own_address(self.store, self.url, self.clock.now_ns())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            await self._server.stop()
        if self._webhooks is not None:
            await self._webhooks.close()
        if self._extensions is not None:
            await self._extensions.close()
        self.close()


def _certificate(host: str, now_ns: int) -> CertificatePair:
    from kubesched.foundation.http.self_signed import self_signed_certificate

    names = dict.fromkeys(["localhost", "127.0.0.1", "::1", host])
    # A leap year and a day: a stored certificate is used until its calendar year ends.
    return self_signed_certificate(filter(None, names), now_ns, key_type="ec", days=367)


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
