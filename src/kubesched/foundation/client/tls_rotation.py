"""The TLS context of a connection, rebuilt when its authorities or key pair change.

Authorities and key pairs are rotated in their files while the process runs. If the new content
cannot be used, the error is logged and the current context stays in use.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from msgspec.structs import replace

from kubesched.errors import ConfigError
from kubesched.foundation.client.credentials import FileText
from kubesched.foundation.client.tls import KeyPair, TlsOptions, client_context
from kubesched.foundation.util.logging import get_logger

__all__ = ["CaReloads", "RotatingContext"]

log = get_logger(__name__)

_NO_PAIR = KeyPair(b"", b"")

# Called after each reload of a file of authorities with the result and the reason.
CaReloads = Callable[[str, str], None]


class RotatingContext:
    """Returns the TLS context for the current key pair."""

    def __init__(
        self, options: TlsOptions, ca_file: FileText | None, on_ca_reload: CaReloads | None = None
    ) -> None:
        """Read authorities from the file, if one is given, otherwise from the options."""
        self._options, self._ca_file = options, ca_file
        self._on_ca_reload = on_ca_reload
        self._ca = options.ca
        self._looks = 0
        self._made: tuple[KeyPair | None, ssl.SSLContext] | None = None
        self._refused = _NO_PAIR

    def current(self, pair: KeyPair | None) -> ssl.SSLContext:
        """Return the current context.

        Raises ConfigError or TransportError if there never was a valid one.
        """
        if self._ca_file is not None:
            self._reload_if_changed(self._ca_file)
        # Equal pairs are mostly the same object, so this is quick.
        if self._made is not None and pair in (self._made[0], self._refused):
            return self._made[1]
        try:
            context = client_context(replace(self._options, ca=self._ca), pair)
        except ConfigError as exc:
            if self._made is None:
                raise
            log.error("Unable to rotate credentials", exc=exc)
            self._refused = pair or _NO_PAIR
            return self._made[1]
        self._made = (pair, context)
        return context

    def _reload_if_changed(self, file: FileText) -> None:
        ca = file.read()
        if file.looks == self._looks:
            return
        is_first = self._looks == 0
        self._looks = file.looks
        if is_first:
            self._ca = ca
            return
        result, reason = self._check_authorities(file, ca)
        if reason == "updated":
            self._ca, self._made, self._refused = ca, None, _NO_PAIR
        elif result == "failure":
            log.error("Unable to rotate authorities", path=str(file.path), reason=reason)
        if self._on_ca_reload is not None:
            self._on_ca_reload(result, reason)

    def _check_authorities(self, file: FileText, ca: bytes) -> tuple[str, str]:
        if file.is_stale:
            return "failure", "read_error"
        if not ca.strip():
            # An empty bundle would mean the authorities of the system.
            return "failure", "empty"
        if ca == self._ca:
            return "success", "unchanged"
        try:
            client_context(TlsOptions(ca), None)
        except ConfigError:
            return "failure", "ca_parse_error"
        return "success", "updated"
