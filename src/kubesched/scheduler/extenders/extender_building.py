"""Builds the extenders of a configuration (docs/reference/04 §18.1, 01 §10.3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.access import ApiAccess
from kubesched.errors import ConfigError
from kubesched.foundation.client.credentials import Credential, FixedCredentials
from kubesched.foundation.client.document_cache import DocumentCache
from kubesched.foundation.client.extender_client import ExtenderClient
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.tls import KeyPair, TlsOptions, client_context
from kubesched.foundation.client.transport import Transport
from kubesched.scheduler.config.configuration_completion import ordered_extenders
from kubesched.scheduler.config.types import ExtenderConfig, ExtenderTLSConfig
from kubesched.scheduler.extenders.extender import HTTPExtender

__all__ = ["TransportOf", "build_extenders", "check_extenders", "connect", "document_cache"]

TransportOf = Callable[[ExtenderConfig], Transport]

_PREFIX = "couldn't build extenders: "
_PEM = b"-----BEGIN "


def build_extenders(
    configured: Iterable[ExtenderConfig], transport_of: TransportOf | None = None
) -> tuple[HTTPExtender, ...]:
    """Return the extenders in the order in which they are called, ignorable ones last.

    `transport_of` returns the transport to one; by default it uses the network.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    transport_of = transport_of or connect
    built = []
    for settings in ordered_extenders(configured):
        try:
            transport = transport_of(settings)
        except ConfigError as exc:
            raise ConfigError(f"{_PREFIX}{exc}") from exc
        client = ExtenderClient(settings.url_prefix, transport, settings.http_timeout_ns)
        built.append(HTTPExtender(settings, client))
    return tuple(built)


def check_extenders(configured: Iterable[ExtenderConfig]) -> None:
    """Check that the certificates and keys of extenders can be used.

    Raises:
        ConfigError: one cannot be used.
    """
    for settings in configured:
        try:
            _tls_of(settings)
        except ConfigError as exc:
            raise ConfigError(f"{_PREFIX}{exc}") from exc


def connect(settings: ExtenderConfig) -> Transport:
    """Return a pool of connections to the extender, over TLS if its URL says so."""
    options, pair = _tls_of(settings)
    connection = Connection(
        server=settings.url_prefix,
        tls=options,
        credentials=FixedCredentials(Credential(pair=pair)),
    )
    return HttpTransport(connection)


def _tls_of(settings: ExtenderConfig) -> tuple[TlsOptions, KeyPair | None]:
    """Return how to verify the extender, and the client certificate for it.

    Raises:
        ConfigError: a certificate or key cannot be used; common errors have the reference's text.
    """
    config = settings.tls_config or ExtenderTLSConfig()
    has_ca = bool(config.ca_data or config.ca_file)
    if config.insecure and has_ca:
        raise ConfigError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    # HTTPS without a CA means that every certificate is accepted, as in the reference.
    insecure = config.insecure or (settings.enable_https and not has_ca)
    ca = config.ca_data or _read(config.ca_file)
    certificate = config.cert_data or _read(config.cert_file)
    key = config.key_data or _read(config.key_file)
    if has_ca and _PEM not in ca:
        raise ConfigError("unable to load root certificates: unable to parse bytes as PEM block")
    options = TlsOptions(ca, config.server_name, insecure)
    pair = KeyPair(certificate, key) if certificate and key else None
    if pair is not None:
        _check_is_pem(certificate, "certificate")
        _check_is_pem(key, "key")
    client_context(options, pair)  # raises if a certificate or key cannot be used
    return options, pair


def _check_is_pem(text: bytes, name: str) -> None:
    if _PEM not in text:
        raise ConfigError(f"tls: failed to find any PEM data in {name} input")


def document_cache(api: ApiAccess, extenders: Collection[HTTPExtender]) -> DocumentCache:
    """Return an API access that stores the JSON of objects that extenders may be sent."""
    called = [each for each in extenders if each.takes_part_in_attempts]
    shows_victims = any(
        each.settings.preempt_verb and not each.settings.node_cache_capable for each in called
    )

    def may_be_sent(pod: Pod) -> bool:
        if pod.spec.node_name:
            return shows_victims
        return any(each.is_interested(pod) for each in called)

    is_cached: dict[type, Callable[[Any], bool]] = {}
    if called:
        is_cached[Pod] = may_be_sent
    if any(each.is_sent_nodes for each in called):
        is_cached[Node] = lambda _: True
    return DocumentCache(api, is_cached)


def _read(path: str) -> bytes:
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise ConfigError(f"open {path}: {(exc.strerror or str(exc)).lower()}") from exc
