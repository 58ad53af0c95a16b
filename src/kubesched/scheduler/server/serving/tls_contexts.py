"""The TLS contexts of the secure port, reloaded when certificates or authorities change.

docs/reference/02 §2. A listener has one context until it closes. That context only accepts
connections. Its SNI callback replaces it by the current context for the requested name before a
certificate is chosen.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubesched.errors import ConfigError
from kubesched.foundation.http.self_signed import CertificatePair, self_signed_certificate
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.logging import get_logger
from kubesched.foundation.util.watched_file import WatchedFile
from kubesched.scheduler.server.options.command_line import SecureServingOptions
from kubesched.scheduler.server.options.flag_kinds import NamedCertKey

__all__ = ["TlsContexts", "openssl_ciphers", "serving_names"]

log = get_logger(__name__)

_PAIR_NAME = "kube-scheduler"
_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_DEFAULT_CIPHERS: Final = (
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
)
_TLS13_SUITES: Final = frozenset(
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
)
_CURVES: Final[Mapping[int, str]] = {
    23: "prime256v1",
    24: "secp384r1",
    25: "secp521r1",
    29: "X25519",
}


class TlsContexts:
    """The serving certificates, from files or from memory, and their TLS contexts."""

    def __init__(self, options: SecureServingOptions, clock: Clock) -> None:
        """Raises ConfigError for certificates that cannot be used."""
        self._options, self._clock = options, clock
        self._authorities = b""
        self._files: list[WatchedFile] = []
        self._memory: CertificatePair | None = None
        self._default_pair = self._find_default_pair()
        self._watch(self._default_pair)
        for pair in options.sni_certificates:
            self._watch(pair)
        self._default: ssl.SSLContext
        self._by_name: dict[str, ssl.SSLContext] = {}
        try:
            self._load()
        except (OSError, ssl.SSLError, ValueError) as exc:
            raise ConfigError(f"unable to load server certificate: {exc}") from exc
        self.listening = self._new_context(self._default_pair)
        self.listening.sni_callback = self._choose

    def trust(self, authorities_pem: bytes) -> None:
        """Request client certificates of these authorities; without any, request none."""
        self._authorities = authorities_pem
        self._reload("client authorities")
        # OpenSSL reads this before the SNI callback replaces the context.
        self.listening.verify_mode = ssl.CERT_OPTIONAL if authorities_pem else ssl.CERT_NONE

    def poll(self) -> None:
        """Reload changed files if they are valid."""
        now_ns = self._clock.monotonic_ns()
        # Check every file, because certificate and key change together.
        changed = [file for file in self._files if file.changed(now_ns)]
        if changed:
            self._reload("serving certificates")

    def _reload(self, what: str) -> None:
        try:
            self._load()
        except (OSError, ssl.SSLError, ValueError) as exc:
            log.error("New TLS files cannot be used, keeping the old", exc=exc, changed=what)

    def _find_default_pair(self) -> NamedCertKey | None:
        options = self._options
        if options.cert_file or options.key_file:
            return NamedCertKey(options.cert_file, options.key_file)
        now_ns = self._clock.now_ns()
        if not options.cert_dir:
            self._memory = self_signed_certificate(serving_names(options.bind_address), now_ns)
            log.info("Generated self-signed cert in-memory")
            return None
        cert = Path(options.cert_dir) / f"{_PAIR_NAME}.crt"
        key = Path(options.cert_dir) / f"{_PAIR_NAME}.key"
        if cert.exists() != key.exists():
            missing, present = (key, cert) if cert.exists() else (cert, key)
            raise ConfigError(
                f"error creating self-signed certificates: found {present} but not {missing}"
            )
        if not cert.exists():
            names = serving_names(options.bind_address)
            _write_pair(cert, key, self_signed_certificate(names, now_ns))
            log.info(f"Generated self-signed cert ({cert}, {key})")
        return NamedCertKey(str(cert), str(key))

    def _watch(self, pair: NamedCertKey | None) -> None:
        if pair is None:
            return
        for path in (pair.cert_file, pair.key_file):
            file = WatchedFile(path)
            try:
                file.read(self._clock.monotonic_ns())
            except OSError as exc:
                raise ConfigError(f"unable to load server certificate: {exc}") from exc
            self._files.append(file)

    def _load(self) -> None:
        default = self._new_context(self._default_pair)
        by_name: dict[str, ssl.SSLContext] = {}
        for pair in self._options.sni_certificates:
            context = self._new_context(pair)
            for name in pair.names or _certificate_names(pair.cert_file):
                # The first certificate for a name wins.
                by_name.setdefault(name.lower(), context)
        self._default, self._by_name = default, by_name

    def _choose(
        self, connection: ssl.SSLObject, server_name: str | None, _: ssl.SSLContext
    ) -> None:
        connection.context = self._context_for(server_name)

    def _context_for(self, server_name: str | None) -> ssl.SSLContext:
        if not server_name or not self._by_name:
            return self._default
        name = server_name.lower().rstrip(".")
        parent = name.partition(".")[2]
        return self._by_name.get(name) or self._by_name.get(f"*.{parent}") or self._default

    def _new_context(self, pair: NamedCertKey | None) -> ssl.SSLContext:
        options = self._options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[options.min_version]
        context.set_ciphers(openssl_ciphers(options.cipher_suites))
        if len(options.curve_preferences) == 1 and options.curve_preferences[0] in _CURVES:
            context.set_ecdh_curve(_CURVES[options.curve_preferences[0]])
        context.set_alpn_protocols(["http/1.1"])
        # A resumed session has no chain of the client's certificate.
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self._authorities:
            context.load_verify_locations(cadata=self._authorities.decode("ascii", "replace"))
            context.verify_mode = ssl.CERT_OPTIONAL
        if pair is not None:
            context.load_cert_chain(pair.cert_file, pair.key_file)
        elif self._memory is not None:
            self._memory.load_into(context)
        return context


def openssl_ciphers(names: Sequence[str]) -> str:
    """Return the names of cipher suites up to TLS 1.2 in OpenSSL's spelling.

    Those of TLS 1.3 are always enabled, as in Go.
    """
    wanted = [name for name in names if name not in _TLS13_SUITES]
    return ":".join(map(_openssl_name, wanted) if wanted else _DEFAULT_CIPHERS)


def _openssl_name(name: str) -> str:
    exchange, _, rest = name.removeprefix("TLS_").partition("_WITH_")
    rest = rest.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("RC4_128", "RC4")
    rest = rest.replace("3DES_EDE_CBC", "DES_CBC3").replace("AES128_CBC", "AES128")
    rest = rest.replace("AES256_CBC", "AES256")
    if "CHACHA20" in rest:
        rest = rest.removesuffix("_SHA256")
    parts = [] if exchange == "RSA" else [exchange]
    return "-".join([*parts, rest]).replace("_", "-")


def serving_names(bind_address: str) -> list[str]:
    """Return the names of this host for a certificate.

    They are `localhost`, the address of the socket if it is a particular one, and the loopback
    address.
    """
    try:
        address = ipaddress.ip_address(bind_address)
    except ValueError:
        address = ipaddress.IPv4Address(0)
    loopback = ipaddress.IPv4Address("127.0.0.1")
    particular = [] if address.is_unspecified or address == loopback else [str(address)]
    return ["localhost", *particular, str(loopback)]


def _write_pair(cert: Path, key: Path, pair: CertificatePair) -> None:
    cert.parent.mkdir(parents=True, exist_ok=True)
    cert.write_bytes(pair.certificates)
    key.touch(mode=0o600)
    key.write_bytes(pair.key)


def _certificate_names(cert_file: str) -> list[str]:
    """Read the names from a certificate, for a pair without configured names."""
    leaf = x509.load_pem_x509_certificates(Path(cert_file).read_bytes())[0]
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return found.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        named = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return [str(each.value) for each in named]
