"""From text to a configuration: formats, versions, strictness.

docs/reference/01 §2, §17 rows 1-9.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kubesched.errors import ConfigError
from kubesched.scheduler.config import (
    NodeResourcesFitArgs,
    configuration_from_builtins,
    default_configuration,
    load_configuration,
)

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
JSON_HEAD = (
    '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", '
)


def error_of(text: str | bytes) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_configuration(text)
    return caught.value


ERRORS = {
    "empty file has no kind": ("", "Object 'Kind' is missing in ''"),
    "comment alone has no kind": ("# hi\n", "Object 'Kind' is missing in '# hi\n'"),
    "missing apiVersion quotes the text": (
        "kind: KubeSchedulerConfiguration\n",
        "Object 'apiVersion' is missing in 'kind: KubeSchedulerConfiguration\n'",
    ),
    "two slashes in the version": (
        "apiVersion: a/b/c\nkind: X",
        "unexpected GroupVersion string: a/b/c",
    ),
    "version error comes before the missing kind": (
        "apiVersion: a/b/c\n",
        "unexpected GroupVersion string: a/b/c",
    ),
    "version of an earlier release": (
        HEAD.replace("/v1", "/v1beta3"),
        'no kind "KubeSchedulerConfiguration" is registered for version '
        '"kubescheduler.config.k8s.io/v1beta3" in scheme '
        '"pkg/scheduler/apis/config/scheme/scheme.go:29"',
    ),
    "arguments at top level": (
        HEAD.replace("KubeSchedulerConfiguration", "NodeAffinityArgs"),
        "couldn't decode as KubeSchedulerConfiguration, got "
        "kubescheduler.config.k8s.io/v1, Kind=NodeAffinityArgs: ",
    ),
    "unknown field": (HEAD + "foo: bar", 'strict decoding error: unknown field "foo"'),
    "field names are case-sensitive": (
        HEAD + "Parallelism: 8",
        'strict decoding error: unknown field "Parallelism"',
    ),
    "nested unknown field has its path": (
        HEAD + "profiles: [{plugins: {filter: {enabled: [{name: NodeName, foo: 1}]}}}]",
        'strict decoding error: unknown field "profiles[0].plugins.filter.enabled[0].foo"',
    ),
    "unknown fields of YAML come sorted": (
        HEAD + "zoo: 1\nbar: 2",
        'strict decoding error: unknown field "bar", unknown field "zoo"',
    ),
    "unknown fields of JSON come in order of the text": (
        JSON_HEAD + '"zoo": 1, "bar": 2}',
        'strict decoding error: unknown field "zoo", unknown field "bar"',
    ),
    "repeated key in YAML, with an unknown field after it": (
        HEAD + "leaderElection:\n  leaderElect: true\n  leaderElect: false\nfoo: 1",
        "strict decoding error: yaml: unmarshal errors:\n"
        '  line 5: key "leaderElect" already set in map, unknown field "foo"',
    ),
    "repeated key in JSON": (
        JSON_HEAD + '"leaderElection": {"leaderElect": true, "leaderElect": true}}',
        'strict decoding error: duplicate field "leaderElection.leaderElect"',
    ),
    "unknown fields in arguments, by plugin": (
        HEAD
        + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: "
        + "{scoringStrategy: {resources: [{Name: cpu, Weight: 1}]}}}, {name: NodeAffinity, "
        + "args: {x: 1}}]}]",
        "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: "
        "decoding args for plugin NodeResourcesFit: strict decoding error: "
        'unknown field "scoringStrategy.resources[0].Name", '
        'unknown field "scoringStrategy.resources[0].Weight", '
        "decoding .profiles[0].pluginConfig[1]: strict decoding error: "
        'decoding args for plugin NodeAffinity: strict decoding error: unknown field "x"',
    ),
    "repeated key in the arguments of JSON": (
        JSON_HEAD
        + '"profiles": [{"pluginConfig": [{"name": "InterPodAffinity", '
        + '"args": {"hardPodAffinityWeight": 1, "hardPodAffinityWeight": 1}}]}]}',
        "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: "
        "decoding args for plugin InterPodAffinity: strict decoding error: "
        'duplicate field "hardPodAffinityWeight"',
    ),
    "arguments of another kind": (
        HEAD
        + "profiles: [{pluginConfig: [{name: DefaultPreemption, "
        + "args: {kind: InterPodAffinityArgs}}]}]",
        "decoding .profiles[0].pluginConfig[0]: args for plugin DefaultPreemption were not of "
        "type DefaultPreemptionArgs.kubescheduler.config.k8s.io, got "
        "InterPodAffinityArgs.kubescheduler.config.k8s.io",
    ),
    "arguments of an unknown version": (
        HEAD + "profiles: [{pluginConfig: [{name: NodeAffinity, args: {apiVersion: foo/v2}}]}]",
        "decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeAffinity: "
        'no kind "NodeAffinityArgs" is registered for version "foo/v2" in scheme '
        '"pkg/scheduler/apis/config/scheme/scheme.go:29"',
    ),
    "wrong type is not a strictness problem, and wins over them": (
        HEAD + 'parallelism: "8"\nfoo: 1',
        "json: cannot unmarshal string into Go struct field "
        "KubeSchedulerConfiguration.parallelism of type int32",
    ),
    "wrong type in arguments": (
        HEAD
        + "profiles: [{pluginConfig: [{name: InterPodAffinity, "
        + "args: {hardPodAffinityWeight: x}}]}]",
        "decoding .profiles[0].pluginConfig[0]: decoding args for plugin InterPodAffinity: "
        "json: cannot unmarshal string into Go struct field "
        "InterPodAffinityArgs.hardPodAffinityWeight of type int32",
    ),
    "fraction is not an integer": (
        JSON_HEAD + '"parallelism": 1.5}',
        "json: cannot unmarshal number 1.5 into Go struct field "
        "KubeSchedulerConfiguration.parallelism of type int32",
    ),
    "number beyond 32 bits": (
        HEAD + "parallelism: 2147483648",
        "json: cannot unmarshal number 2147483648 into Go struct field "
        "KubeSchedulerConfiguration.parallelism of type int32",
    ),
    "list where a set is wanted": (
        HEAD + "profiles: [{plugins: {filter: []}}]",
        "json: cannot unmarshal array into Go struct field Plugins.profiles.plugins.filter "
        "of type v1.PluginSet",
    ),
    "duration as a number": (
        HEAD + "leaderElection: {leaseDuration: 15}",
        "json: cannot unmarshal number into Go value of type string",
    ),
    "duration that is none": (
        HEAD + "leaderElection: {leaseDuration: abc}",
        'time: invalid duration "abc"',
    ),
    "duration without a unit": (
        HEAD + 'leaderElection: {leaseDuration: "10"}',
        'time: missing unit in duration "10"',
    ),
    "duration with a strange unit": (
        HEAD + "leaderElection: {leaseDuration: 10x}",
        'time: unknown unit "x" in duration "10x"',
    ),
    "not even an object": (
        "[1]",
        "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go "
        'value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
        'Kind string "json:\\"kind,omitempty\\"" }',
    ),
    "broken JSON": (
        '{"a": 1 "b": 2}',
        "couldn't get version/kind; json parse error: invalid character '\"' after object "
        "key:value pair",
    ),
    "unfinished JSON": (
        '{"a": [1',
        "couldn't get version/kind; json parse error: unexpected end of JSON input",
    ),
    "broken YAML": ("a: b: c", "yaml: mapping values are not allowed in this context"),
}


@pytest.mark.parametrize(("text", "want"), ERRORS.values(), ids=ERRORS)
def test_refused(text: str, want: str) -> None:
    assert str(error_of(text)) == want


class Note(NamedTuple):
    text: str
    want: str


NOTES = {
    "beta version": Note(HEAD.replace("/v1", "/v1beta2"), "use kubescheduler.config.k8s.io/v1"),
    "component config": Note(
        HEAD.replace("kubescheduler.config.k8s.io/v1", "componentconfig/v1alpha1"),
        "use kubescheduler.config.k8s.io/v1",
    ),
    "policy file": Note("apiVersion: v1\nkind: Policy", "policy files are gone"),
    "algorithm source": Note(HEAD + "algorithmSource: {provider: x}", "profiles[].plugins"),
    "symmetric weight": Note(
        HEAD + "hardPodAffinitySymmetricWeight: 1", "hardPodAffinityWeight in the args"
    ),
    "disabled preemption": Note(HEAD + "disablePreemption: true", "plugin DefaultPreemption"),
    "bind timeout": Note(HEAD + "bindTimeoutSeconds: 1", "plugin VolumeBinding"),
    "the lock of an election": Note(
        HEAD + "leaderElection: {lockObjectName: x}", "use resourceName"
    ),
    "field with the wrong case": Note(HEAD + "Parallelism: 1", "did you mean 'parallelism'?"),
    "where a duration is wrong": Note(
        HEAD + "leaderElection: {leaseDuration: 1}", "in leaderElection.leaseDuration"
    ),
    "removed plugin": Note(
        HEAD + "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
        "NodeVolumeLimits",
    ),
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
def test_removed_settings_are_reported_with_their_successor(note: Note) -> None:
    (found,) = error_of(note.text).__notes__
    assert note.want in found


def test_file_with_only_a_version_and_a_kind_is_the_default() -> None:
    assert load_configuration(HEAD) == default_configuration()
    assert load_configuration(HEAD.encode()) == default_configuration()
    assert load_configuration(JSON_HEAD.rstrip(", ") + "}") == default_configuration()


def test_null_is_the_same_as_absence() -> None:
    text = HEAD + "parallelism: null\nleaderElection: ~\nprofiles:\n- null\n"
    assert load_configuration(text) == default_configuration()


def test_only_the_first_document_counts() -> None:
    assert load_configuration(HEAD + "---\nkind: Nope\n") == default_configuration()


def test_yaml_words_for_true_and_false() -> None:
    text = HEAD + "delayCacheUntilActive: on\nenableProfiling: no\nenableContentionProfiling: y\n"
    configuration = load_configuration(text)
    assert configuration.delay_cache_until_active
    assert not configuration.enable_profiling
    assert configuration.enable_contention_profiling


def test_yaml_float_without_a_fraction_is_an_integer() -> None:
    assert load_configuration(HEAD + "parallelism: 4.0").parallelism == 4


def test_certificates_are_base64() -> None:
    text = HEAD + "extenders: [{tlsConfig: {caData: aGVsbG8=}}]"
    tls = load_configuration(text).extenders[0].tls_config
    assert tls is not None
    assert tls.ca_data == b"hello"


def test_builtins_are_read_like_text() -> None:
    arguments = {"ignoredResources": ["example.com/a"]}
    profile = {"pluginConfig": [{"name": "NodeResourcesFit", "args": arguments}]}
    configuration = configuration_from_builtins(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )
    assert configuration.profiles[0].args_of("NodeResourcesFit") == NodeResourcesFitArgs(
        ignored_resources=("example.com/a",)
    )
    assert profile["pluginConfig"], "the input is left alone"


def test_builtins_without_a_kind_are_quoted_as_json() -> None:
    with pytest.raises(ConfigError) as caught:
        configuration_from_builtins({"a": [1, "x"]})
    assert str(caught.value) == """Object 'Kind' is missing in '{"a":[1,"x"]}'"""
