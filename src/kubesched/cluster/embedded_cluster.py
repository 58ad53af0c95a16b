"""A whole cluster but for its scheduler: storage, kubelets, controllers, a server if wanted.

Whoever runs it adds a scheduler that talks to `api`, as it would to any cluster.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from kubesched.api import Pod, Service, StorageClass
from kubesched.api.base import ApiObject
from kubesched.api.time import format_time
from kubesched.cluster.apiserver.http.client_kubeconfig import kubeconfig
from kubesched.cluster.apiserver.http.limits import Limits
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.server import ApiServer, Handler
from kubesched.cluster.apiserver.http.users import ADMIN, Users
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.rules.strategies.server_features import GROUP_CLAIMS, POD_GROUPS
from kubesched.cluster.apiserver.rules.strategies.service_addresses import KUBERNETES_ADDRESS
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.persistence import DataFile, open_store
from kubesched.cluster.controllers import Controllers, GarbageCollector
from kubesched.cluster.controllers.control_loop import EventSink
from kubesched.cluster.controllers.event_expiry import LASTS_NS, EventExpiry
from kubesched.cluster.controllers.terminated_pods import TerminatedPodCollector
from kubesched.cluster.controllers.volume_provisioning import STORAGE_CLASSES
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.cluster.nodes.node_agent import NodeAgent
from kubesched.cluster.nodes.pod_behavior import Behavior, behavior_of
from kubesched.cluster.nodes.pod_events import PodEvent, PodEventSink
from kubesched.cluster.own_address import publish_own_address
from kubesched.errors import KubeschedError
from kubesched.foundation.client.core_event_recorder import CoreEventBroadcaster
from kubesched.foundation.client.rate_limiter import TokenBucket
from kubesched.foundation.util.clock import MILLISECOND, Clock
from kubesched.foundation.util.components import Component

__all__ = ["EmbeddedCluster", "Listen"]

_EVENTS_PER_SECOND, _EVENTS_AT_ONCE = 50.0, 300
"""Of all kubelets together: when pods start by the thousand nobody reads what each of them did."""


class Listen(NamedTuple):
    """Where to serve. Port 0 takes a free one; without TLS there are no tokens either."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: bool = True


class EmbeddedCluster:
    """A cluster in this process. Enter it to serve; run its `parts` to make it live."""

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        *,
        listen: Listen | None = None,
        limits: Limits | None = None,
        data: Path | None = None,
        furnished: bool = True,
        heartbeats: bool = True,
        rbac: bool = False,
        behavior: Callable[[Pod], Behavior] = behavior_of,
        events_last_ns: int = LASTS_NS,
        start_delay_ns: int = 100 * MILLISECOND,
        features: frozenset[str] = frozenset(),
    ) -> None:
        """With `data` the cluster is kept in that file, and goes on where it was.

        A `furnished` cluster begins with storage classes and the Service `kubernetes`.
        Without `heartbeats` nothing is written while all is well, and controllers write no events:
        for simulations of long times. With `rbac`, clients may do what roles allow. `behavior` says
        what pods do; those of which it does not say when they start do so after `start_delay_ns`.
        `features` are the server's that are off otherwise, by the names of their gates.

        Raises:
            KubeschedError: the file cannot be used.
        """
        self._clock = clock
        self._data = None if data is None else DataFile(data)
        self.is_new = self._data is None or self._data.revision == 0
        """Whether the cluster has no earlier life."""
        if self._data is None:
            self.store = Store(rng, now_ns=clock.now_ns(), features=features)
        else:
            self.store = open_store(self._data, rng, clock.now_ns(), features)
        self.api = LocalApi(self.store, clock)
        if self.is_new and furnished:
            self._begin(clock.now_ns())
        events = CoreEventBroadcaster(self.api, clock, random.Random(rng.random()))
        self.parts: tuple[Component, ...] = (
            events,
            FakeKubelet(
                self.api,
                clock,
                behavior=behavior,
                start_delay_ns=start_delay_ns,
                events=_pod_events(events, clock) if heartbeats else None,
            ),
            NodeAgent(self.api, clock, heartbeats=heartbeats),
            Controllers(
                self.api,
                clock,
                events=_recorded(events) if heartbeats else None,
                authority=lambda: self._certificate.decode(),
                has_pod_groups=POD_GROUPS in features,
                has_group_claims={POD_GROUPS, GROUP_CLAIMS} <= features,
            ),
            GarbageCollector(self.store, clock),
            EventExpiry(self.store, clock, lasts_ns=events_last_ns),
            # A simulation counts those that have ended when it is over.
            *((TerminatedPodCollector(self.store, clock),) if heartbeats else ()),
        )
        self._server: ApiServer | None = None
        self._certificate = b""
        self._token = ""
        self._listen = listen
        self._rbac = rbac
        if listen is not None:
            self._serve(listen, clock, limits)

    def _begin(self, now_ns: int) -> None:
        """Create what a cluster with nodes and a storage system begins with."""
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

    def _serve(self, listen: Listen, clock: Clock, limits: Limits | None) -> None:
        users = context = None
        if listen.tls:
            # Not from the seed: a token must not be guessed by somebody who knows it.
            self._token = self._secret("token", lambda: secrets.token_urlsafe(24).encode()).decode()
            users = Users({self._token: ADMIN})
            # Imported here: it takes longer than all the rest of the cluster.
            from kubesched.cluster.apiserver.http.certificates import Certificate, make_certificate

            now_ns = clock.now_ns()
            # Certificates last a year; a kept one is good for the calendar year it is made in.
            name = f"certificate/{listen.host}/{format_time(now_ns)[:4]}"
            kept = self._secret(name, lambda: make_certificate([listen.host], now_ns).joined())
            certificate = Certificate.split(kept)
            self._certificate, context = certificate.certificate, certificate.context()
        key = self._secret("service-account-key", lambda: secrets.token_bytes(32))
        service = ApiService(self.store, clock, users=users, rbac=self._rbac, token_key=key)
        self._server = ApiServer(
            service, host=listen.host, port=listen.port, tls=context, limits=limits
        )

    def mount(self, prefix: str, handler: Handler) -> None:
        """Have everything under a path of the server answered by somebody else."""
        if self._server is not None:
            self._server.mount(prefix, handler)

    def _secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        return make() if self._data is None else self._data.secret(name, make)

    @property
    def url(self) -> str:
        """Where the cluster is served; empty if it is not."""
        return "" if self._server is None else self._server.url

    @property
    def token(self) -> str:
        """The administrator's token; empty if none is asked for."""
        return self._token

    def kubeconfig(self) -> str:
        """The text of a kubeconfig for the administrator, once the cluster is entered."""
        return kubeconfig(self.url, token=self._token, authority=self._certificate)

    def close(self) -> None:
        """Let go of the file of a cluster that was never entered. Idempotent."""
        if self._data is not None:
            self._data.close()

    async def __aenter__(self) -> EmbeddedCluster:
        if self._server is not None:
            try:
                await self._server.start()
            except OSError as exc:
                assert self._listen is not None
                where = f"{self._listen.host} port {self._listen.port}"
                # Names that nobody knows have numbers of their own.
                number = exc.errno or 0
                why = os.strerror(number) if number > 0 else exc.strerror or str(exc)
                raise KubeschedError(f"cannot listen on {where}: {why}") from exc
            publish_own_address(self.store, self.url, self._clock.now_ns())
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


def _pod_events(broadcaster: CoreEventBroadcaster, clock: Clock) -> PodEventSink:
    """Events of kubelets, as long as there are not too many at once: then some are left out."""
    bucket = TokenBucket(_EVENTS_PER_SECOND, _EVENTS_AT_ONCE)

    def record(pod: Pod, event: PodEvent) -> None:
        if bucket.take_if_any(clock.now_ns()):
            kind = "Warning" if event.warning else "Normal"
            recorder = broadcaster.recorder("kubelet", pod.spec.node_name)
            recorder.event(pod, kind, event.reason, "", event.message)

    return record
