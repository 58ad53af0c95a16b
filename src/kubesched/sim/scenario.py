"""A scenario: a cluster, what is asked of it, what happens to it, and what is compared.

Plain, immutable values with everything in them that a run needs, so that a run depends on nothing
else. `scenario_file.py` reads them from YAML; docs/simulate.md documents every field.
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
    "NodeGroup",
    "Scenario",
    "ScenarioEvent",
    "Target",
    "TracePod",
    "Workload",
]

GROUP_LABEL: Final = "kubesched.io/node-group"
WORKLOAD_LABEL: Final = "kubesched.io/workload"


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes made from one template."""

    name: str
    count: int
    template: Node
    zones: tuple[str, ...] = ()
    price_per_hour: float = 0.0


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that come again and again, made from one template."""

    name: str
    kind: str  # Pod, Job or Deployment
    template: Pod
    arrivals: Arrivals
    replicas: Distribution
    duration: Distribution | None = None  # None: they run to the end
    cpu: Distribution | None = None  # None: as the template says
    memory: Distribution | None = None
    start_delay: Distribution | None = None
    priority: int | None = None


class TracePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a trace: when it comes, what it is, and how long it runs."""

    time_ns: int
    pod: Pod
    duration_ns: int | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes something happens to."""

    group: str = ""
    zone: str = ""
    names: tuple[str, ...] = ()
    count: int | None = None  # so many of these at random; None: all


class ScenarioEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is done to nodes."""

    kind: str  # fail, drain, add, remove
    target: Target
    arrivals: Arrivals
    lasts: Distribution | None = None  # until repaired or uncordoned; None: for good
    count: int = 0  # of nodes to add


class Autoscaler(msgspec.Struct, frozen=True, kw_only=True):
    """A node group that grows while pods wait, and shrinks where nodes idle."""

    group: str
    minimum: int
    maximum: int
    delay_ns: int  # until a new node is there
    idle_ns: int  # after which an empty node goes
    period_ns: int = 10 * SECOND


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How the stand-ins of kubelets behave."""

    start_delay_ns: int = SECOND // 10
    stop_delay_ns: int = SECOND
    rules: str = ""  # YAML, as `kubesched up --behavior` takes it


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler to try."""

    name: str
    configuration: KubeSchedulerConfiguration | None = None
    plugins: tuple[str, ...] = ()  # as `--plugin` takes them


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    name: str
    duration_ns: int
    start_ns: int = DEFAULT_START_NS
    step_ns: int = 300 * SECOND
    seeds: tuple[int, ...] = (0,)
    groups: tuple[NodeGroup, ...] = ()
    objects: tuple[ApiObject, ...] = ()
    workloads: tuple[Workload, ...] = ()
    trace: tuple[TracePod, ...] = ()
    node_events: tuple[ScenarioEvent, ...] = ()
    autoscalers: tuple[Autoscaler, ...] = ()
    behaviour: Behaviour = Behaviour()
    configurations: tuple[Configuration, ...] = (Configuration(name="default"),)
    changes: bool = False  # keep a row for every change too
    hash: str = ""  # of the files that it was read from

    def configuration(self, name: str) -> Configuration:
        return next(each for each in self.configurations if each.name == name)

    @property
    def prices(self) -> Mapping[str, float]:
        """Per hour, by node group."""
        return {group.name: group.price_per_hour for group in self.groups}
