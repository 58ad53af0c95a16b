"""The scheduler's own endpoints, served over HTTPS (docs/reference/02 §2–6).

The process builds a `SchedulerServer` from its collaborators and runs it as a component.

    metrics = ServingMetrics(...)
    server = SchedulerServer(serving, access, pages, metrics, clock, seed)
    await server.start()      # binds; raises if the address is in use
    ... run() ... stop()
"""

from __future__ import annotations

import asyncio
import random
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from prometheus_client.registry import CollectorRegistry

from kubesched.api import Pod
from kubesched.api.access import ApiAccess
from kubesched.foundation.http.http_messages import Handler
from kubesched.foundation.http.http_server import HttpLimits, HttpServer
from kubesched.foundation.metrics.instruments import FamilyGroup
from kubesched.foundation.metrics.process_metrics import ProcessMetrics
from kubesched.foundation.metrics.server_metrics import HealthMetrics, ServerMetrics
from kubesched.foundation.util.accept_failures import AcceptFailures
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.logging import get_logger, set_verbosity
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.watched_file import POLL_PERIOD_NS
from kubesched.scheduler.server.access.authenticators import Authenticator, AuthenticatorChain
from kubesched.scheduler.server.access.bearer_tokens import BearerTokens
from kubesched.scheduler.server.access.client_authorities import ClientAuthorities
from kubesched.scheduler.server.access.client_certificates import ClientCertificates, FrontProxy
from kubesched.scheduler.server.access.path_authorization import (
    AlwaysAllowPaths,
    PathAuthorizer,
    SubjectAccess,
)
from kubesched.scheduler.server.access.review_client import Reviewer
from kubesched.scheduler.server.endpoints.configz import configz_handler
from kubesched.scheduler.server.endpoints.debug import add_debug_routes
from kubesched.scheduler.server.endpoints.explanations import EXPLAIN, Explanations, explain_handler
from kubesched.scheduler.server.endpoints.health_endpoints import HealthCheck, add_health_routes
from kubesched.scheduler.server.endpoints.metric_limits import limit_metrics
from kubesched.scheduler.server.endpoints.metrics_pages import metrics_handler
from kubesched.scheduler.server.endpoints.pod_resources import pod_resources_handler
from kubesched.scheduler.server.endpoints.routes import Routes
from kubesched.scheduler.server.endpoints.shadow_endpoint import SHADOW, shadow_handler
from kubesched.scheduler.server.endpoints.zpages import Versions, flagz_handler, statusz_handler
from kubesched.scheduler.server.options.command_line import (
    AuthenticationOptions,
    AuthorizationOptions,
    MetricsOptions,
    SecureServingOptions,
)
from kubesched.scheduler.server.serving.browser_sign_in import with_browser_sign_in
from kubesched.scheduler.server.serving.filters import ServedEndpoints
from kubesched.scheduler.server.serving.listener import listen, shown_address
from kubesched.scheduler.server.serving.stalled_answers import answer_while
from kubesched.scheduler.server.serving.tls_contexts import TlsContexts

__all__ = ["AccessControl", "Pages", "SchedulerServer", "ServingMetrics", "build_access_control"]

log = get_logger(__name__)

DASHBOARD: Final = "/dashboard"
HTTP_LIMITS: Final = HttpLimits()
_SHUTDOWN_SECONDS: Final = 5.0


class ServingMetrics:
    """The registries behind `/metrics` and `/metrics/slis`, and their groups of metrics."""

    def __init__(
        self,
        registry: CollectorRegistry,
        groups: Iterable[FamilyGroup] = (),
        options: MetricsOptions | None = None,
    ) -> None:
        """Initialize with groups that have registered their metrics. `DELETE /metrics` resets them.

        The options apply from now on, so nothing must have been counted before.

        Raises:
            ConfigError: a file that the options name cannot be read.
        """
        self.registry = registry
        self.server = ServerMetrics(registry)
        self.process = ProcessMetrics(registry)
        self.slis_registry = CollectorRegistry()
        self.health = HealthMetrics(self.slis_registry)
        self.groups: tuple[FamilyGroup, ...] = (self.server, *groups)
        self.disabled = 0 if options is None else limit_metrics(options, self.groups)


class AccessControl(msgspec.Struct, frozen=True):
    """Authentication and authorization. Run `authorities` to follow rotated authorities."""

    authorities: ClientAuthorities
    authenticators: AuthenticatorChain
    authorizer: PathAuthorizer


class Pages(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the endpoints. Functions are called for each request."""

    # The completed configuration in the form of `config.write.versioned`.
    configuration: Callable[[], Mapping[str, Any]]
    flags: Mapping[str, str]
    versions: Versions
    healthz: Sequence[HealthCheck] = ()
    readyz: Sequence[HealthCheck] = ()
    pods: Callable[[], Iterable[Pod]] = tuple
    is_leading: Callable[[], bool] = lambda: False
    profiling: bool = True
    statusz: bool = True
    flagz: bool = True
    set_verbosity: Callable[[int], None] = set_verbosity
    # Computes explanations. None: there are no such endpoints.
    explanations: Explanations | None = None
    # Serves the paths below /dashboard. None: there is no dashboard.
    dashboard: Handler | None = None
    # Returns the ledger of shadow mode as JSON. None: this process is no shadow.
    shadow: Callable[[], bytes] | None = None


def build_access_control(
    authentication: AuthenticationOptions,
    authorization: AuthorizationOptions,
    authentication_api: ApiAccess | None,
    authorization_api: ApiAccess | None,
    metrics: ServerMetrics,
    clock: Clock,
    seed: int,
) -> AccessControl:
    """Build access control that delegates to API servers. None: there is no cluster.

    Raises:
        ConfigError: a file of authorities, or an always-allowed path, cannot be used.
    """
    authorities = ClientAuthorities(
        authentication, authentication_api, clock, derive(seed, "client-authorities")
    )
    authenticators: list[Authenticator] = [
        FrontProxy(lambda: authorities.proxy, lambda: authorities.proxy_names, clock),
        ClientCertificates(lambda: authorities.client, clock, metrics),
    ]
    if authentication_api is not None:
        reviewer = Reviewer(
            authentication_api,
            clock,
            derive(seed, "token-reviews"),
            metrics.delegated_authn_request_total,
            metrics.delegated_authn_request_duration_seconds,
        )
        authenticators.append(
            BearerTokens(
                reviewer,
                clock,
                metrics,
                cache_ttl_ns=authentication.token_cache_ttl_ns,
                digest_key=secrets.token_bytes(32),
            )
        )
    access: SubjectAccess | None = None
    if authorization_api is not None:
        reviewer = Reviewer(
            authorization_api,
            clock,
            derive(seed, "access-reviews"),
            metrics.delegated_authz_request_total,
            metrics.delegated_authz_request_duration_seconds,
        )
        access = SubjectAccess(
            reviewer,
            clock,
            allow_ttl_ns=authorization.allow_cache_ttl_ns,
            deny_ttl_ns=authorization.deny_cache_ttl_ns,
        )
    authorizer = PathAuthorizer(AlwaysAllowPaths(authorization.always_allow_paths), access)
    return AccessControl(authorities, AuthenticatorChain(authenticators), authorizer)


def build_routes(pages: Pages, metrics: ServingMetrics, clock: Clock, rng: random.Random) -> Routes:
    """Register the paths of docs/reference/02 §5."""
    routes = Routes()
    add_health_routes(routes, "healthz", pages.healthz, metrics.health.observe)
    add_health_routes(routes, "livez", (), metrics.health.observe)
    add_health_routes(routes, "readyz", pages.readyz, metrics.health.observe)
    started = metrics.process.start_time_seconds
    start_seconds = None if started is None else int(started)
    routes.add("/metrics", metrics_handler(metrics.registry, metrics.groups, start_seconds))
    routes.add(
        "/metrics/slis", metrics_handler(metrics.slis_registry, (metrics.health,), start_seconds)
    )
    routes.add("/metrics/resources", pod_resources_handler(pages.pods, pages.is_leading))
    routes.add("/configz", configz_handler(pages.configuration))
    if pages.explanations is not None:
        routes.add_prefix(EXPLAIN, explain_handler(pages.explanations))
    if pages.shadow is not None:
        routes.add(SHADOW, shadow_handler(pages.shadow))
    if pages.dashboard is not None:
        routes.add(DASHBOARD, pages.dashboard, listed=False)
        routes.add_prefix(f"{DASHBOARD}/", pages.dashboard)
    if pages.flagz:
        routes.add("/flagz", flagz_handler(pages.flags, rng))
    if pages.statusz:
        routes.add("/statusz", statusz_handler(clock, pages.versions, routes.first_segments, rng))
    if pages.profiling:
        add_debug_routes(routes, pages.set_verbosity)
    return routes


class SchedulerServer:
    """Serves the endpoints until stopped. A component; `start` binds before `run`."""

    def __init__(
        self,
        options: SecureServingOptions,
        access: AccessControl,
        pages: Pages,
        metrics: ServingMetrics,
        clock: Clock,
        seed: int = 0,
    ) -> None:
        """Raises ConfigError for serving certificates that cannot be used."""
        self._options, self._access, self._clock = options, access, clock
        self._tls = TlsContexts(options, clock)
        access.authorities.on_change = self._trust
        self._trust()
        routes = build_routes(pages, metrics, clock, derive(seed, "z-pages"))
        endpoints = ServedEndpoints(
            routes, access.authenticators, access.authorizer, metrics.server, clock
        )
        self._handler: Handler = endpoints.answer
        if pages.dashboard is not None:
            self._handler = with_browser_sign_in(endpoints.answer, DASHBOARD)
        self._stopping = asyncio.Event()
        self._listener: socket.socket | None = None

    @property
    def port(self) -> int:
        """The port of the socket. With port 0 the system chooses it."""
        assert self._listener is not None, "the server has not been started"
        port: int = self._listener.getsockname()[1]
        return port

    async def start(self) -> None:
        """Read the authorities and bind the address.

        Raises:
            ConfigError: the authorities cannot be read, and the options do not tolerate that.
            ServingError: the address cannot be used.
        """
        await self._access.authorities.look_up()
        AcceptFailures.sum_up(asyncio.get_running_loop())
        self._listener = listen(self._options)

    async def run(self) -> None:
        if self._listener is None:
            await self.start()
        assert self._listener is not None
        http = HttpServer(self._handler, HTTP_LIMITS)
        await http.accept_from(self._listener, self._tls.listening)
        log.info(f"Serving securely on {shown_address(self._listener)}")
        try:
            async with running(self._access.authorities):
                while not await self._clock.wait(self._stopping, POLL_PERIOD_NS):
                    self._tls.poll()
        finally:
            http.stop_accepting()
            log.info("[graceful-termination] secure server has stopped listening")
            await http.close(_SHUTDOWN_SECONDS)
            log.info("[graceful-termination] secure server is exiting")

    def answer_while(self, is_stalled: Callable[[], bool]) -> None:
        """Respond to probes while the event loop is blocked. Called in another thread."""
        if self._listener is not None:
            answer_while(is_stalled, self._listener, self._tls.listening)

    def stop(self) -> None:
        """Stop accepting. Running requests have five seconds."""
        self._stopping.set()

    def _trust(self) -> None:
        self._tls.trust(self._access.authorities.pem)
