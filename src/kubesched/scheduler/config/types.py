"""The scheduler's configuration with every default filled in (docs/reference/01 §3, §4, §10).

All other parts read these values, which are immutable, complete, and named as in the configuration
file. Sibling modules parse, default, validate and write them. A value that is built directly is
neither merged nor validated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubesched.scheduler.config.config_struct import (
    SECOND,
    ConfigStruct,
    DurationNs,
    Float32,
    Int32,
    Int64,
    RawValue,
)

__all__ = [
    "API_VERSION",
    "BY_NAME",
    "GROUP",
    "KIND",
    "RANDOM",
    "ClientConnectionConfiguration",
    "ExtenderConfig",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LeaderElectionConfiguration",
    "PluginConfig",
    "PluginRef",
    "PluginSet",
    "Plugins",
]

GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"

# The values of `tieBreak`: the choice among nodes with the same, highest score.
RANDOM: Final = "Random"
BY_NAME: Final = "NodeName"


class PluginRef(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin in a list, with its weight; 0 means no weight."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(ConfigStruct):
    """The enabled and disabled plugins of one extension point."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(ConfigStruct):
    """The plugin lists of a profile, one set per extension point and one for all of them."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """The set of an extension point, by its name in the file (`preFilter`)."""
        plugin_set: PluginSet = getattr(self, _ATTRIBUTES[point])
        return plugin_set

    def sets(self) -> Iterator[tuple[str, PluginSet]]:
        """Every set with its name in the file, in the order of the fields."""
        for point, attribute in _ATTRIBUTES.items():
            yield point, getattr(self, attribute)

    def enabled_names(self) -> frozenset[str]:
        """Every plugin that is enabled in some set: those a framework instantiates."""
        return frozenset(ref.name for _, plugin_set in self.sets() for ref in plugin_set.enabled)


_ATTRIBUTES: Final = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}


class PluginConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments of one plugin: a typed value, or the content of the file if the type is unknown."""

    name: str = ""
    args: RawValue = None


class KubeSchedulerProfile(ConfigStruct):
    """One scheduler name, and the plugins for pods with this name."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None  # None: the global value
    # Of nodes with the same score: RANDOM (also if empty), or BY_NAME. Not in the reference.
    tie_break: str = ""
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args_of(self, name: str) -> Any:
        """The arguments of a plugin, or None if it has none."""
        return next((entry.args for entry in self.plugin_config if entry.name == name), None)


class LeaderElectionConfiguration(ConfigStruct):
    """The settings of leader election."""

    leader_elect: bool = True
    lease_duration_ns: DurationNs = msgspec.field(name="leaseDuration", default=15 * SECOND)
    renew_deadline_ns: DurationNs = msgspec.field(name="renewDeadline", default=10 * SECOND)
    retry_period_ns: DurationNs = msgspec.field(name="retryPeriod", default=2 * SECOND)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(ConfigStruct):
    """The settings of the client of the API server: kubeconfig, encoding and rate limit."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: Float32 = 50.0
    burst: Int32 = 100


class ExtenderManagedResource(ConfigStruct):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(ConfigStruct):
    """The TLS settings of an extender. Data takes precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderConfig(ConfigStruct):
    """An HTTP extender. The scheduler does not call an empty verb."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    tls_config: ExtenderTLSConfig | None = None
    http_timeout_ns: DurationNs = msgspec.field(name="httpTimeout", default=0)  # 0: five seconds
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(ConfigStruct):
    """The whole configuration of a scheduler."""

    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32 = 0  # 0: adaptive, by cluster size
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[ExtenderConfig, ...] = ()
    delay_cache_until_active: bool = False

    def enabled_plugins(self) -> frozenset[str]:
        """Return the names of the plugins that any profile enables."""
        return frozenset(name for each in self.profiles for name in each.plugins.enabled_names())
