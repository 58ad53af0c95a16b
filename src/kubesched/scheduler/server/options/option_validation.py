"""Validation of options before they are used (docs/reference/01 §13 step 5.2).

All errors are reported together. The configuration file and TLS settings are not validated here
but when they are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import quote
from kubesched.scheduler.config import default_configuration, validate_configuration
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.field_errors import FieldError, InvalidConfigurationError, invalid
from kubesched.scheduler.config.versions import BINARY_VERSION, EffectiveVersion
from kubesched.scheduler.config.yaml_text import read_yaml
from kubesched.scheduler.server.options.command_line import (
    AuthenticationOptions,
    MetricsOptions,
    Options,
    SecureServingOptions,
)

__all__ = ["ReadFile", "aggregate", "open_error", "validate_options"]

# Returns the content of a file, or raises OSError.
ReadFile = Callable[[str], bytes]

_MAX_PORT: Final = 65535
_METRIC: Final = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = "[a-zA-Z_][a-zA-Z0-9_]*"


def validate_options(
    options: Options, version: EffectiveVersion, gates: FeatureGates, read_file: ReadFile
) -> None:
    """Raise a ConfigError that names everything wrong with the options."""
    aggregate(
        (
            *version.problems(),
            *_default_configuration_problems(gates),
            *_reload_problems(options),
            *_trace_problems(options),
            *_serving_problems(options.secure_serving),
            *_authentication_problems(options.authentication),
            *map(str, _metrics_errors(options.metrics, read_file)),
        )
    )


def _reload_problems(options: Options) -> Iterator[str]:
    if options.watch_config and not options.config_file:
        yield "--watch-config needs --config: there is no file to watch"


def _trace_problems(options: Options) -> Iterator[str]:
    if options.trace_endpoint and not options.trace_endpoint.startswith(("http://", "https://")):
        yield f"--trace-endpoint: {options.trace_endpoint!r} is no URL, such as http://HOST:4318"
    if not 0 <= options.trace_ratio <= 1:
        yield f"--trace-ratio: {options.trace_ratio} is not between 0 and 1"


def aggregate(problems: Iterable[str]) -> None:
    """Raise one error for all problems, without duplicates; none if there are none."""
    distinct = list(dict.fromkeys(problems))
    if distinct:
        raise ConfigError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")


def open_error(path: str, error: OSError, verb: str = "open") -> str:
    """Return the error in Go's words."""
    return f"{verb} {path}: {(error.strerror or str(error)).lower()}"


def _default_configuration_problems(gates: FeatureGates) -> Iterator[str]:
    try:
        validate_configuration(default_configuration(gates), gates=gates)
    except InvalidConfigurationError as exc:
        yield from map(str, exc.errors)


def _serving_problems(serving: SecureServingOptions) -> Iterator[str]:
    if serving.port > _MAX_PORT:
        yield (
            f"--secure-port {serving.port} must be between 1 and {_MAX_PORT}, inclusive. "
            "It cannot be turned off with 0"
        )
    elif serving.port < 0:
        yield (
            f"--secure-port {serving.port} must be between 0 and {_MAX_PORT}, inclusive. "
            "0 for turning off secure port"
        )


def _authentication_problems(authentication: AuthenticationOptions) -> Iterator[str]:
    lists = {
        "requestheader-username-headers": authentication.username_headers,
        "requestheader-uid-headers": authentication.uid_headers,
        "requestheader-group-headers": authentication.group_headers,
        "requestheader-extra-headers-prefix": authentication.extra_header_prefixes,
        "requestheader-allowed-names": authentication.request_header_allowed_names,
    }
    for flag, values in lists.items():
        if not all(value.strip() for value in values):
            yield f"empty value in {quote(flag)}"
    uid_headers = {header.lower() for header in authentication.uid_headers}
    if uid_headers and "x-remote-uid" not in uid_headers:
        yield (
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid "
            "header - API aggregation will not work"
        )


def _metrics_errors(metrics: MetricsOptions, read_file: ReadFile) -> Iterator[FieldError]:
    previous = str(BINARY_VERSION.before())
    if metrics.show_hidden_for_version not in ("", previous):
        yield invalid(
            "metrics.showHiddenMetricsForVersion",
            metrics.show_hidden_for_version,
            f"must be omitted or have the value '{previous}'; "
            "only the previous minor version is allowed",
        )
    wrong = [name for name in metrics.disabled if not re.fullmatch(_METRIC, name)]
    if wrong:
        yield invalid(
            "metrics.disabledMetrics",
            metrics.disabled,
            f"must be fully qualified metric names matching {quote(f'^{_METRIC}$')}, "
            f"got {quote(wrong[0])}",
        )
    yield from _label_errors(metrics.allowed_label_values, "metrics.allowListMapping")
    if not metrics.allowed_label_values_file:
        return
    if metrics.allowed_label_values:
        given = {
            "allowListMapping": dict(metrics.allowed_label_values),
            "allowListMappingManifest": metrics.allowed_label_values_file,
        }
        yield invalid(
            "metrics", given, "cannot specify both allowListMapping and allowListMappingManifest"
        )
    yield from _label_file_errors(metrics.allowed_label_values_file, read_file)


def _label_errors(allowed: Mapping[str, str], path: str) -> Iterator[FieldError]:
    if not all(re.fullmatch(f"{_METRIC},{_LABEL}", key) for key in allowed):
        yield invalid(
            path,
            dict(allowed),
            "must have keys with format `metricName,labelName` where metricName matches "
            f"{quote(_METRIC)} and labelName matches {quote(_LABEL)}",
        )


def _label_file_errors(file: str, read_file: ReadFile) -> Iterator[FieldError]:
    path = "metrics.allowListMappingManifest"
    try:
        allowed, repeated = read_yaml(read_file(file))
    except OSError as exc:
        yield invalid(path, file, f"failed to read allow list manifest: {open_error(file, exc)}")
        return
    except ConfigError as exc:
        yield invalid(path, file, f"failed to parse allow list manifest: {exc}")
        return
    if (
        repeated
        or not isinstance(allowed, dict | None)
        or not all(isinstance(value, str) for value in (allowed or {}).values())
    ):
        problem = repeated[0] if repeated else "not a map from text to text"
        yield invalid(path, file, f"failed to parse allow list manifest: {problem}")
        return
    wrong = list(_label_errors(allowed or {}, path))
    if wrong:
        yield invalid(path, file, f"invalid allow list mapping in manifest: [{wrong[0]}]")
