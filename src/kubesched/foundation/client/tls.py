"""TLS contexts of a client: trusted authorities and the client certificate.

A context is built from bytes. Certificates from files, from a kubeconfig and from an exec plugin
are therefore treated alike, and a rotated certificate results in another context.
"""

from __future__ import annotations

import os
import ssl
import tempfile

import msgspec

from kubesched.errors import ConfigError

__all__ = ["KeyPair", "TlsOptions", "client_context"]


class KeyPair(msgspec.Struct, frozen=True):
    """A client certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


class TlsOptions(msgspec.Struct, frozen=True):
    """The verification of the server. Without `ca` the system's authorities are trusted."""

    ca: bytes = b""
    server_name: str = ""
    insecure: bool = False


def client_context(options: TlsOptions, pair: KeyPair | None) -> ssl.SSLContext:
    """Build a context for these options, with a client certificate if there is one.

    Raises:
        ConfigError: a certificate or key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As in Go, a certificate that is configured as trusted is trusted, whether it is a root or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif options.ca:
        _trust(context, options.ca)
    else:
        context.load_default_certs()
    if pair is not None:
        _show(context, pair)
    return context


def _trust(context: ssl.SSLContext, ca: bytes) -> None:
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as exc:
        raise ConfigError(f"certificate authority: not usable PEM: {exc}") from exc


def _show(context: ssl.SSLContext, pair: KeyPair) -> None:
    # The ssl module reads key pairs only from files; these are removed at once.
    descriptor, path = tempfile.mkstemp(prefix="kubesched-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair.certificate.rstrip() + b"\n" + pair.key)
        # An encrypted key must be an error here; otherwise the password is requested on a terminal.
        context.load_cert_chain(path, password=lambda: b"")
    except ssl.SSLError as exc:
        raise ConfigError(f"client certificate: not a usable pair of PEM: {exc}") from exc
    finally:
        os.unlink(path)
