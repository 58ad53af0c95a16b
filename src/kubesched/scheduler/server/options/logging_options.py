"""Validation of the logging options, and the log settings (docs/reference/01 §11.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesched.foundation.util.log_output import LogSettings
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalid_duration,
    raise_all,
)
from kubesched.scheduler.server.options.command_line import LoggingOptions
from kubesched.scheduler.server.options.observability_flags import DEFAULT_LOG_FORMAT

__all__ = ["log_settings", "validate_logging"]

_JSON: Final = "json"
_ALPHA: Final = "LoggingAlphaOptions"
_BETA: Final = "LoggingBetaOptions"


def validate_logging(options: LoggingOptions, gates: FeatureGates) -> None:
    """Raise a ConfigError that names everything wrong with the options."""
    raise_all(_errors(options, gates))


def log_settings(options: LoggingOptions) -> LogSettings:
    """Turn valid options into settings."""
    is_json = options.format == _JSON
    buffer = options.json_info_buffer_size if is_json else options.text_info_buffer_size
    return LogSettings(
        is_json=is_json,
        verbosity=options.verbosity,
        modules=options.modules,
        split_streams=options.json_split_stream if is_json else options.text_split_stream,
        info_buffer_bytes=buffer.value,
    )


def _errors(options: LoggingOptions, gates: FeatureGates) -> Iterator[FieldError]:
    if options.format not in (DEFAULT_LOG_FORMAT, _JSON):
        yield invalid("format", options.format, "Unsupported log format")
    elif options.format == _JSON and not gates.enabled(_BETA):
        yield forbidden("format", f"Log format {options.format} is disabled, see {_BETA} feature")
    if options.flush_frequency_ns <= 0:
        yield invalid_duration(
            "flushFrequency", options.flush_frequency_ns, "Must be greater than zero"
        )
    if options.modules and options.format != DEFAULT_LOG_FORMAT:
        yield forbidden("vmodule", "Only supported for text log format")
    if gates.enabled(_ALPHA):
        return
    is_disabled = f"Feature {_ALPHA} is disabled"
    for path, is_used in (
        ("options.text.splitStream", options.text_split_stream),
        ("options.text.infoBufferSize", options.text_info_buffer_size.value != 0),
        ("options.json.splitStream", options.json_split_stream),
        ("options.json.infoBufferSize", options.json_info_buffer_size.value != 0),
    ):
        if is_used:
            yield forbidden(path, is_disabled)
