"""Who we are towards an API server, also when that changes while we run.

Tokens and certificates in files are read again now and then, because they are rotated under us;
an exec plugin is asked again when what it gave has expired, or was refused.
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
    """What to send with a request: headers, and a certificate for the handshake."""

    headers: Mapping[str, str] = {}
    pair: KeyPair | None = None


class Credentials(Protocol):
    async def current(self) -> Credential:
        """Raises TransportError of kind `credentials`."""
        ...

    def refused(self) -> None:
        """Note that the server did not accept the current ones."""
        ...


class FixedCredentials:
    """The same ones for ever."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    def refused(self) -> None:
        pass


ANONYMOUS = FixedCredentials(Credential())


class FileText:
    """The content of a small file, read again at most every ten seconds.

    A file that cannot be read any more keeps the content it had: rotation may take a moment.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._content: bytes | None = None
        self._read_ns = 0
        # How often the file itself was read, or tried to be.
        self.looks = 0
        # Whether it could not be the last time.
        self.is_stale = False

    def read(self) -> bytes:
        """Raises TransportError if the file could never be read."""
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
        """Read again at the next use."""
        self._read_ns -= _READ_AGAIN_NS


class UserCredentials:
    """A user of a kubeconfig, or a service account: any mix of what they may have."""

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
