"""How many free volumes a claim can use on each node, as columns.

A volume's affinity is evaluated once for all nodes. The number of usable volumes per node is a
column per kind and size of claim; the columns are updated with every change of a volume.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import NodeSelector, PersistentVolume, PersistentVolumeClaim
from kubesched.api.labels import Selector
from kubesched.api.node_selector import NodeMatcher
from kubesched.framework import NodeView
from kubesched.framework.engine.node_table import LabelColumn
from kubesched.scheduler.plugins.helpers.node_matching import match_selector
from kubesched.scheduler.plugins.volume_binding.static_matching import claim_selector
from kubesched.scheduler.plugins.volume_binding.volume_index import (
    VolumeIndex,
    VolumeKind,
    claimed_size,
    is_free,
    kind_of_claim,
    kind_of_volume,
    required_nodes,
    size_of,
)

__all__ = ["FreeVolumes", "match_labels"]

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

_MOST_COLUMNS = 64


class _VolumeRequest(NamedTuple):
    """The properties of a claim that decide which free volumes it can use."""

    kind: VolumeKind
    size: int
    selector: Selector | None
    access_modes: frozenset[str]

    @classmethod
    def of(cls, claim: PersistentVolumeClaim) -> _VolumeRequest:
        return cls(
            kind_of_claim(claim),
            claimed_size(claim),
            claim_selector(claim),
            frozenset(claim.spec.access_modes),
        )

    def admits(self, volume: PersistentVolume) -> bool:
        """Whether the claim can use the volume."""
        return (
            is_free(volume)
            and kind_of_volume(volume) == self.kind
            and size_of(volume) >= self.size
            and (self.selector is None or self.selector.matches(volume.metadata.labels))
            and self.access_modes.issubset(volume.spec.access_modes)
        )


class FreeVolumes:
    """Per request, the number of volumes it can use on each node (int32[row])."""

    def __init__(self, index: VolumeIndex) -> None:
        self._index = index
        self._counts: OrderedDict[_VolumeRequest, NDArray[np.int32]] = OrderedDict()
        self._rows_of: dict[NodeSelector, Rows] = {}
        self._labels: dict[str, LabelColumn] = {}  # columns that the rows depend on
        self._nodes: NodeView | None = None
        self._version: tuple[object, ...] = ()
        index.listeners.append(self._changed)

    def counts(self, claim: PersistentVolumeClaim, nodes: NodeView) -> NDArray[np.int32]:
        """Return the column of a claim.

        Raises:
            VolumeClaimError: the claim's selector is invalid.
        """
        request = _VolumeRequest.of(claim)
        if not self._is_current(nodes):
            self._reset(nodes)
        counts = self._counts.get(request)
        if counts is None:
            counts = self._counts[request] = self._count(request, nodes)
            if len(self._counts) > _MOST_COLUMNS:
                self._counts.popitem(last=False)
            self._version = self._version_of(nodes)  # more label columns may be in use
        self._counts.move_to_end(request)
        return counts

    def _count(self, request: _VolumeRequest, nodes: NodeView) -> NDArray[np.int32]:
        everywhere = 0
        found: list[Rows] = []
        for name in self._index.all_free(request.kind, request.size):
            volume = self._index.get(name)
            if request.admits(volume):
                rows = self._rows(volume)
                if rows is None:
                    everywhere += 1
                else:
                    found.append(rows)
        capacity = nodes.table.capacity
        counts = np.full(capacity, everywhere, dtype=np.int32)
        if found:
            counts += np.bincount(np.concatenate(found), minlength=capacity).astype(np.int32)
        return counts

    def _changed(self, before: PersistentVolume | None, after: PersistentVolume | None) -> None:
        if not self._counts:
            return
        if self._nodes is None or not self._is_current(self._nodes):
            self._counts.clear()
            return
        labels = len(self._labels)
        for request, counts in self._counts.items():
            for volume, step in ((before, -1), (after, 1)):
                if volume is not None and request.admits(volume):
                    rows = self._rows(volume)
                    counts[slice(None) if rows is None else rows] += step
        if len(self._labels) != labels:  # more label columns are in use
            self._version = self._version_of(self._nodes)

    def _rows(self, volume: PersistentVolume) -> Rows | None:
        """Return the rows of the nodes that can reach the volume; None: all."""
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return None
        rows = self._rows_of.get(affinity.required)
        if rows is None:
            matcher = required_nodes(volume)
            assert matcher is not None
            assert self._nodes is not None
            for term in matcher.terms:
                for each in term.selector.requirements:
                    if each.key not in self._labels:
                        self._labels[each.key] = self._nodes.table.label_column(each.key)
            whole = self._nodes.whole
            rows = self._rows_of[affinity.required] = whole.rows[match_labels(matcher, whole)]
        return rows

    def _reset(self, nodes: NodeView) -> None:
        self._counts.clear()
        self._rows_of.clear()
        self._labels.clear()
        self._nodes = nodes.whole
        self._version = self._version_of(nodes)

    def _is_current(self, nodes: NodeView) -> bool:
        return self._nodes is not None and self._version == self._version_of(nodes)

    def _version_of(self, nodes: NodeView) -> tuple[object, ...]:
        table = nodes.table
        versions = (column.version for column in self._labels.values())
        return id(table), table.membership_version, table.capacity, *versions


def match_labels(matcher: NodeMatcher | None, nodes: NodeView) -> Mask:
    """Return the nodes whose labels match; a volume's affinity does not use fields."""
    if matcher is None:
        return np.ones(len(nodes), dtype=bool)
    matched = np.zeros(len(nodes), dtype=bool)
    for term in matcher.terms:
        if not term.errors:
            matched |= match_selector(term.selector, nodes)
    return matched
