"""The HTTP server of an embedded cluster, with its certificates and its clients of webhooks."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kubesched.api import Pod
from kubesched.api.time import format_time
from kubesched.cluster.account_token_secrets import AccountTokenSecrets
from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.client_kubeconfig import kubeconfig
from kubesched.cluster.apiserver.http.metrics_api import PodUsage
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.users import ADMIN, Users
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.persistence import DataFile
from kubesched.cluster.certificate_signer import LazyAuthority
from kubesched.cluster.extension_servers import ExtensionChecks, ExtensionClient
from kubesched.cluster.local_endpoints import check_local_address
from kubesched.cluster.nodes.container_scripts import ContainerScripts
from kubesched.cluster.own_address import publish_own_address
from kubesched.cluster.webhook_client import WebhookClient
from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import Handler
from kubesched.foundation.util.clock import Clock

if TYPE_CHECKING:
    import ssl

    from kubesched.foundation.http.self_signed import CertificatePair

__all__ = ["ClusterServer", "Listen"]

_CLIENT_AUTHORITY = "client-authority"


class Listen(NamedTuple):
    """The address of the server. Port 0 selects a free port; without TLS there are no tokens."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: bool = True


class ClusterServer:
    """Serves the store over HTTP.

    Secrets are stored in the data file of the cluster, if it has one, and reused.
    """

    def __init__(
        self,
        listen: Listen,
        store: Store,
        api: LocalApi,
        clock: Clock,
        *,
        data: DataFile | None,
        limits: ApiLimits | None,
        rbac: bool,
        scripts: Callable[[Pod], Mapping[str, str]] | None,
        usage: PodUsage | None,
    ) -> None:
        """Build the server; it does not listen yet. Writes to `api` call its webhooks as well."""
        self._listen = listen
        self._store, self._clock, self._data = store, clock, data
        self._tls: ssl.SSLContext | None = None
        # Signs the certificates of clients.
        self.authority = LazyAuthority(
            clock, lambda make: self._secret(_CLIENT_AUTHORITY, make), lambda: self._tls
        )
        # The administrator's bearer token; empty if the server needs none.
        self.token = ""
        # The certificate that clients trust; empty without TLS.
        self.certificate = b""
        users = self._prepare_tls() if listen.tls else None
        key = self._secret("service-account-key", lambda: secrets.token_bytes(32))
        service = ApiService(store, clock, users=users, rbac=rbac, token_key=key)
        # Fills the Secrets of service accounts while it runs.
        self.account_token_secrets = AccountTokenSecrets(
            store, service.tokens, clock, lambda: self.certificate
        )
        service.show_processes(ContainerScripts(scripts, check_local_address))
        if usage is not None:
            service.show_usage(usage)
        self._webhooks = WebhookClient(store)
        api.webhook_calls = service.call_webhooks_with(self._webhooks)
        self._extensions = ExtensionClient(store, clock, self.authority)
        layer = service.forward_with(self._extensions)
        # Checks the extension servers while it runs.
        self.extension_checks = ExtensionChecks(store, layer, clock, self.authority)
        self._server = ApiServer(
            service, host=listen.host, port=listen.port, tls=self._tls, limits=limits
        )

    def _prepare_tls(self) -> Users:
        """Load or make the token and the certificates. Return the users."""
        # Not derived from the seed: a token must not be computable from it.
        self.token = self._secret("token", lambda: secrets.token_urlsafe(24).encode()).decode()
        # Imported here: this import takes longer than all other imports of the cluster.
        from kubesched.foundation.http.self_signed import CertificatePair

        host, now_ns = self._listen.host, self._clock.now_ns()
        # Certificates are valid for a year; a stored one is reused within its calendar year.
        name = f"certificate/{host}/{format_time(now_ns)[:4]}"
        stored = self._secret(name, lambda: _certificate(host, now_ns).joined())
        certificate = CertificatePair.split(stored)
        self.certificate, self._tls = certificate.authority, certificate.server_context()
        if self._data is not None and self._data.has_secret(_CLIENT_AUTHORITY):
            self.authority.get()
        return Users({self.token: ADMIN})

    def _secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        return make() if self._data is None else self._data.secret(name, make)

    @property
    def url(self) -> str:
        return self._server.url

    def mount(self, prefix: str, handler: Handler) -> None:
        """Let `handler` respond to every request below `prefix`."""
        self._server.mount(prefix, handler)

    def kubeconfig(self) -> str:
        """Return the text of a kubeconfig for the administrator; the server must listen."""
        return kubeconfig(self.url, token=self.token, authority=self.certificate)

    async def start(self) -> None:
        """Listen, and publish the address in the Service `kubernetes`.

        Raises:
            KubeschedError: the address cannot be used.
        """
        try:
            await self._server.start()
        except OSError as exc:
            where = f"{self._listen.host} port {self._listen.port}"
            # Errors of name resolution have negative numbers that `strerror` has no text for.
            number = exc.errno or 0
            why = os.strerror(number) if number > 0 else exc.strerror or str(exc)
            raise KubeschedError(f"cannot listen on {where}: {why}") from exc
        publish_own_address(self._store, self.url, self._clock.now_ns())

    async def stop(self) -> None:
        await self._server.stop()
        await self._webhooks.close()
        await self._extensions.close()


def _certificate(host: str, now_ns: int) -> CertificatePair:
    from kubesched.foundation.http.self_signed import self_signed_certificate

    names = dict.fromkeys(["localhost", "127.0.0.1", "::1", host])
    # A leap year and a day: a stored certificate is used until its calendar year ends.
    return self_signed_certificate(filter(None, names), now_ns, key_type="ec", days=367)
