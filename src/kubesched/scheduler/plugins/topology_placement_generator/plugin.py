"""TopologyPlacementGenerator: one placement per topology domain of a pod group.

docs/reference/09 §9.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kubesched.api import PodGroup
from kubesched.errors import KubeschedError
from kubesched.framework import (
    CycleState,
    Handle,
    Lister,
    Plugin,
    PodGroupInfo,
    PodGroupPlacement,
    Status,
)
from kubesched.framework.pod_groups import PodGroups, UnknownPodGroupError
from kubesched.scheduler.config.plugin_names import TOPOLOGY_PLACEMENT_GENERATOR

__all__ = ["TopologyPlacementGenerator"]


class _DomainError(KubeschedError):
    """The pods of the group that have a node are not in one domain."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"cannot determine domain for already scheduled pods: {reason}")


class TopologyPlacementGenerator(Plugin):
    """Return the nodes of each value of the topology key that the PodGroup names.

    If pods of the group already have nodes, only their domain is returned.
    """

    name = TOPOLOGY_PLACEMENT_GENERATOR

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._members: PodGroups | None = None if handle is None else handle.pod_groups
        self._groups: Lister[PodGroup] | None = None
        if handle is not None and self._members is not None:
            self._groups = handle.lister(PodGroup)

    def generate_placements(
        self, state: CycleState, group: PodGroupInfo, parent: PodGroupPlacement
    ) -> Sequence[PodGroupPlacement] | Status:
        if self._groups is None:
            return (parent,)
        found = self._groups.get(group.name, group.namespace)
        if found is None:
            return Status.failure(f'podgroup.scheduling.k8s.io "{group.name}" not found')
        constraints = found.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return (parent,)
        key = constraints.topology[0].key
        try:
            domain = self._domain_in_use(group, key)
        except (UnknownPodGroupError, _DomainError) as exc:
            return Status.failure(exc)
        return self._placements(key, domain, parent)

    def _domain_in_use(self, group: PodGroupInfo, key: str) -> str | None:
        """Return the domain of the group's pods that have a node; None if there are none.

        Raises:
            UnknownPodGroupError: no pod names the group.
            _DomainError: a pod has no domain, or there are several.
        """
        assert self._members is not None, "checked by the caller"
        domain: str | None = None
        for pod in self._members.members(group.namespace, group.name).scheduled_pods():
            node = self.handle.snapshot.get(pod.spec.node_name)
            shown = f"{pod.metadata.namespace}/{pod.metadata.name}"
            if node is None:
                raise _DomainError(
                    f"getting node for pod {shown}: "
                    f'nodeinfo not found for node name "{pod.spec.node_name}"'
                )
            value = node.labels.get(key)
            if value is None:
                raise _DomainError(f"no topology domain found for pod {shown}")
            # As in the reference, an empty value does not conflict with a later one.
            if domain and domain != value:
                raise _DomainError(f"more than 1 domain found for pod group: {domain}, {value}")
            domain = value
        return domain

    def _placements(
        self, key: str, domain: str | None, parent: PodGroupPlacement
    ) -> list[PodGroupPlacement]:
        """Return one placement per domain, in the order in which the node list has them."""
        nodes = parent.nodes
        column = nodes.table.label_column(key)
        rows = self.handle.snapshot.order
        if not nodes.is_whole:
            rows = rows[np.isin(rows, nodes.rows)]
        values = column.ids[rows]
        if domain is not None:
            wanted = column.values.find(domain)
            return [PodGroupPlacement(domain, nodes.at_rows(rows[values == wanted]))]
        rows, values = rows[values >= 0], values[values >= 0]
        by_value = np.argsort(values, kind="stable")
        _, firsts = np.unique(values[by_value], return_index=True)
        domains = np.split(rows[by_value], firsts[1:]) if len(rows) else []
        position = np.empty(nodes.table.capacity, dtype=np.intp)
        position[rows] = np.arange(len(rows))
        domains.sort(key=lambda each: int(position[each[0]]))
        texts = column.values.values
        return [
            PodGroupPlacement(texts[column.ids[each[0]]], nodes.at_rows(each)) for each in domains
        ]
