"""Invalid options, and settings that cannot be applied.

docs/reference/01 §11.2, §12.
"""

from __future__ import annotations

import errno
import os

import pytest

from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.log_output import LogSettings
from kubesched.scheduler.config import DEFAULT_FEATURE_GATES, parse_feature_gates
from kubesched.scheduler.server.options.command_line import (
    Options,
    options_from_flags,
    parse_command_line,
)
from kubesched.scheduler.server.options.logging_options import log_settings, validate_logging
from kubesched.scheduler.server.options.option_validation import validate_options
from kubesched.scheduler.server.options.process_config import (
    ProcessConfig,
    check_leader_election,
    feature_gates_of,
    process_config,
)

FILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def options(*argv: str) -> Options:
    return options_from_flags(parse_command_line(argv))


class Files(dict[str, str]):
    def read(self, path: str) -> bytes:
        if path not in self:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self[path].encode()


def validate(*argv: str, **files: str) -> None:
    read = options(*argv)
    version, gates = feature_gates_of(read)
    validate_options(read, version, gates, Files(files).read)


HIDDEN = (
    'metrics.showHiddenMetricsForVersion: Invalid value: "1.34": must be omitted or have the '
    "value '1.35'; only the previous minor version is allowed"
)
OPTIONS = {
    "a port below zero": (
        ["--secure-port=-1"],
        "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port",
    ),
    "a port that is too large": (
        ["--secure-port=65536"],
        "--secure-port 65536 must be between 1 and 65535, inclusive. "
        "It cannot be turned off with 0",
    ),
    "a blank header": (
        ["--requestheader-username-headers=a, ,b"],
        'empty value in "requestheader-username-headers"',
    ),
    "headers for the UID without the usual one": (
        ["--requestheader-uid-headers=my-uid"],
        "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header "
        "- API aggregation will not work",
    ),
    "hidden metrics of an older version": (["--show-hidden-metrics-for-version=1.34"], HIDDEN),
    "a metric that cannot exist": (
        ["--disabled-metrics=a_b,c-d"],
        'metrics.disabledMetrics: Invalid value: ["a_b","c-d"]: must be fully qualified metric '
        'names matching "^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "c-d"',
    ),
    "a label without its metric": (
        ["--allow-metric-labels=label=a"],
        'metrics.allowListMapping: Invalid value: {"label":"a"}: must have keys with format '
        '`metricName,labelName` where metricName matches "[a-zA-Z_:][a-zA-Z0-9_:]*" and '
        'labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"',
    ),
    "a file of labels that is missing": (
        ["--allow-metric-labels-manifest=nope"],
        'metrics.allowListMappingManifest: Invalid value: "nope": failed to read allow list '
        "manifest: open nope: no such file or directory",
    ),
    "a file of labels that holds something else": (
        ["--allow-metric-labels-manifest=list"],
        'metrics.allowListMappingManifest: Invalid value: "list": failed to parse allow list '
        "manifest: not a map from text to text",
    ),
    "labels given twice": (
        ["--allow-metric-labels=m,l=a", "--allow-metric-labels-manifest=labels"],
        'metrics: Invalid value: {"allowListMapping":{"m,l":"a"},'
        '"allowListMappingManifest":"labels"}: '
        "cannot specify both allowListMapping and allowListMappingManifest",
    ),
    "a version that cannot be emulated": (
        ["--emulated-version=1.37"],
        "emulation version 1.37 is not between [1.33, 1.36.0]",
    ),
    "everything at once": (
        ["--secure-port=-1", "--show-hidden-metrics-for-version=1.34", "--emulated-version=1.37"],
        "[emulation version 1.37 is not between [1.33, 1.36.0], "
        "--secure-port -1 must be between 0 and 65535, inclusive. "
        f"0 for turning off secure port, {HIDDEN}]",
    ),
}


@pytest.mark.parametrize(("argv", "want"), OPTIONS.values(), ids=OPTIONS)
def test_options_that_make_no_sense(argv: list[str], want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(*argv, list="[]", labels='"m,l": "a,b"')
    assert str(caught.value) == want


def test_options_that_make_sense() -> None:
    validate(
        "--secure-port=0",
        "--requestheader-uid-headers=my-uid,x-remote-UID",
        "--show-hidden-metrics-for-version=1.35",
        "--allow-metric-labels-manifest=labels",
        labels='"m,l": "a,b"',
    )


LOGGING = {
    "an unknown form": (
        ["--logging-format=xml"],
        'format: Invalid value: "xml": Unsupported log format',
    ),
    "no time between flushes": (
        ["--log-flush-frequency=0"],
        'flushFrequency: Invalid value: "0s": Must be greater than zero',
    ),
    "levels of modules in JSON": (
        ["--logging-format=json", "--vmodule=a=1"],
        "vmodule: Forbidden: Only supported for text log format",
    ),
    "alpha options": (
        ["--log-text-split-stream", "--log-json-info-buffer-size=1Ki"],
        "[options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled, "
        "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled]",
    ),
}


@pytest.mark.parametrize(("argv", "want"), LOGGING.values(), ids=LOGGING)
def test_logging_that_is_refused(argv: list[str], want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_logging(options(*argv).logging, DEFAULT_FEATURE_GATES)
    assert str(caught.value) == want


def test_json_lines_are_a_beta_feature() -> None:
    gates = parse_feature_gates(["LoggingBetaOptions=false"])
    with pytest.raises(ConfigError) as caught:
        validate_logging(options("--logging-format=json").logging, gates)
    assert str(caught.value) == (
        "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"
    )


def test_logging_becomes_settings() -> None:
    gates = parse_feature_gates(["LoggingAlphaOptions=true"])
    asked = options(
        "--logging-format=json",
        "-v=3",
        "--log-json-split-stream",
        "--log-json-info-buffer-size=1Ki",
        "--log-text-info-buffer-size=5",
    ).logging
    validate_logging(asked, gates)
    assert log_settings(asked) == LogSettings(
        is_json=True, verbosity=3, split_streams=True, info_buffer_bytes=1024
    )


def build(*argv: str, file: str | None = None, **files: str) -> ProcessConfig:
    known = Files(kube="kind: Config", **files)
    if file is not None:
        known["file"] = file
        argv = ("--config=file", *argv)
    read = options("--secure-port=0", "--master=m", *argv)
    _, gates = feature_gates_of(read)
    return process_config(read, gates, read_file=known.read, environment={})


def test_flags_go_over_the_file_where_they_may() -> None:
    config = build("--leader-elect=false", file=FILE)
    assert not config.configuration.leader_election.leader_elect
    without = build("--kubeconfig=kube", "--pod-max-in-unschedulable-pods-duration=90s")
    assert without.configuration.client_connection.kubeconfig == "kube"
    assert without.options.pod_max_in_unschedulable_pods_ns == 90 * SECOND
    assert without.cluster.kubeconfig == "kube"
    assert without.cluster.master == "m"


# Flags that the reference ignores, and the field that takes their place.
IGNORED = {
    "--kubeconfig=kube": "clientConnection.kubeconfig",
    "--kube-api-content-type=application/json": "clientConnection.contentType",
    "--kube-api-qps=7": "clientConnection.qps",
    "--kube-api-burst=7": "clientConnection.burst",
    "--profiling=false": "enableProfiling",
    "--contention-profiling=false": "enableContentionProfiling",
}


@pytest.mark.parametrize(("flag", "field"), IGNORED.items(), ids=IGNORED)
def test_a_flag_that_the_file_overrides_is_ignored_and_logged(
    flag: str, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    with_flag = build(flag, file=FILE)
    assert with_flag.configuration == build(file=FILE).configuration
    (record,) = [each for each in caplog.records if "no effect" in each.getMessage()]
    assert flag.partition("=")[0] in record.getMessage()
    assert field in record.getMessage()


def test_an_ignored_kubeconfig_does_not_lead_to_another_cluster() -> None:
    def build_with(kubeconfig: str) -> ProcessConfig:
        known = Files(kube="kind: Config", file=FILE)
        read = options("--secure-port=0", "--config=file", "--kubeconfig=kube")
        _, gates = feature_gates_of(read)
        environment = {"KUBECONFIG": kubeconfig}
        return process_config(read, gates, read_file=known.read, environment=environment)

    assert build_with("kube").cluster.environment == {"KUBECONFIG": "kube"}
    with pytest.raises(ConfigError, match=r"set clientConnection\.kubeconfig in file"):
        build_with("other")
    with pytest.raises(ConfigError, match="no configuration has been provided") as error:
        build_with("")
    assert "clientConnection.kubeconfig" in error.value.__notes__[0]


def test_a_flag_that_agrees_with_the_file_is_accepted() -> None:
    """As kubeadm writes it: the kubeconfig in a flag, and in the file that the user has added."""
    text = FILE + "clientConnection: {kubeconfig: kube, qps: 7}\n"
    flags = ("--kubeconfig=kube", "--kube-api-qps=7.0", "--profiling", "--kube-api-burst=100")
    assert build(*flags, file=text).cluster.kubeconfig == "kube"


CONFIGS = {
    "a configuration file that is missing": (
        ["--config=/x"],
        "open /x: no such file or directory",
    ),
    "a kubeconfig that is missing": (
        ["--kubeconfig=/x"],
        "stat /x: no such file or directory",
    ),
    "a kubeconfig that is no YAML": (
        ["--kubeconfig=broken"],
        'error loading config file "broken": yaml: line 1: did not find expected node content',
    ),
    "a certificate without its key": (
        ["--secure-port=1", "--tls-cert-file=kube"],
        "missing filename for serving key",
    ),
    "a certificate that is missing": (
        ["--secure-port=1", "--tls-cert-file=/x", "--tls-private-key-file=kube"],
        "open /x: no such file or directory",
    ),
    "a certificate for some names that is missing": (
        ["--secure-port=1", "--tls-sni-cert-key=kube,/x"],
        "failed to load SNI cert and key: open /x: no such file or directory",
    ),
    "an unknown cipher suite": (
        ["--secure-port=1", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,ROT13"],
        "Cipher suite ROT13 not supported or doesn't exist",
    ),
    "an unknown version of TLS": (
        ["--secure-port=1", "--tls-min-version=VersionTLS14"],
        'unknown tls version "VersionTLS14"',
    ),
    "a curve out of range": (
        ["--secure-port=1", "--tls-curve-preferences=0"],
        "curve preference 0 is out of range (must be 1-65535)",
    ),
    "a curve named twice": (
        ["--secure-port=1", "--tls-curve-preferences=29,29"],
        "duplicate curve preference 29",
    ),
    "an unknown curve": (
        ["--secure-port=1", "--tls-curve-preferences=1"],
        "curve preference 1 is not supported by the current Go version",
    ),
    "a star inside a path": (
        ["--secure-port=1", "--authorization-always-allow-paths=/met*rics"],
        'only trailing * allowed in "/met*rics"',
    ),
    "no burst": (
        ["--kube-api-burst=0"],
        "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to "
        "greater than 0",
    ),
    "a lock of old": (
        ["--leader-elect-resource-lock=endpoints"],
        "couldn't create resource lock: endpoints lock is removed, migrate to leases",
    ),
    "an unknown lock": (
        ["--leader-elect-resource-lock=door"],
        "couldn't create resource lock: Invalid lock-type door",
    ),
}


@pytest.mark.parametrize(("argv", "want"), CONFIGS.values(), ids=CONFIGS)
def test_the_first_invalid_input_is_reported(argv: list[str], want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(*argv, broken="[")
    assert str(caught.value) == want


def test_serving_settings_do_not_matter_without_a_port() -> None:
    assert build("--tls-min-version=VersionTLS14", "--tls-cert-file=/x")


def test_without_a_cluster_there_is_nothing_to_run() -> None:
    read = options("--secure-port=0")
    with pytest.raises(ConfigError) as caught:
        process_config(read, DEFAULT_FEATURE_GATES, read_file=Files().read, environment={})
    assert str(caught.value) == (
        "invalid configuration: no configuration has been provided, "
        "try setting KUBERNETES_MASTER environment variable"
    )


def test_inside_a_cluster_no_api_server_has_to_be_named() -> None:
    files = Files({"/var/run/secrets/kubernetes.io/serviceaccount/token": "t"})
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    config = process_config(
        options("--secure-port=0"),
        DEFAULT_FEATURE_GATES,
        read_file=files.read,
        environment=environment,
    )
    assert config.cluster.in_cluster


ELECTIONS = {
    "a lease no longer than its renewal": (
        ["--leader-elect-lease-duration=5s"],
        "leaseDuration must be greater than renewDeadline",
    ),
    "a renewal with no time to retry": (
        ["--leader-elect-renew-deadline=2400ms"],
        "renewDeadline must be greater than retryPeriod*JitterFactor",
    ),
    "no time between attempts": (
        ["--leader-elect-retry-period=0s"],
        "retryPeriod must be greater than zero",
    ),
}


@pytest.mark.parametrize(("argv", "want"), ELECTIONS.values(), ids=ELECTIONS)
def test_timings_with_which_no_replica_could_lead(argv: list[str], want: str) -> None:
    config = build(*argv)
    with pytest.raises(ConfigError) as caught:
        check_leader_election(config)
    assert str(caught.value) == f"couldn't create leader elector: {want}"
    check_leader_election(build(*argv, "--leader-elect=false"))


def test_timings_are_checked_with_a_file() -> None:
    with pytest.raises(ConfigError, match=r"^leaderElection\.leaseDuration: Invalid value"):
        build("--leader-elect-lease-duration=5s", file=FILE)
