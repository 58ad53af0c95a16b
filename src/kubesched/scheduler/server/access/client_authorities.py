"""The certificate authorities for clients, from files or from the cluster.

docs/reference/02 §3.2. Without a flag they come from the ConfigMap
`kube-system/extension-apiserver-authentication`, which is polled while the process runs. An invalid
or missing value does not replace the last valid one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import msgspec

from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.core import ConfigMap
from kubesched.errors import ConfigError
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.logging import get_logger
from kubesched.foundation.util.watched_file import POLL_PERIOD_NS, WatchedFile
from kubesched.scheduler.server.access.client_certificates import Bundle, RequestHeaderNames
from kubesched.scheduler.server.options.command_line import AuthenticationOptions

__all__ = ["ClientAuthorities"]

log = get_logger(__name__)

_NAMESPACE = "kube-system"
_NAME = "extension-apiserver-authentication"
_READER_ROLE = "extension-apiserver-authentication-reader"
_PLACE = f"configmap/{_NAME} in {_NAMESPACE}"
_CLIENT_CA = "client-ca-file"
_PROXY_CA = "requestheader-client-ca-file"

_NOT_FOUND, _FORBIDDEN = 404, 403


class ClientAuthorities:
    """The current bundles of authorities. A component that polls for changes."""

    def __init__(
        self,
        options: AuthenticationOptions,
        api: ApiAccess | None,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._options, self._clock = options, clock
        self._api = None if options.skip_lookup else api
        self._stopping = asyncio.Event()
        self._is_proxy_lookup_off = False
        self.on_change: Callable[[], None] = lambda: None
        self.client: Bundle | None = None
        self.proxy: Bundle | None = None
        self.proxy_names = RequestHeaderNames()
        self._files: dict[str, WatchedFile] = {}
        self._informer = self._build_informer(rng)
        if options.client_ca_file:
            self.client = self._first_bundle(_CLIENT_CA, options.client_ca_file)
        if options.request_header_client_ca_file:
            self.proxy = self._first_bundle(_PROXY_CA, options.request_header_client_ca_file)
            self.proxy_names = RequestHeaderNames(
                username=options.username_headers,
                uid=options.uid_headers,
                group=options.group_headers,
                extra_prefix=options.extra_header_prefixes,
                allowed_names=options.request_header_allowed_names,
            )
        self._warn_if_blind()

    @property
    def pem(self) -> bytes:
        """Every authority that is trusted for any purpose; empty if there are none."""
        return b"\n".join(each.pem for each in (self.client, self.proxy) if each is not None)

    async def look_up(self) -> None:
        """Read the cluster's ConfigMap once, before requests are served.

        Raises:
            ConfigError: reading failed, and the options do not tolerate that.
        """
        if self._informer is None or self._api is None:
            return
        try:
            published = await self._api.get(ConfigMap, _NAME, _NAMESPACE)
        except ApiError as exc:
            if exc.code == _NOT_FOUND:
                return
            self._look_up_failed(exc)
            return
        self._take(published)

    async def run(self) -> None:
        """Poll the files and the ConfigMap until stopped."""
        followed = () if self._informer is None else (self._informer,)
        async with running(*followed):
            while not await self._clock.wait(self._stopping, POLL_PERIOD_NS):
                self._poll_files()

    def stop(self) -> None:
        self._stopping.set()

    def _build_informer(self, rng: random.Random) -> SharedInformer[ConfigMap] | None:
        options = self._options
        has_all = options.client_ca_file and options.request_header_client_ca_file
        if self._api is None or has_all:
            return None
        informer = SharedInformer(
            self._api,
            ConfigMap,
            self._clock,
            rng,
            field_selector=f"metadata.name={_NAME}",
            namespace=_NAMESPACE,
        )
        informer.add_handler(self._take, lambda _, new: self._take(new), None)
        return informer

    def _first_bundle(self, what: str, path: str) -> Bundle:
        file = self._files[what] = WatchedFile(path)
        try:
            return Bundle(file.read(self._clock.monotonic_ns()))
        except (OSError, ValueError) as exc:
            why = (exc.strerror or str(exc)).lower() if isinstance(exc, OSError) else exc
            raise ConfigError(f"unable to load {what} {path!r}: {why}") from exc

    def _poll_files(self) -> None:
        now_ns = self._clock.monotonic_ns()
        for what, file in self._files.items():
            if file.changed(now_ns):
                self._replace(what, file.content, str(file.path))

    def _take(self, published: ConfigMap) -> None:
        if published.metadata.name != _NAME:
            return
        options, data = self._options, published.data
        if not options.client_ca_file:
            self._replace(_CLIENT_CA, data.get(_CLIENT_CA, "").encode(), _PLACE)
        if not options.request_header_client_ca_file and not self._is_proxy_lookup_off:
            try:
                self.proxy_names = _names(data)
            except msgspec.DecodeError as exc:
                log.error("Header names cannot be read", exc=exc, source=_PLACE)
                return
            self._replace(_PROXY_CA, data.get(_PROXY_CA, "").encode(), _PLACE)

    def _replace(self, what: str, pem: bytes, source: str) -> None:
        current = self.client if what == _CLIENT_CA else self.proxy
        if not pem.strip() or (current is not None and current.pem == pem):
            return
        try:
            bundle = Bundle(pem)
        except ValueError as exc:
            log.error("Client authorities cannot be used", exc=exc, key=what, source=source)
            return
        if what == _CLIENT_CA:
            self.client = bundle
        else:
            self.proxy = bundle
        self.on_change()

    def _look_up_failed(self, error: ApiError) -> None:
        if error.code == _FORBIDDEN:
            log.warning(
                f"Unable to get {_PLACE}.  Usually fixed by 'kubectl create rolebinding "
                f"-n {_NAMESPACE} ROLEBINDING_NAME --role={_READER_ROLE} "
                "--serviceaccount=YOUR_NS:YOUR_SA'"
            )
        if not self._options.tolerate_lookup_failure:
            raise ConfigError(
                f"unable to load configmap based request-header-client-ca-file: {error}"
            ) from error
        log.warning(f"Error looking up in-cluster authentication configuration: {error}")
        log.warning(
            "Continuing without authentication configuration. "
            "This may treat all requests as anonymous."
        )
        log.warning(
            "To require authentication configuration lookup to succeed, "
            "set --authentication-tolerate-lookup-failure=false"
        )
        self._is_proxy_lookup_off = True

    def _warn_if_blind(self) -> None:
        if self._api is not None or self._options.skip_lookup:
            return
        missing = "No authentication-kubeconfig provided in order to lookup"
        if self.client is None:
            log.warning(
                f"{missing} {_CLIENT_CA} in {_PLACE}, "
                "so client certificate authentication won't work."
            )
        if self.proxy is None:
            log.warning(
                f"{missing} {_PROXY_CA} in {_PLACE}, "
                "so request-header client certificate authentication won't work."
            )


def _names(data: Mapping[str, str]) -> RequestHeaderNames:
    def values(key: str) -> tuple[str, ...]:
        text = data.get(f"requestheader-{key}", "")
        return msgspec.json.decode(text, type=tuple[str, ...]) if text else ()

    return RequestHeaderNames(
        username=values("username-headers"),
        uid=values("uid-headers"),
        group=values("group-headers"),
        extra_prefix=values("extra-headers-prefix"),
        allowed_names=values("allowed-names"),
    )
