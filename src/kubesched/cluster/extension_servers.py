"""Connections to the servers of APIServices, and the checks whether these are available."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubesched.api import ConfigMap
from kubesched.cluster.apiserver.http.aggregation import AggregationLayer, ExtensionAnswer
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.certificate_signer import LazyAuthority
from kubesched.cluster.local_endpoints import LocalAddress, address_of_service
from kubesched.errors import KubeschedError
from kubesched.foundation.client.credentials import Credential, FixedCredentials
from kubesched.foundation.client.tls import KeyPair, TlsOptions
from kubesched.foundation.client.transport import OutgoingRequest, TransportError
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.components import StopSwitch

if TYPE_CHECKING:
    from kubesched.foundation.client.http_transport import HttpTransport

__all__ = ["ExtensionChecks", "ExtensionClient"]

Json = dict[str, Any]

_CHECK_NS: Final = 10 * SECOND
_PROXY: Final = "front-proxy-client"
_YEAR_SECONDS: Final = 365 * 24 * 3600
_NAMESPACE, _NAME = "kube-system", "extension-apiserver-authentication"
_Key = tuple[LocalAddress, str, bytes, bool]


class ExtensionClient:
    """Forwards requests to the servers of APIServices, with the certificate of a front proxy."""

    def __init__(self, store: Store, clock: Clock, authority: LazyAuthority) -> None:
        self._store, self._clock, self._authority = store, clock, authority
        self._transports: dict[_Key, HttpTransport] = {}
        self._credentials: FixedCredentials | None = None

    async def forward(
        self, spec: Json, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> ExtensionAnswer:
        """Send a request. Raises KubeschedError if there is no response."""
        transport = self._transport(spec)
        request = OutgoingRequest(method, target, body, headers=tuple(headers))
        stack = contextlib.AsyncExitStack()
        try:
            response = await stack.enter_async_context(transport.stream(request))
        except TransportError:
            await stack.aclose()
            raise

        async def chunks() -> AsyncGenerator[bytes, None]:
            async with stack:
                while chunk := await response.read_chunk():
                    yield chunk

        fields = list(response.headers.items())
        content_type = response.headers.get("Content-Type", "")
        return ExtensionAnswer(response.status, fields, content_type, chunks())

    async def close(self) -> None:
        """Close all connections."""
        transports, self._transports = self._transports, {}
        for each in transports.values():
            await each.close()

    def _transport(self, spec: Json) -> HttpTransport:
        # Imported here: most clusters have no other servers, and the import takes long.
        from kubesched.foundation.client.http_transport import Connection, HttpTransport

        service = spec["service"]
        name, namespace = service.get("name", ""), service.get("namespace", "")
        address = address_of_service(self._store, namespace, name, service.get("port", 443))
        try:
            bundle = base64.b64decode(spec.get("caBundle") or "", validate=True)
        except binascii.Error as error:
            raise KubeschedError(f"caBundle cannot be decoded: {error}") from error
        insecure = bool(spec.get("insecureSkipTLSVerify"))
        key = address, f"{name}.{namespace}.svc", bundle, insecure
        transport = self._transports.get(key)
        if transport is None:
            options = TlsOptions(ca=bundle, server_name=key[1], insecure=insecure)
            host = f"[{address.host}]" if ":" in address.host else address.host
            connection = Connection(
                server=f"https://{host}:{address.port}",
                tls=options,
                credentials=self._proxy_credentials(),
            )
            transport = self._transports[key] = HttpTransport(connection)
        return transport

    def _proxy_credentials(self) -> FixedCredentials:
        if self._credentials is None:
            now_ns = self._clock.now_ns()
            pair = self._authority.get().client_pair(_PROXY, now_ns, _YEAR_SECONDS)
            self._credentials = FixedCredentials(
                Credential(pair=KeyPair(pair.certificates, pair.key))
            )
        return self._credentials


class ExtensionChecks:
    """Checks every few seconds whether the servers of APIServices are available.

    While no APIService has a Service, it is idle.
    """

    def __init__(
        self, store: Store, layer: AggregationLayer, clock: Clock, authority: LazyAuthority
    ) -> None:
        self._store, self._layer, self._clock = store, layer, clock
        self._authority = authority
        self._stop = StopSwitch()

    async def run(self) -> None:
        await self._stop.guard(self._check_periodically())

    def stop(self) -> None:
        self._stop.set()

    async def _check_periodically(self) -> None:
        collection = self._store.collection(self._layer.resource)
        changed = asyncio.Event()
        while True:
            changed.clear()
            collection.call_on_change(changed.set)
            try:
                if not self._layer.remote:
                    await changed.wait()
                    continue
                self._publish_authority()
                await self._layer.check(self._clock.now_ns())
                await self._clock.wait(changed, timeout_ns=_CHECK_NS)
            finally:
                collection.cancel_call(changed.set)

    def _publish_authority(self) -> None:
        """Write the ConfigMap in which other servers find how this server identifies users."""
        resource = self._store.catalog.by_type(ConfigMap)
        if self._store.find_record(resource, _NAMESPACE, _NAME) is not None:
            return
        bundle = self._authority.get().certificate.decode()
        lists = {
            "requestheader-allowed-names": [_PROXY],
            "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
            "requestheader-group-headers": ["X-Remote-Group"],
            "requestheader-uid-headers": ["X-Remote-Uid"],
            "requestheader-username-headers": ["X-Remote-User"],
        }
        data = {key: msgspec.json.encode(value).decode() for key, value in lists.items()}
        data |= {"client-ca-file": bundle, "requestheader-client-ca-file": bundle}
        body = {"metadata": {"name": _NAME}, "data": data}
        with self._store.own_writes():
            self._store.create(resource, _NAMESPACE, body, self._clock.now_ns())
