"""Credentials from a command (`users[].user.exec` of a kubeconfig).

The command runs when no credential is cached, when the cached one has expired, and after the server
refused it. At most one run is in flight. Its standard error is passed through to the user.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from kubesched.api.base import ApiStruct
from kubesched.api.time import parse_time
from kubesched.foundation.client.transport import TransportError
from kubesched.foundation.metrics.client_metrics import ClientMetrics
from kubesched.foundation.util.clock import SECOND, Clock

__all__ = ["ExecCredential", "ExecPlugin", "ExecSettings"]


class ExecSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the command in a kubeconfig."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None  # passed to the command if `provideClusterInfo` is set


class _Status(ApiStruct):
    expiration_timestamp: str | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Printed(ApiStruct):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecCredential(msgspec.Struct, frozen=True):
    """A credential of a command. Without an expiry it is used until the server refuses it."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires_ns: int | None = None


class ExecPlugin:
    """Runs the command and caches its credential."""

    def __init__(
        self, settings: ExecSettings, clock: Clock, metrics: ClientMetrics | None = None
    ) -> None:
        self._settings, self._clock = settings, clock
        self.metrics = metrics
        self._kept: ExecCredential | None = None
        self._was_refused = False
        self._issued_ns = 0
        self._certificate_ends_ns: int | None = None
        if metrics is not None:
            metrics.exec_certificate_ttls.append(self._certificate_ttl_s)
        self._running = asyncio.Lock()

    async def credential(self) -> ExecCredential:
        """Return a valid credential. Raises TransportError of kind `credentials`."""
        async with self._running:
            if self._kept is None or self._was_refused or self._is_over(self._kept):
                fresh = await self._run()
                self._note_rotation(self._kept, fresh)
                self._kept, self._issued_ns = fresh, self._clock.now_ns()
                self._was_refused = False
            return self._kept

    def forget(self) -> None:
        """Evict the credential, so that the next use runs the command."""
        self._was_refused = True

    def _is_over(self, kept: ExecCredential) -> bool:
        return kept.expires_ns is not None and self._clock.now_ns() >= kept.expires_ns

    async def _run(self) -> ExecCredential:
        settings = self._settings
        try:
            process = await asyncio.create_subprocess_exec(
                settings.command,
                *settings.args,
                env={**os.environ, **settings.env, "KUBERNETES_EXEC_INFO": self._question()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=sys.__stderr__,
            )
        except OSError as exc:
            self._count("1", "plugin_not_found_error")
            hint = f"\n{settings.install_hint}" if settings.install_hint else ""
            what = "not found" if isinstance(exc, FileNotFoundError) else exc.strerror
            raise _failure(f"executable {settings.command} {what}{hint}") from exc
        try:
            printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            self._count(str(process.returncode), "plugin_execution_error")
            raise _failure(
                f"executable {settings.command} failed with exit code {process.returncode}"
            )
        credential = self._read(printed)
        self._count("0", "no_error")
        return credential

    def _question(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self._settings.cluster is not None:
            spec["cluster"] = self._settings.cluster
        question = {
            "kind": "ExecCredential",
            "apiVersion": self._settings.api_version,
            "spec": spec,
        }
        return msgspec.json.encode(question).decode()

    def _read(self, printed: bytes) -> ExecCredential:
        try:
            answer = msgspec.json.decode(printed, type=_Printed)
        except msgspec.DecodeError as exc:
            raise _failure(f"decoding stdout: {exc}") from exc
        if answer.api_version != self._settings.api_version:
            raise _failure(
                f"plugin is configured to use API version {self._settings.api_version}, plugin "
                f"returned version {answer.api_version}"
            )
        status = answer.status
        if status is None:
            raise _failure("plugin didn't return a status field")
        if not status.token and not (status.client_certificate_data and status.client_key_data):
            raise _failure("plugin didn't return a token or cert/key pair")
        expires_ns = None
        if status.expiration_timestamp is not None:
            try:
                expires_ns = parse_time(status.expiration_timestamp)
            except ValueError as exc:
                raise _failure(f"decoding stdout: {exc}") from exc
        return ExecCredential(
            status.token,
            status.client_certificate_data.encode(),
            status.client_key_data.encode(),
            expires_ns,
        )

    def _note_rotation(self, old: ExecCredential | None, new: ExecCredential) -> None:
        if self.metrics is None or not new.certificate:
            return
        self._certificate_ends_ns = _certificate_end_ns(new.certificate)
        if old is not None and old.certificate and old.certificate != new.certificate:
            age_ns = self._clock.now_ns() - self._issued_ns
            self.metrics.exec_plugin_certificate_rotation_age.observe_ns(age_ns)

    def _certificate_ttl_s(self) -> float:
        if self._certificate_ends_ns is None:
            return math.inf
        return (self._certificate_ends_ns - self._clock.now_ns()) / SECOND

    def _count(self, code: str, status: str) -> None:
        if self.metrics is not None:
            self.metrics.exec_plugin_call_total.labels(code, status).inc()


def _certificate_end_ns(pem: bytes) -> int | None:
    # Imported here: the import is slow, and few plugins return certificates.
    from cryptography import x509

    try:
        end = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except ValueError:
        return None  # the TLS layer reports the error
    return int(end.timestamp()) * SECOND


def _failure(message: str) -> TransportError:
    return TransportError(f"getting credentials: exec: {message}", "credentials")
