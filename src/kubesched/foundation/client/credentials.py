"""The credentials that a client sends to an API server, with rotation.

Tokens and certificates in files are reread periodically, because they may be rotated while the
process runs. An exec plugin runs again when its credentials expire or the server rejects them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from kubesched.foundation.client.exec_plugin import ExecPlugin
from kubesched.foundation.client.tls import KeyPair
from kubesched.foundation.client.transport import TransportError
from kubesched.foundation.util.bounded_file import MOST_SETTINGS_BYTES, read_bounded
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.logging import get_logger

__all__ = [
    "ANONYMOUS",
    "Credential",
    "Credentials",
    "FileText",
    "FixedCredentials",
    "UserCredentials",
]

log = get_logger(__name__)

_READ_AGAIN_NS = 10 * SECOND


class Credential(msgspec.Struct, frozen=True):
    """The headers of a request, and the certificate for the TLS handshake."""

    headers: Mapping[str, str] = {}
    pair: KeyPair | None = None


class Credentials(Protocol):
    async def current(self) -> Credential:
        """Return valid credentials. Raises TransportError of kind `credentials`."""
        ...

    def refused(self) -> None:
        """Report that the server refused the current credentials."""
        ...


class FixedCredentials:
    """Credentials that never change."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    def refused(self) -> None:
        pass


ANONYMOUS = FixedCredentials(Credential())


class FileText:
    """The content of a small file, reread at most every ten seconds.

    If the file cannot be read, the last content is used, because a rotation may take a moment.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._content: bytes | None = None
        self._read_ns = 0
        # The number of attempts to read the file.
        self.looks = 0
        # Whether the last attempt failed.
        self.is_stale = False

    def read(self) -> bytes:
        """Return the content. Raises TransportError if the file could never be read."""
        now_ns = self._clock.monotonic_ns()
        if self._content is not None and now_ns - self._read_ns < _READ_AGAIN_NS:
            return self._content
        self._read_ns = now_ns
        self.looks += 1
        try:
            self._content = read_bounded(self.path, MOST_SETTINGS_BYTES)
            self.is_stale = False
        except OSError as exc:
            self.is_stale = True
            if self._content is None:
                raise TransportError(
                    f"getting credentials: {self.path}: {exc.strerror or exc}", "credentials"
                ) from exc
            log.error("Unable to rotate credentials", exc=exc, path=str(self.path))
        return self._content

    def expire(self) -> None:
        """Reread the file at the next use."""
        self._read_ns -= _READ_AGAIN_NS


class UserCredentials:
    """The credentials of a user of a kubeconfig or of a service account, in any combination."""

    def __init__(
        self,
        *,
        token: str = "",
        token_file: FileText | None = None,
        username: str = "",
        password: str = "",
        certificate: bytes | FileText = b"",
        key: bytes | FileText = b"",
        exec_plugin: ExecPlugin | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._token, self._token_file = token, token_file
        self._basic = _basic(username, password) if username or password else ""
        self._certificate, self._key = certificate, key
        self._exec_plugin = exec_plugin
        self._headers = dict(headers or {})
        self._last: tuple[tuple[bytes | str, ...], Credential] | None = None

    async def current(self) -> Credential:
        token, certificate, key = self._token, _read(self._certificate), _read(self._key)
        if self._token_file is not None:
            token = self._token_file.read().decode(errors="replace").strip()
        if self._exec_plugin is not None:
            issued = await self._exec_plugin.credential()
            token = token or issued.token
            certificate, key = certificate or issued.certificate, key or issued.key
        parts = (token, certificate, key)
        if self._last is None or self._last[0] != parts:
            self._last = parts, self._assemble(token, certificate, key)
        return self._last[1]

    def refused(self) -> None:
        if self._exec_plugin is not None:
            self._exec_plugin.forget()
        for source in (self._token_file, self._certificate, self._key):
            if isinstance(source, FileText):
                source.expire()

    def _assemble(self, token: str, certificate: bytes, key: bytes) -> Credential:
        headers = dict(self._headers)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif self._basic:
            headers["Authorization"] = self._basic
        return Credential(headers, KeyPair(certificate, key) if certificate else None)


def _read(source: bytes | FileText) -> bytes:
    return source.read() if isinstance(source, FileText) else source


def _basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
