"""A scenario: a cluster, its workloads, the events of its nodes, and the configurations to compare.

Scenarios are immutable values. A run depends on its scenario and its seed alone. `scenario_file.py`
reads them from YAML; docs/simulate.md documents every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.virtual_loop import DEFAULT_START_NS
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.sim.arrivals import Arrivals
from kubesched.sim.values import Distribution

__all__ = [
    "GROUP_LABEL",
    "WORKLOAD_LABEL",
    "Autoscaler",
    "Behaviour",
    "Configuration",
    "GangTemplate",
    "NodeGroup",
    "Scenario",
    "ScenarioEvent",
    "ScenarioWorkload",
    "Target",
    "TracePod",
]

GROUP_LABEL: Final = "kubesched.io/node-group"
WORKLOAD_LABEL: Final = "kubesched.io/workload"


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are created from one template."""

    name: str
    count: int
    template: Node
    zones: tuple[str, ...] = ()
    price_per_hour: float = 0.0


class GangTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """The PodGroup of the pods that arrive together."""

    min_count: int | None = None  # None: all of them
    is_gang: bool = True  # False: each pod is placed where it fits
    topology_key: str = ""  # the pods must run in one domain of this label
    disruption_mode: str = ""


class ScenarioWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that arrive over time, created from one template."""

    name: str
    kind: str  # Pod, Job, Deployment, StatefulSet, DaemonSet or CronJob
    template: Pod
    arrivals: Arrivals
    replicas: Distribution
    duration: Distribution | None = None  # None: until the end of the run
    cpu: Distribution | None = None  # None: as in the template
    memory: Distribution | None = None
    start_delay: Distribution | None = None
    priority: int | None = None
    schedule: str = ""  # of a CronJob
    pod_group: GangTemplate | None = None


class TracePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a trace, with its arrival time and its duration."""

    time_ns: int
    pod: Pod
    duration_ns: int | None = None
    objects: tuple[ApiObject, ...] = ()  # created before the pod, unless the cluster has them


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of nodes for an event."""

    group: str = ""
    zone: str = ""
    names: tuple[str, ...] = ()
    count: int | None = None  # how many of these, chosen at random; None: all


class ScenarioEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of nodes: a failure, a drain, an addition or a removal."""

    kind: str  # fail, drain, add, remove
    target: Target
    arrivals: Arrivals
    lasts: Distribution | None = None  # until repair or uncordon; None: for ever
    count: int = 0  # of nodes to add


class Autoscaler(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a node group that grows while pods wait and shrinks when nodes are idle."""

    group: str
    minimum: int
    maximum: int
    delay_ns: int  # from the order of a node until it exists
    idle_ns: int  # after which an empty node is removed
    period_ns: int = 10 * SECOND


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How the fake kubelets run pods."""

    start_delay_ns: int = SECOND // 10
    stop_delay_ns: int = SECOND
    rules: str = ""  # YAML, as `kubesched up --behavior` takes it


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler configuration to compare."""

    name: str
    configuration: KubeSchedulerConfiguration | None = None
    plugins: tuple[str, ...] = ()  # as `--plugin` takes them
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=dict)


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run depends on, besides its seed."""

    name: str
    duration_ns: int
    start_ns: int = DEFAULT_START_NS
    step_ns: int = 300 * SECOND
    seeds: tuple[int, ...] = (0,)
    groups: tuple[NodeGroup, ...] = ()
    objects: tuple[ApiObject, ...] = ()
    workloads: tuple[ScenarioWorkload, ...] = ()
    trace: tuple[TracePod, ...] = ()
    node_events: tuple[ScenarioEvent, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    behaviour: Behaviour = Behaviour()
    configurations: tuple[Configuration, ...] = (Configuration(name="default"),)
    changes: bool = False  # also store a row for every change
    hash: str = ""  # of the content of the files that it was read from

    def configuration(self, name: str) -> Configuration:
        return next(each for each in self.configurations if each.name == name)

    @property
    def prices(self) -> Mapping[str, float]:
        """Per hour, by node group."""
        return {group.name: group.price_per_hour for group in self.groups}
