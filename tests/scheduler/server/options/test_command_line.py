"""Flags of the scheduler: defaults, kinds of values, refusals.

docs/reference/01 §11; §17 rows 79, 80.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.flag_parsing import FlagError
from kubesched.scheduler.server.options.command_line import (
    Options,
    UnwantedArgumentsError,
    check_arguments,
    options_from_flags,
    parse_command_line,
)
from kubesched.scheduler.server.options.flag_kinds import NamedCertKey
from kubesched.scheduler.server.options.flags import GROUPS, REMOVED_FLAGS

NAMES = [flag.name for group in GROUPS for flag in group.flags]


def options(*argv: str) -> Options:
    return options_from_flags(parse_command_line(argv))


def test_flags_and_defaults_are_those_that_flagz_shows(goldens: Path) -> None:
    lines = (goldens / "api" / "flagz.txt").read_text().splitlines()[3:]
    recorded = dict(line.split(": ", 1) if ": " in line else (line[:-1], "") for line in lines)
    given = {  # on the command line of the recording
        "authentication-kubeconfig",
        "authorization-kubeconfig",
        "config",
        "secure-port",
        "v",
    }
    shown = parse_command_line([f"--{name}={recorded[name]}" for name in given]).texts()
    additions = {
        "record",
        "record-size",
        "dashboard",
        "plugin",
        "verify-engine",
        "explain-events",
        "watch-config",
        "trace-endpoint",
        "trace-ratio",
        "shadow",
        "shadow-window",
        "shadow-ledger",
    }
    assert {name: text for name, text in shown.items() if name not in additions} == recorded


def test_groups_are_listed_in_the_order_of_the_reference() -> None:
    assert [group.title for group in GROUPS] == [
        "misc",
        "secure serving",
        "authentication",
        "authorization",
        "deprecated",
        "leader election",
        "feature gate",
        "metrics",
        "logs",
        "global",
    ]


def test_no_flag_is_defined_twice_or_both_defined_and_removed() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert not REMOVED_FLAGS.keys() & set(NAMES)


def test_options_have_the_values_of_flags() -> None:
    read = options(
        "--bind-address=127.0.0.1",
        "--secure-port",
        "0x2710",
        "--tls-sni-cert-key=a.crt,a.key",
        "--tls-sni-cert-key=b.crt,b.key:*.example.com, example.com",
        "--tls-curve-preferences=29,23",
        "--requestheader-allowed-names=a",
        "--requestheader-allowed-names=b,c",
        "--authorization-always-allow-paths=/x*",
        "--feature-gates=A=true,kube:B=false",
        "--feature-gates=C=true",
        "--pod-max-in-unschedulable-pods-duration=90s",
        "--allow-metric-labels=m,l=a,b",
        "--plugin=a:B",
        "--plugin=c.py",
        "-v4",
        "--vmodule=queue*=6,",
        "--log-text-info-buffer-size=2Ki",
    )
    serving = read.secure_serving
    assert (serving.bind_address, serving.port) == ("127.0.0.1", 10000)
    assert serving.sni_certificates == (
        NamedCertKey("a.crt", "a.key"),
        NamedCertKey("b.crt", "b.key", ("*.example.com", "example.com")),
    )
    assert serving.curve_preferences == (29, 23)
    assert read.authentication.request_header_allowed_names == ("a", "b", "c")
    assert read.authorization.always_allow_paths == ("/x*",)
    assert read.feature_gates == ("A=true", "kube:B=false", "C=true")
    assert read.pod_max_in_unschedulable_pods_ns == 90 * SECOND
    assert read.metrics.allowed_label_values == {"m,l": "a,b"}
    assert read.plugins == ("a:B", "c.py")
    assert read.logging.verbosity == 4
    assert read.logging.modules == (("queue*", 6),)
    assert read.logging.text_info_buffer_size.value == 2048


def test_underscores_are_dashes() -> None:
    assert options("--leader_elect=false").configuration_flags == {"leader-elect": "false"}


REFUSED = {
    "an unknown flag": (["--nope"], "unknown flag: --nope"),
    "a port that is no number": (
        ["--secure-port=abc"],
        'invalid argument "abc" for "--secure-port" flag: '
        'strconv.ParseInt: parsing "abc": invalid syntax',
    ),
    "a level that is negative": (
        ["-v", "-1"],
        'invalid argument "-1" for "-v, --v" flag: strconv.ParseUint: parsing "-1": invalid syntax',
    ),
    "a module's level without a number": (
        ["--vmodule=a=b=c"],
        'invalid argument "a=b=c" for "--vmodule" flag: "a=b=c" does not have the pattern=N format',
    ),
    "a module's level that is no number": (
        ["--vmodule=a=x"],
        'invalid argument "a=x" for "--vmodule" flag: parsing verbosity in "a=x": '
        'strconv.ParseUint: parsing "x": invalid syntax',
    ),
    "a certificate without a key": (
        ["--tls-sni-cert-key=a.crt"],
        'invalid argument "a.crt" for "--tls-sni-cert-key" flag: '
        "expected comma separated certificate and key file paths",
    ),
    "a certificate without names after the colon": (
        ["--tls-sni-cert-key=a.crt,a.key: "],
        'invalid argument "a.crt,a.key: " for "--tls-sni-cert-key" flag: '
        "empty names list is not allowed",
    ),
    "a quantity": (
        ["--log-json-info-buffer-size=lots"],
        'invalid argument "lots" for "--log-json-info-buffer-size" flag: quantities must match '
        "the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    "another version": (
        ["--version=v2.0.0"],
        'invalid argument "v2.0.0" for "--version" flag: version "v2.0.0" must match '
        'major/minor/patch of default version "v1.36.4"',
    ),
    "an answer that is no version": (
        ["--version=maybe"],
        'invalid argument "maybe" for "--version" flag: '
        'strconv.ParseBool: parsing "maybe": invalid syntax',
    ),
    "a label without values": (
        ["--allow-metric-labels=m"],
        'invalid argument "m" for "--allow-metric-labels" flag: m must be formatted as key=value',
    ),
}


@pytest.mark.parametrize(("argv", "want"), REFUSED.values(), ids=REFUSED)
def test_refused(argv: list[str], want: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_command_line(argv)
    assert str(caught.value) == want


@pytest.mark.parametrize("name", REMOVED_FLAGS)
def test_a_removed_flag_names_its_successor(name: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_command_line([f"--{name}=x"])
    assert str(caught.value) == f"unknown flag: --{name}"
    assert caught.value.__notes__ == [f"--{name} was removed: {REMOVED_FLAGS[name]}"]


def test_arguments_are_refused_unless_they_are_empty() -> None:
    check_arguments(parse_command_line(["", "--v=1", ""]))
    with pytest.raises(UnwantedArgumentsError) as caught:
        check_arguments(parse_command_line(["foo", "--v=1", "", "b r"]))
    assert str(caught.value) == (
        '"kube-scheduler" does not take any arguments, got ["foo" "" "b r"]'
    )


VALUES = st.one_of(
    st.text(max_size=10),
    st.sampled_from(["1", "true", "5s", "1.36", "a=b", "A=true", "a,b:c", "1Ki", "::1", "v1.36.4"]),
)


@given(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=6))
def test_random_flag_values_are_accepted_or_refused(pairs: list[tuple[str, str]]) -> None:
    argv = [f"--{name}={value}" for name, value in pairs]
    try:
        read = options(*argv)
    except ConfigError as exc:
        assert isinstance(exc, FlagError)  # noqa: PT017
        return
    assert isinstance(read, Options)
