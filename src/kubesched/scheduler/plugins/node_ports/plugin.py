"""NodePorts: only one pod of a node can use a host port (docs/reference/05 §7.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod, PodSpec
from kubesched.api.host_ports import WILDCARD_IP, HostPort, host_ports, ports_conflict
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    NodeInfo,
    NodeView,
    Plugin,
    PodInfo,
    PodPart,
    PodsOnNode,
    QueueingHint,
    Reads,
    Rejections,
    StateNotFoundError,
    Status,
)
from kubesched.framework.causes import HostPortInUse
from kubesched.framework.explaining import Explaining
from kubesched.scheduler.config.plugin_names import NODE_PORTS
from kubesched.scheduler.plugins.helpers.hints import expect, is_placed, queue_if
from kubesched.scheduler.plugins.helpers.missing_state import reject_all

__all__ = ["NodePorts"]

STATE_KEY = "PreFilterNodePorts"
TAKEN = Status.unschedulable(
    "node(s) didn't have free ports for the requested pod ports", causes=(HostPortInUse(),)
)


class NodePorts(Plugin):
    """Filter plugin: reject nodes on which a requested host port is in use."""

    name = NODE_PORTS
    reads = Reads(
        pod=PodPart.CONTAINERS | PodPart.HOST,
        pods_on_node=PodsOnNode.SPECS,
        other_nodes=False,
        objects=(),
    )

    def concerns(self, spec: PodSpec) -> bool:
        return any(
            port.host_port > 0
            for container in (*spec.containers, *spec.init_containers)
            for port in container.ports
        )

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        requested = pod_info.host_ports
        if not requested:
            return SKIP
        state.write(STATE_KEY, requested)
        return SUCCESS

    def ignores(self, state: CycleState, pod: Pod, other: PodInfo) -> bool:
        return not other.host_ports

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        try:
            requested = state.read(STATE_KEY)
        except StateNotFoundError as exc:
            return _missing(exc)
        return TAKEN if node.conflicts_with(requested) else SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        try:
            requested: tuple[HostPort, ...] = state.read(STATE_KEY)
        except StateNotFoundError as exc:
            return reject_all(nodes, _missing(exc))
        taken = _rows_with_port_in_use(requested, nodes)
        if not taken:
            return Rejections.none()
        rejected = np.zeros(nodes.table.capacity, dtype=bool)
        for rows in taken:
            rejected[rows] = True
        return Rejections.where(nodes.at(rejected), TAKEN)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE), self._pod_deleted
            ),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        )

    def _pod_deleted(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        deleted = expect(Pod, old)
        if not is_placed(deleted):
            return QueueingHint.SKIP
        freed = set(host_ports(deleted))
        return queue_if(bool(freed) and ports_conflict(host_ports(pod), freed))

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.node_ports.explaining import NodePortsExplaining

        return NodePortsExplaining()


def _rows_with_port_in_use(
    requested: Sequence[HostPort], nodes: NodeView
) -> list[NDArray[np.intp]]:
    """Return arrays of the rows on which one of the ports is in use."""
    taken = []
    for port in dict.fromkeys(requested):
        holders = nodes.table.ports.holders(port.protocol, port.port)
        if not holders:
            continue
        # Look up by address instead of comparing: both sides may have many addresses.
        ips = holders if port.ip == WILDCARD_IP else (port.ip, WILDCARD_IP)
        taken += [holders[ip].rows for ip in ips if ip in holders]
    return taken


def _missing(exc: StateNotFoundError) -> Status:
    return Status.failure(f'reading "{STATE_KEY}" from cycleState: {exc}')
