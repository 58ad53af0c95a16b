"""All flags of the scheduler, with the groups and defaults of the reference.

docs/reference/01 §11.2. Two are additions: `--plugin` loads a plugin that is not part of
the package, and `--verify-engine` verifies cached answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesched.foundation.util.flag_parsing import Flag, FlagGroup
from kubesched.foundation.util.flag_values import (
    BOOL,
    DURATION,
    FLOAT32,
    INT32,
    STRING,
    STRING_LIST,
)
from kubesched.scheduler.config.defaults import POD_MAX_IN_UNSCHEDULABLE_PODS_NS
from kubesched.scheduler.config.feature_gates import FEATURES
from kubesched.scheduler.config.types import (
    ClientConnectionConfiguration,
    LeaderElectionConfiguration,
)
from kubesched.scheduler.config.versions import BINARY_VERSION
from kubesched.scheduler.server.options.flag_kinds import (
    FEATURE_GATES,
    NOT_ASKED,
    PLUGINS,
    SIZE,
    VERSION,
)
from kubesched.scheduler.server.options.observability_flags import LOGS, METRICS
from kubesched.scheduler.server.options.serving_flags import (
    AUTHENTICATION,
    AUTHORIZATION,
    SECURE_SERVING,
)

__all__ = ["GROUPS", "REMOVED_FLAGS"]

_CLIENT: Final = ClientConnectionConfiguration()
_ELECTION: Final = LeaderElectionConfiguration()
SHADOW_WINDOW_NS: Final = 1_000_000_000
RECORD_SIZE: Final = 1 << 30
_IGNORED_WITH_FILE: Final = "Ignored when --config is given."

MISC: Final = FlagGroup(
    "misc",
    (
        Flag("config", STRING, "", "Read the configuration from this file."),
        Flag(
            "write-config-to",
            STRING,
            "",
            "Write the configuration in force, defaults included, to this file, and exit.",
        ),
        Flag(
            "master",
            STRING,
            "",
            "Address of the API server; replaces the one in the kubeconfig.",
        ),
        Flag(
            "plugin",
            PLUGINS,
            (),
            "Also load this plugin: module:Class, or the path of a .py file. May be repeated. "
            "An addition of kubesched; installed packages need no flag.",
        ),
        Flag(
            "verify-engine",
            BOOL,
            False,
            "Check every decision against a full evaluation, and exit on the first difference. "
            "Slow: for finding a plugin with wrong declarations. An addition of kubesched.",
        ),
        Flag(
            "watch-config",
            BOOL,
            False,
            "Reload the file of --config when it changes, as SIGHUP does: profiles, percentages, "
            "and backoffs. Other fields need a restart. An addition of kubesched.",
        ),
        Flag(
            "trace-endpoint",
            STRING,
            "",
            "Send a trace of each pod to this OpenTelemetry collector, by OTLP over HTTP: "
            "http://HOST:4318. Needs the extra otel. An addition of kubesched.",
        ),
        Flag(
            "trace-ratio",
            FLOAT32,
            1.0,
            "The share of pods that are traced, from 0 to 1. An addition of kubesched.",
        ),
        Flag(
            "explain-events",
            BOOL,
            False,
            "Add the reasons, with amounts and names, to the events of pods that fit no node, "
            "after the usual text. An addition of kubesched.",
        ),
        Flag(
            "dashboard",
            BOOL,
            False,
            "Serve a page with the cluster, the queue and the last decisions below /dashboard/ of "
            "the secure port, to users who may read that path. An addition of kubesched.",
        ),
        Flag(
            "shadow",
            BOOL,
            False,
            "Place no pods. Watch a cluster that another scheduler serves, decide for every pod "
            "from the state just before it was bound, and report below /shadow where the "
            "decisions differ. Nothing is written, and no lease is acquired. An addition of "
            "kubesched.",
        ),
        Flag(
            "shadow-window",
            DURATION,
            SHADOW_WINDOW_NS,
            "With --shadow: how long changes are held back to put them in order, and how old the "
            "state of a decision can be. With 0, only the state that the watch shows counts. An "
            "addition of kubesched.",
        ),
        Flag(
            "shadow-ledger",
            STRING,
            "",
            "With --shadow: write the ledger to this file every minute and at the end, for "
            "`kubesched shadow report`. An addition of kubesched.",
        ),
        Flag(
            "record",
            STRING,
            "",
            "Record what the scheduler sees and decides in this folder, for `kubesched replay`, "
            "`explain`, `dashboard`, `simulate` and `shadow report`. Only fields that scheduling "
            "reads are recorded. An addition of kubesched.",
        ),
        Flag(
            "record-size",
            SIZE,
            RECORD_SIZE,
            "With --record: the most bytes of the folder, such as 512Mi or 1GiB; the oldest files "
            "are deleted. An addition of kubesched.",
        ),
    ),
)

DEPRECATED: Final = FlagGroup(
    "deprecated",
    (
        Flag(
            "profiling",
            BOOL,
            True,
            f"DEPRECATED: serve profiles below /debug/pprof. {_IGNORED_WITH_FILE}",
        ),
        Flag(
            "contention-profiling",
            BOOL,
            True,
            "DEPRECATED: profile waiting on locks, if profiling is on. " + _IGNORED_WITH_FILE,
        ),
        Flag(
            "kubeconfig",
            STRING,
            _CLIENT.kubeconfig,
            "DEPRECATED: kubeconfig file with the address of and the way into the API server. "
            + _IGNORED_WITH_FILE,
        ),
        Flag(
            "kube-api-content-type",
            STRING,
            _CLIENT.content_type,
            f"DEPRECATED: format of requests to the API server. {_IGNORED_WITH_FILE}",
        ),
        Flag(
            "kube-api-qps",
            FLOAT32,
            _CLIENT.qps,
            f"DEPRECATED: requests a second to the API server. {_IGNORED_WITH_FILE}",
        ),
        Flag(
            "kube-api-burst",
            INT32,
            _CLIENT.burst,
            f"DEPRECATED: requests to the API server in one burst. {_IGNORED_WITH_FILE}",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION,
            POD_MAX_IN_UNSCHEDULABLE_PODS_NS,
            "DEPRECATED: after this long a pod that fits nowhere is tried again, even if nothing "
            "happened that could help it.",
        ),
    ),
)

LEADER_ELECTION: Final = FlagGroup(
    "leader election",
    (
        Flag(
            "leader-elect",
            BOOL,
            _ELECTION.leader_elect,
            "Become leader before scheduling, so that of several replicas one is active.",
        ),
        Flag(
            "leader-elect-lease-duration",
            DURATION,
            _ELECTION.lease_duration_ns,
            "How long others wait after the leader's last sign of life before they take over.",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION,
            _ELECTION.renew_deadline_ns,
            "How long the leader tries to renew the lease before it stops leading. "
            "Must be less than the lease duration.",
        ),
        Flag(
            "leader-elect-retry-period",
            DURATION,
            _ELECTION.retry_period_ns,
            "Pause between attempts to acquire or renew the lease.",
        ),
        Flag(
            "leader-elect-resource-lock",
            STRING,
            _ELECTION.resource_lock,
            "Kind of object that leadership is recorded in; only 'leases' is supported.",
        ),
        Flag(
            "leader-elect-resource-name",
            STRING,
            _ELECTION.resource_name,
            "Name of that object.",
        ),
        Flag(
            "leader-elect-resource-namespace",
            STRING,
            _ELECTION.resource_namespace,
            "Namespace of that object.",
        ),
    ),
)


def _gate_list() -> str:
    """Return the gates that can be changed, one per line; locked gates are not listed."""
    return "\n".join(
        f"{name} ({feature.stage.name}, {'on' if feature.default else 'off'})"
        for name, feature in sorted(FEATURES.items())
        if not feature.locked
    )


FEATURE_GATE: Final = FlagGroup(
    "feature gate",
    (
        Flag(
            "feature-gates",
            FEATURE_GATES,
            (),
            "Enable or disable features: Name=true,Name=false, optionally with kube: before "
            "each name. May be repeated. AllAlpha and AllBeta stand for all gates of their stage "
            f"that are not set by name. Gates with their defaults:\n{_gate_list()}",
        ),
        Flag(
            "emulated-version",
            STRING_LIST,
            (),
            "Have the feature gates of an earlier minor release, such as "
            f"{BINARY_VERSION.before()} or kube={BINARY_VERSION.before()}; "
            f"from 1.33 to {BINARY_VERSION}.",
        ),
        Flag(
            "min-compatibility-version",
            STRING_LIST,
            (),
            "Oldest minor release of the other components; by default one before the emulated.",
        ),
    ),
)

GLOBAL: Final = FlagGroup(
    "global",
    (
        Flag("help", BOOL, False, "Show this help.", shorthand="h"),
        Flag(
            "version",
            VERSION,
            NOT_ASKED,
            "Print the version and exit; with =raw in full. With =vX.Y.Z-suffix, report that "
            "version and go on.",
        ),
    ),
)

GROUPS: Final = (
    MISC,
    SECURE_SERVING,
    AUTHENTICATION,
    AUTHORIZATION,
    DEPRECATED,
    LEADER_ELECTION,
    FEATURE_GATE,
    METRICS,
    LOGS,
    GLOBAL,
)

# Flags whose value is the name of a file or folder.
FILE_FLAGS: Final = frozenset(
    {
        "allow-metric-labels-manifest",
        "authentication-kubeconfig",
        "authorization-kubeconfig",
        "cert-dir",
        "client-ca-file",
        "config",
        "kubeconfig",
        "plugin",
        "requestheader-client-ca-file",
        "tls-cert-file",
        "tls-private-key-file",
        "write-config-to",
    }
)


def all_flags() -> Iterator[Flag]:
    """Return all flags by group."""
    for group in GROUPS:
        yield from group.flags


_POLICY: Final = "policies are gone: list plugins in profiles[].plugins of the --config file"
_INSECURE: Final = "unencrypted serving is gone: use --bind-address and --secure-port"
_LOG_FILES: Final = "logs go to standard error: redirect it"

# Flags of earlier releases, with what does their work today.
REMOVED_FLAGS: Final = {
    "address": _INSECURE,
    "port": _INSECURE,
    "algorithm-provider": "list plugins in profiles[].plugins of the --config file",
    "policy-config-file": _POLICY,
    "policy-configmap": _POLICY,
    "policy-configmap-namespace": _POLICY,
    "use-legacy-policy-config": _POLICY,
    "scheduler-name": "set profiles[].schedulerName in the --config file",
    "hard-pod-affinity-symmetric-weight": (
        "set hardPodAffinityWeight in the args of the plugin InterPodAffinity"
    ),
    "failure-domains": "topology keys are given in pods",
    "bind-timeout-seconds": "set bindTimeoutSeconds in the args of the plugin VolumeBinding",
    "lock-object-name": "use --leader-elect-resource-name",
    "lock-object-namespace": "use --leader-elect-resource-namespace",
    "google-json-key": "put credentials in the kubeconfig",
    "pod-max-unschedulableq-duration": "use --pod-max-in-unschedulable-pods-duration",
    "pod-max-in-unschedulable-q-duration": "use --pod-max-in-unschedulable-pods-duration",
    "add-dir-header": "the place in the code is always part of a line",
    "alsologtostderr": _LOG_FILES,
    "log-backtrace-at": "an error shows its traceback at -v=4 and above",
    "log-dir": _LOG_FILES,
    "log-file": _LOG_FILES,
    "log-file-max-size": _LOG_FILES,
    "logtostderr": "logs always go to standard error",
    "one-output": "logs always go to standard error",
    "skip-headers": "use --logging-format=json for lines that programs read",
    "skip-log-headers": _LOG_FILES,
    "stderrthreshold": "logs always go to standard error",
}
