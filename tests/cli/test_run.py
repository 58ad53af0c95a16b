"""`kubesched run`: from a command line to a configuration or an error.

docs/reference/01 §11, §12, §13, §14 and rows 71-81 of §17; 02 §1.1.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched import __version__
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.log_output import LogSettings
from kubesched.scheduler import config
from kubesched.scheduler.process.process_setup import (
    HowToReport,
    Outcome,
    run_command_line,
)
from kubesched.scheduler.server.options.flags import GROUPS, REMOVED_FLAGS

SNAPSHOTS = Path(__file__).parent / "snapshots"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CLUSTER = ("--master=m", "--secure-port=0")


def run(*argv: str, file: str = FILE) -> Outcome:
    """Run a command line with two readable files: a configuration and a kubeconfig."""
    files = {"file": file, "kube": "kind: Config"}

    def read_file(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return files[path].encode()

    return run_command_line(argv, read_file=read_file, environment={})


def written(*argv: str, file: str = FILE) -> dict[str, object]:
    outcome = run(*CLUSTER, "--write-config-to=out", *argv, file=file)
    assert outcome.failure is None
    assert (outcome.exit_code, outcome.write_to) == (0, "out")
    assert outcome.configuration is not None
    document = yaml.safe_load(config.written(outcome.configuration))
    assert isinstance(document, dict)
    return document


ERROR, LOG, PLAIN = (
    HowToReport.AS_ERROR,
    HowToReport.IN_LOG,
    HowToReport.PLAINLY,
)
FAILURES: dict[str, tuple[Sequence[str], HowToReport, str]] = {
    "an unknown flag": (["--nope"], ERROR, "Error: unknown flag: --nope"),
    "a flag error comes before help": (["--help", "--nope"], ERROR, "Error: unknown flag: --nope"),
    "an argument": (
        ["foo"],
        ERROR,
        'Error: "kube-scheduler" does not take any arguments, got ["foo"]',
    ),
    "a bad gate comes before the version": (
        ["--feature-gates=Nope=true", "--version"],
        LOG,
        '"command failed" err="unrecognized feature gate: Nope"',
    ),
    "a gate that depends on another": (
        ["--feature-gates=GangScheduling=true"],
        LOG,
        '"command failed" err="GangScheduling is enabled, but depends on features that are '
        'disabled: [GenericWorkload]"',
    ),
    "a gate that is locked": (
        ["--feature-gates=DynamicResourceAllocation=false"],
        LOG,
        '"command failed" err="cannot set feature gate DynamicResourceAllocation to false, '
        'feature is locked to true"',
    ),
    "an emulated version out of range": (
        ["--emulated-version=1.28"],
        LOG,
        '"command failed" err="[emulation version 1.28 is not between [1.33, 1.36.0], '
        'minCompatibilityVersion version 1.33 is not between [1.33, 1.28]]"',
    ),
    "logging comes before the other options": (
        ["--logging-format=xml", "--secure-port=-1"],
        PLAIN,
        'format: Invalid value: "xml": Unsupported log format',
    ),
    "options come before the file": (
        ["--secure-port=99999", "--config=/nope"],
        LOG,
        '"command failed" err="--secure-port 99999 must be between 1 and 65535, inclusive. '
        'It cannot be turned off with 0"',
    ),
    "a file that is missing": (
        ["--config=/does/not/exist.yaml"],
        LOG,
        '"command failed" err="open /does/not/exist.yaml: no such file or directory"',
    ),
    "a flag that breaks the file": (
        [*CLUSTER, "--config=file", "--leader-elect-lease-duration=5s"],
        LOG,
        '"command failed" err="leaderElection.leaseDuration: Invalid value: \\"10s\\": must be '
        'greater than `RenewDeadline`"',
    ),
    "no cluster to talk to": (
        ["--write-config-to=out", "--secure-port=0"],
        LOG,
        '"command failed" err="invalid configuration: no configuration has been provided, try '
        'setting KUBERNETES_MASTER environment variable"',
    ),
    "timings that fail when it would run": (
        [*CLUSTER, "--leader-elect-lease-duration=5s"],
        LOG,
        '"command failed" err="couldn\'t create leader elector: leaseDuration must be greater '
        'than renewDeadline"',
    ),
    "a plugin that cannot be loaded": (
        [*CLUSTER, "--plugin=nope:Nope"],
        LOG,
        '"command failed" err="plugin nope:Nope: cannot be imported: ModuleNotFoundError: '
        "No module named 'nope'\"",
    ),
}


@pytest.mark.parametrize(("argv", "how", "line"), FAILURES.values(), ids=FAILURES)
def test_failures(argv: Sequence[str], how: HowToReport, line: str) -> None:
    outcome = run(*argv)
    assert outcome.failure is not None
    assert (outcome.failure.how, outcome.failure.line()) == (how, line)
    assert outcome.exit_code == 1
    assert not outcome.write_to


def test_certificates_of_extenders_are_checked_before_profiles() -> None:
    """The reference builds extenders, then profiles, also to write the configuration."""
    extenders = "extenders: [{urlPrefix: 'https://x', tlsConfig: {caFile: /does/not/exist}}]\n"
    profiles = "profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]\n"
    argv = (*CLUSTER, "--config=file", "--write-config-to=out")
    outcome = run(*argv, file=FILE + extenders + profiles)
    assert outcome.failure is not None
    assert outcome.failure.text == (
        "couldn't build extenders: open /does/not/exist: no such file or directory"
    )


def test_a_removed_flag_is_reported_with_a_note() -> None:
    outcome = run("--policy-config-file=x")
    assert outcome.failure is not None
    assert outcome.failure.line() == "Error: unknown flag: --policy-config-file"
    assert outcome.failure.notes == (
        "--policy-config-file was removed: policies are gone: "
        "list plugins in profiles[].plugins of the --config file",
        "kubesched run --help lists the flags",
    )


REMOVED_SETTINGS = {
    "hardPodAffinitySymmetricWeight: 1": "hardPodAffinityWeight in the args of the plugin",
    "disablePreemption: true": "disable the plugin DefaultPreemption",
    "bindTimeoutSeconds: 1": "bindTimeoutSeconds in the args of the plugin VolumeBinding",
    "algorithmSource: {provider: x}": "list plugins in profiles[].plugins",
    "healthzBindAddress: x": "use the flags --bind-address and --secure-port",
}


@pytest.mark.parametrize(("line", "note"), REMOVED_SETTINGS.items(), ids=REMOVED_SETTINGS)
def test_a_removed_setting_is_reported_with_a_note(line: str, note: str) -> None:
    outcome = run(*CLUSTER, "--config=file", file=f"{FILE}{line}\n")
    assert outcome.failure is not None
    assert note in "\n".join(outcome.failure.notes)


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1beta3"])
def test_a_removed_version_is_reported_with_a_note(version: str) -> None:
    outcome = run(*CLUSTER, "--config=file", file=FILE.replace("v1", version))
    assert outcome.failure is not None
    assert outcome.failure.notes == (
        f"kubescheduler.config.k8s.io/{version} is not served: use kubescheduler.config.k8s.io/v1",
    )


def test_deprecated_flags_hold_without_a_file_only() -> None:
    argv = ("--kubeconfig=kube", "--kube-api-qps=7", "--profiling=false")
    without = written(*argv)
    assert without["clientConnection"]["kubeconfig"] == "kube"  # type: ignore[index]
    assert without["enableProfiling"] is False
    ignored = written("--config=file", *argv)
    assert ignored["clientConnection"]["qps"] == 50  # type: ignore[index]
    assert ignored["enableProfiling"] is True


def test_leader_election_flags_hold_with_a_file_too() -> None:
    argv = ("--config=file", "--leader_elect=false", "--leader-elect-lease-duration=2h")
    election = written(*argv)["leaderElection"]
    assert isinstance(election, dict)
    assert (election["leaderElect"], election["leaseDuration"]) == (False, "2h0m0s")


def test_gates_and_versions_decide_defaults() -> None:
    def plugins(*argv: str) -> list[str]:
        (profile,) = written(*argv)["profiles"]  # type: ignore[misc, attr-defined]
        return [each["name"] for each in profile["plugins"]["multiPoint"]["enabled"]]

    gates = "--feature-gates=GenericWorkload=true,GangScheduling=true"
    assert plugins(gates)[-1] == "GangScheduling"
    assert "NodeDeclaredFeatures" not in plugins("--emulated-version=1.35")


VERSIONS = {
    "asked for": ("--version", f"Kubernetes v1.36.4\nkubesched v{__version__}\n"),
    "asked for explicitly": ("--version=true", f"Kubernetes v1.36.4\nkubesched v{__version__}\n"),
}


@pytest.mark.parametrize(("flag", "want"), VERSIONS.values(), ids=VERSIONS)
def test_version(flag: str, want: str) -> None:
    assert run(flag) == Outcome(output=want)


def test_the_raw_version_prints_the_whole_struct() -> None:
    output = run("--version=raw").output
    assert output.startswith('version.Info{Major:"1", Minor:"36", GitVersion:"v1.36.4"')


def test_a_version_override_does_not_end_the_program() -> None:
    assert written("--version=v1.36.4-mine")
    assert written("--version=false")


def test_help() -> None:
    output = run_command_line(
        ["--help", "--version"], read_file=Path.read_bytes, environment={}, columns=100
    ).output
    snapshot = SNAPSHOTS / "run_help.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.write_text(output)
    assert output == snapshot.read_text()


def test_help_wraps_on_a_terminal_only() -> None:
    lines = run("-h").output.splitlines()
    assert "      --disable-http2-serving                  Offer HTTP/1.1 only." in lines
    assert [line for line in lines if line.startswith("      --tls-cipher-suites strings")]
    assert max(map(len, lines)) > 200


def test_logging_is_configured_after_validation() -> None:
    seen: list[LogSettings] = []
    run_command_line(
        ["-v=2", "--vmodule=queue=5", "--config=/nope"],
        read_file=lambda path: Path(path).read_bytes(),
        environment={},
        apply_logging=seen.append,
    )
    assert seen == [LogSettings(verbosity=2, modules=(("queue", 5),))]


def test_a_plugin_from_a_file_is_configured_like_any_other() -> None:
    plugin = f"--plugin={EXAMPLES / 'spare_nodes.py'}"
    config = (EXAMPLES / "spare_nodes_config.yaml").read_text()
    (profile,) = written("--config=file", plugin, file=config)["profiles"]  # type: ignore[misc, attr-defined]
    args = {each["name"]: each["args"] for each in profile["pluginConfig"]}
    assert args["SpareNodes"] == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "SpareNodesArgs",
        "labelKey": "example.com/reserve",
    }


PLUGIN_ERRORS = {
    "arguments are as strict": (
        "pluginConfig: [{name: SpareNodes, args: {labelKay: x}}]",
        "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: "
        'decoding args for plugin SpareNodes: strict decoding error: unknown field "labelKay"',
    ),
    "a point that it has no method for": (
        "plugins: {score: {enabled: [{name: SpareNodes}]}}",
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        'plugin "SpareNodes" does not extend ScorePlugin plugin',
    ),
    "a name with a typing mistake": (
        "plugins: {filter: {enabled: [{name: SpareNode}]}}",
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        'FilterPlugin "SpareNode" does not exist',
    ),
}


@pytest.mark.parametrize(("profile", "want"), PLUGIN_ERRORS.values(), ids=PLUGIN_ERRORS)
def test_mistakes_with_a_plugin(profile: str, want: str) -> None:
    plugin = f"--plugin={EXAMPLES / 'spare_nodes.py'}"
    outcome = run(*CLUSTER, "--config=file", plugin, file=f"{FILE}profiles:\n- {{{profile}}}\n")
    assert outcome.failure is not None
    assert outcome.failure.text == want
    assert outcome.failure.notes


def test_a_plugin_must_not_have_the_name_of_another(tmp_path: Path) -> None:
    source = (EXAMPLES / "spare_nodes.py").read_text().replace('"SpareNodes"', '"NodeName"')
    (tmp_path / "mine.py").write_text(source)
    outcome = run(*CLUSTER, f"--plugin={tmp_path / 'mine.py'}")
    assert outcome.failure is not None
    assert outcome.failure.text == "a plugin named NodeName already exists"


def test_a_valid_command_line_builds_a_process() -> None:
    argv = [
        *CLUSTER,
        "--pod-max-in-unschedulable-pods-duration=90s",
        "--config=file",
        f"--plugin={EXAMPLES / 'spare_nodes.py'}",
    ]
    text = (EXAMPLES / "spare_nodes_config.yaml").read_bytes()
    outcome = run_command_line(argv, read_file=lambda _: text, environment={})
    assert outcome.failure is None
    inputs = outcome.process
    assert inputs is not None
    assert inputs.config.options.pod_max_in_unschedulable_pods_ns == 90 * SECOND
    assert inputs.flags["pod-max-in-unschedulable-pods-duration"] == "1m30s"
    assert "SpareNodes" in inputs.plugins
    assert "SpareNodes" in inputs.config.configuration.profiles[0].plugins.enabled_names()


NAMES = [flag.name for group in GROUPS for flag in group.flags if flag.name != "plugin"]
ARGUMENTS = st.one_of(
    st.text(max_size=8),
    st.builds("--{}={}".format, st.sampled_from([*NAMES, *REMOVED_FLAGS]), st.text(max_size=8)),
    st.builds(
        "--{}={}".format,
        st.sampled_from(NAMES),
        st.sampled_from(
            ["", "0", "-1", "true", "5s", "1.35", "a=b", "AllAlpha=true", "a,b", "1Ki", "json"]
        ),
    ),
    st.sampled_from(["--config=file", "--master=m", "--secure-port=0", "-v9", "-h", "--", "-"]),
)


@settings(deadline=None)
@given(st.lists(ARGUMENTS, max_size=6), st.text(max_size=60))
def test_random_command_lines_have_an_outcome(argv: list[str], text: str) -> None:
    outcome = run(*argv, file=text)
    assert (outcome.exit_code == 0) == (outcome.failure is None)


# -- as a process ---------------------------------------------------------------------------


def kubesched(*argv: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubesched.cli.main", "run", *argv]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=folder
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "config.yaml").write_text(FILE)
    return tmp_path


def test_the_process_writes_the_configuration(folder: Path) -> None:
    done = kubesched("--config=config.yaml", "--master=m", "--write-config-to=out", folder=folder)
    assert (done.returncode, done.stdout) == (0, "")
    assert '"Wrote configuration" file="out"' in done.stderr
    document = yaml.safe_load((folder / "out").read_text())
    assert document["kind"] == "KubeSchedulerConfiguration"


def test_an_error_leaves_no_files(folder: Path) -> None:
    (folder / "config.yaml").write_text(FILE + "parallelism: 0\n")
    done = kubesched("--config=config.yaml", "--master=m", "--write-config-to=out", folder=folder)
    assert done.returncode == 1
    [line, place] = done.stderr.splitlines()
    assert place.startswith("  config.yaml:3: parallelism: Invalid value: 0: ")
    assert line.startswith("E")
    assert line.endswith(
        '] "command failed" err="parallelism: Invalid value: 0: should be an integer value '
        'greater than zero"'
    )
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


def test_a_file_that_cannot_be_written(folder: Path) -> None:
    done = kubesched("--master=m", "--write-config-to=no/such/folder", folder=folder)
    assert done.returncode == 1
    assert 'err="open no/such/folder: no such file or directory"' in done.stderr


def test_a_flag_error_is_not_buried_under_the_help(folder: Path) -> None:
    done = kubesched("--port=1", folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "Error: unknown flag: --port",
        "  --port was removed: unencrypted serving is gone: use --bind-address and --secure-port",
        "  kubesched run --help lists the flags",
    ]


@pytest.mark.parametrize(
    ("flag", "meant"),
    [("confg", "config"), ("leader-election", "leader-elect"), ("feature_gate", "feature-gates")],
)
def test_a_misspelt_flag_is_reported_with_a_suggestion(flag: str, meant: str) -> None:
    outcome = run(f"--{flag}=x")
    assert outcome.failure is not None
    assert outcome.failure.notes[0] == f"did you mean --{meant}?"


def test_a_flag_similar_to_no_other_gets_no_suggestion() -> None:
    outcome = run("--zzzz")
    assert outcome.failure is not None
    assert outcome.failure.notes == ("kubesched run --help lists the flags",)


def completions(*words: str) -> list[str]:
    """Return the completions of the last word that bash would show."""
    done = subprocess.run(
        [sys.executable, "-m", "kubesched.cli.main"],
        env={
            **os.environ,
            "_KUBESCHED_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("kubesched", *words)),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_shell_completes_flags_and_file_names() -> None:
    assert completions("run", "--leader-elect-re") == [
        "plain,--leader-elect-renew-deadline",
        "plain,--leader-elect-retry-period",
        "plain,--leader-elect-resource-lock",
        "plain,--leader-elect-resource-name",
        "plain,--leader-elect-resource-namespace",
    ]
    assert completions("run", "--config", "sched") == ["file,sched"]


STARTS = {
    "plugins of pod groups without their gates": (
        [],
        FILE + "profiles: [{plugins: {multiPoint: {enabled: [{name: PodGroupPodsCount}, "
        "{name: TopologyPlacementGenerator}, {name: GangScheduling}]}}}]\n",
    ),
    "all features of pod groups, and an extender": (
        [
            "--feature-gates=GenericWorkload=true,GangScheduling=true,"
            "TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true"
        ],
        FILE + "extenders: [{urlPrefix: 'http://extender.example', filterVerb: filter}]\n",
    ),
}


@pytest.mark.parametrize(("argv", "file"), STARTS.values(), ids=STARTS)
def test_configurations_of_pod_groups_are_accepted(argv: list[str], file: str) -> None:
    outcome = run(*CLUSTER, "--config=file", *argv, file=file)
    assert outcome.failure is None
    assert outcome.process is not None


def test_the_process_logs_flags_and_configuration_in_json(folder: Path) -> None:
    done = kubesched(
        "--master=m", "-v=2", "--logging-format=json", "--write-config-to=out", folder=folder
    )
    assert done.returncode == 0
    *entries, last = map(json.loads, done.stderr.splitlines())
    messages = [entry["msg"] for entry in entries]
    assert 'FLAG: --logging-format="json"' in messages
    assert messages[-1] == "Using component config"
    assert yaml.safe_load(entries[-1]["config"])["parallelism"] == 16
    assert last["msg"] == "Wrote configuration"


def test_two_dashes_end_the_flags(folder: Path) -> None:
    done = kubesched("--", "--version", folder=folder)
    assert done.stderr == (
        'Error: "kube-scheduler" does not take any arguments, got ["--version"]\n'
    )
