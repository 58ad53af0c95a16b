"""The options of a scheduler process, parsed from its command line.

docs/reference/01 §11, 02 §2.1, §3.1. The first of the steps command line → `Options` → `Config` →
completed → scheduler. Options are parsed here; `option_validation` validates them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import msgspec

from kubesched.api.quantity import Quantity
from kubesched.foundation.util.flag_parsing import FlagError, ParsedFlags, UnknownFlagError, parse
from kubesched.foundation.util.go_format import format_slice, quote
from kubesched.scheduler.server.options.flag_kinds import NamedCertKey
from kubesched.scheduler.server.options.flags import GROUPS, REMOVED_FLAGS, all_flags

__all__ = [
    "AuthenticationOptions",
    "AuthorizationOptions",
    "LoggingOptions",
    "MetricsOptions",
    "Options",
    "SecureServingOptions",
    "UnwantedArgumentsError",
    "check_arguments",
    "options_from_flags",
    "parse_command_line",
]

COMMAND = "kube-scheduler"


class UnwantedArgumentsError(FlagError):
    """Arguments that are not flags."""


class SecureServingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the process's own endpoint is served; port 0: not at all."""

    bind_address: str
    port: int
    disable_http2: bool
    http2_max_streams_per_connection: int
    cert_dir: str
    cert_file: str
    key_file: str
    sni_certificates: tuple[NamedCertKey, ...]
    min_version: str
    cipher_suites: tuple[str, ...]
    curve_preferences: tuple[int, ...]
    permit_port_sharing: bool
    permit_address_sharing: bool


class AuthenticationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the endpoint authenticates requests."""

    kubeconfig: str
    token_cache_ttl_ns: int
    skip_lookup: bool
    tolerate_lookup_failure: bool
    client_ca_file: str
    request_header_client_ca_file: str
    request_header_allowed_names: tuple[str, ...]
    username_headers: tuple[str, ...]
    uid_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_header_prefixes: tuple[str, ...]


class AuthorizationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the endpoint authorizes requests."""

    kubeconfig: str
    allow_cache_ttl_ns: int
    deny_cache_ttl_ns: int
    always_allow_paths: tuple[str, ...]


class MetricsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics that are exposed, and the permitted values of their labels."""

    show_hidden_for_version: str
    disabled: tuple[str, ...]
    allowed_label_values: Mapping[str, str]  # "metric,label" -> "v1,v2"
    allowed_label_values_file: str


class LoggingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The format, the verbosity and the destination of log lines."""

    format: str
    flush_frequency_ns: int
    verbosity: int
    modules: tuple[tuple[str, int], ...]
    text_split_stream: bool
    text_info_buffer_size: Quantity
    json_split_stream: bool
    json_info_buffer_size: Quantity


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All options of the command line."""

    config_file: str
    write_config_to: str
    master: str
    plugins: tuple[str, ...]
    verify_engine: bool
    watch_config: bool
    trace_endpoint: str
    trace_ratio: float
    explain_events: bool
    dashboard: bool
    shadow: bool
    shadow_window_ns: int
    shadow_ledger: str
    record: str
    record_size: int
    secure_serving: SecureServingOptions
    authentication: AuthenticationOptions
    authorization: AuthorizationOptions
    metrics: MetricsOptions
    logging: LoggingOptions
    feature_gates: tuple[str, ...]
    emulated_version: tuple[str, ...]
    min_compatibility_version: tuple[str, ...]
    pod_max_in_unschedulable_pods_ns: int
    version: str
    # Flags that change the configuration, if they were given: name to text.
    configuration_flags: Mapping[str, str]


def parse_command_line(argv: Sequence[str]) -> ParsedFlags:
    """Read the flags of the scheduler.

    Raises:
        FlagError: a flag is invalid; with a note if it is of an earlier release.
    """
    try:
        return parse(GROUPS, argv)
    except UnknownFlagError as exc:
        name = exc.name.replace("_", "-")
        known = [flag.name for flag in all_flags()]
        if successor := REMOVED_FLAGS.get(name):
            exc.add_note(f"--{exc.name} was removed: {successor}")
        elif near := difflib.get_close_matches(name, known, n=1):
            exc.add_note(f"did you mean --{near[0]}?")
        raise


def check_arguments(flags: ParsedFlags) -> None:
    """Refuse arguments that are not flags; empty ones are ignored."""
    if any(flags.arguments):
        raise UnwantedArgumentsError(
            f"{quote(COMMAND)} does not take any arguments, "
            f"got {format_slice(map(quote, flags.arguments))}"
        )


def options_from_flags(flags: ParsedFlags) -> Options:
    """Sort the flags into options."""
    return Options(
        config_file=flags["config"],
        write_config_to=flags["write-config-to"],
        master=flags["master"],
        plugins=flags["plugin"],
        verify_engine=flags["verify-engine"],
        watch_config=flags["watch-config"],
        trace_endpoint=flags["trace-endpoint"],
        trace_ratio=flags["trace-ratio"],
        explain_events=flags["explain-events"],
        dashboard=flags["dashboard"],
        shadow=flags["shadow"],
        shadow_window_ns=flags["shadow-window"],
        shadow_ledger=flags["shadow-ledger"],
        record=flags["record"],
        record_size=flags["record-size"],
        secure_serving=_secure_serving(flags),
        authentication=_authentication(flags),
        authorization=_authorization(flags),
        metrics=_metrics(flags),
        logging=_logging(flags),
        feature_gates=tuple(
            f"{component}:{setting}" if component else setting
            for component, setting in flags["feature-gates"]
        ),
        emulated_version=flags["emulated-version"],
        min_compatibility_version=flags["min-compatibility-version"],
        pod_max_in_unschedulable_pods_ns=flags["pod-max-in-unschedulable-pods-duration"],
        version=flags["version"],
        configuration_flags=flags.given,
    )


def _secure_serving(flags: ParsedFlags) -> SecureServingOptions:
    return SecureServingOptions(
        bind_address=flags["bind-address"],
        port=flags["secure-port"],
        disable_http2=flags["disable-http2-serving"],
        http2_max_streams_per_connection=flags["http2-max-streams-per-connection"],
        cert_dir=flags["cert-dir"],
        cert_file=flags["tls-cert-file"],
        key_file=flags["tls-private-key-file"],
        sni_certificates=flags["tls-sni-cert-key"],
        min_version=flags["tls-min-version"],
        cipher_suites=flags["tls-cipher-suites"],
        curve_preferences=flags["tls-curve-preferences"],
        permit_port_sharing=flags["permit-port-sharing"],
        permit_address_sharing=flags["permit-address-sharing"],
    )


def _authentication(flags: ParsedFlags) -> AuthenticationOptions:
    return AuthenticationOptions(
        kubeconfig=flags["authentication-kubeconfig"],
        token_cache_ttl_ns=flags["authentication-token-webhook-cache-ttl"],
        skip_lookup=flags["authentication-skip-lookup"],
        tolerate_lookup_failure=flags["authentication-tolerate-lookup-failure"],
        client_ca_file=flags["client-ca-file"],
        request_header_client_ca_file=flags["requestheader-client-ca-file"],
        request_header_allowed_names=flags["requestheader-allowed-names"],
        username_headers=flags["requestheader-username-headers"],
        uid_headers=flags["requestheader-uid-headers"],
        group_headers=flags["requestheader-group-headers"],
        extra_header_prefixes=flags["requestheader-extra-headers-prefix"],
    )


def _authorization(flags: ParsedFlags) -> AuthorizationOptions:
    return AuthorizationOptions(
        kubeconfig=flags["authorization-kubeconfig"],
        allow_cache_ttl_ns=flags["authorization-webhook-cache-authorized-ttl"],
        deny_cache_ttl_ns=flags["authorization-webhook-cache-unauthorized-ttl"],
        always_allow_paths=flags["authorization-always-allow-paths"],
    )


def _metrics(flags: ParsedFlags) -> MetricsOptions:
    return MetricsOptions(
        show_hidden_for_version=flags["show-hidden-metrics-for-version"],
        disabled=flags["disabled-metrics"],
        allowed_label_values=flags["allow-metric-labels"],
        allowed_label_values_file=flags["allow-metric-labels-manifest"],
    )


def _logging(flags: ParsedFlags) -> LoggingOptions:
    return LoggingOptions(
        format=flags["logging-format"],
        flush_frequency_ns=flags["log-flush-frequency"],
        verbosity=flags["v"],
        modules=flags["vmodule"],
        text_split_stream=flags["log-text-split-stream"],
        text_info_buffer_size=flags["log-text-info-buffer-size"],
        json_split_stream=flags["log-json-split-stream"],
        json_info_buffer_size=flags["log-json-info-buffer-size"],
    )
