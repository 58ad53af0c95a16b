"""Validation of the serving options (docs/reference/02 §2, §4).

These checks need no socket. They apply only if a port is configured.
"""

from __future__ import annotations

from typing import Final

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import quote
from kubesched.scheduler.server.options.command_line import (
    AuthorizationOptions,
    SecureServingOptions,
)
from kubesched.scheduler.server.options.option_validation import ReadFile, open_error
from kubesched.scheduler.server.options.tls_names import (
    CIPHER_SUITES,
    CURVES,
    INSECURE_CIPHER_SUITES,
    TLS_VERSIONS,
)

__all__ = ["check_serving"]

_MAX_CURVE: Final = 65535


def check_serving(
    serving: SecureServingOptions, authorization: AuthorizationOptions, read_file: ReadFile
) -> None:
    """Raise a ConfigError for the first setting that cannot be used."""
    if serving.port == 0:
        return
    if serving.cert_file or serving.key_file:
        _check_pair(serving.cert_file, serving.key_file, read_file)
    for name in serving.cipher_suites:
        if name not in CIPHER_SUITES and name not in INSECURE_CIPHER_SUITES:
            raise ConfigError(f"Cipher suite {name} not supported or doesn't exist")
    _check_curves(serving.curve_preferences)
    if serving.min_version and serving.min_version not in TLS_VERSIONS:
        raise ConfigError(f"unknown tls version {quote(serving.min_version)}")
    for pair in serving.sni_certificates:
        try:
            _check_pair(pair.cert_file, pair.key_file, read_file)
        except ConfigError as exc:
            raise ConfigError(f"failed to load SNI cert and key: {exc}") from exc
    for path in authorization.always_allow_paths:
        if "*" in path[:-1]:
            raise ConfigError(f"only trailing * allowed in {quote(path)}")


def _check_pair(cert_file: str, key_file: str, read_file: ReadFile) -> None:
    for what, file in (("cert", cert_file), ("key", key_file)):
        if not file:
            raise ConfigError(f"missing filename for serving {what}")
    for file in (cert_file, key_file):
        try:
            read_file(file)
        except OSError as exc:
            raise ConfigError(open_error(file, exc)) from exc


def _check_curves(curves: tuple[int, ...]) -> None:
    seen: set[int] = set()
    for curve in curves:
        if not 1 <= curve <= _MAX_CURVE:
            raise ConfigError(f"curve preference {curve} is out of range (must be 1-{_MAX_CURVE})")
        if curve in seen:
            raise ConfigError(f"duplicate curve preference {curve}")
        if curve not in CURVES:
            raise ConfigError(
                f"curve preference {curve} is not supported by the current Go version"
            )
        seen.add(curve)
