"""The rule of `finding` for many nodes at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import PersistentVolume, PersistentVolumeClaim
from kubesched.framework import NodeView
from kubesched.scheduler.plugins.helpers.node_matching import match_selector
from kubesched.scheduler.plugins.helpers.volume_claims import SELECTED_NODE, VolumeClaimError
from kubesched.scheduler.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.scheduler.plugins.volume_binding.free_volume_columns import FreeVolumes, match_labels
from kubesched.scheduler.plugins.volume_binding.migration import (
    Migration,
    replaced_plugin,
    translate,
)
from kubesched.scheduler.plugins.volume_binding.pod_claims import PodClaims
from kubesched.scheduler.plugins.volume_binding.static_matching import (
    claim_selector,
    reserved_volume,
)
from kubesched.scheduler.plugins.volume_binding.volume_finder import VolumeFinder, VolumeProblem
from kubesched.scheduler.plugins.volume_binding.volume_index import (
    VolumeIndex,
    VolumeKind,
    claimed_size,
    kind_of_claim,
    required_nodes,
)
from kubesched.scheduler.plugins.volume_binding.volume_provisioning import (
    Outlook,
    Provisioners,
    Provisioning,
)

__all__ = ["ColumnVolumeFinder", "VolumeProblems"]

Mask = NDArray[np.bool_]


class VolumeProblems(NamedTuple):
    """Per node the sum of its problems, and nodes of which it cannot be told."""

    sums: NDArray[np.uint8]
    errors: list[tuple[Mask, str]]


class ColumnVolumeFinder:
    """Looks at all nodes of a view; asks the finder about nodes that columns leave open."""

    def __init__(
        self,
        finder: VolumeFinder,
        index: VolumeIndex,
        volumes: AssumeCache[PersistentVolume],
        provisioners: Provisioners,
        migration: Migration,
    ) -> None:
        self._finder = finder
        self._index = index
        self._volumes = volumes
        self._provisioners = provisioners
        self._migration = migration
        self._free = FreeVolumes(index)

    def find(self, claims: PodClaims, nodes: NodeView) -> VolumeProblems:
        problems = VolumeProblems(np.zeros(len(nodes), dtype=np.uint8), [])
        self._look_at_bound(claims.bound, nodes, problems)
        if claims.delayed:
            self._look_at_delayed(claims, nodes, problems)
        return problems

    def _look_at_bound(
        self, claims: Iterable[PersistentVolumeClaim], nodes: NodeView, problems: VolumeProblems
    ) -> None:
        left = np.ones(len(nodes), dtype=bool)
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                problems.sums[left] |= VolumeProblem.MISSING.value
                return
            fits = self._reaching(volume, nodes, left, problems)
            problems.sums[left & ~fits] |= VolumeProblem.AFFINITY.value
            left &= fits

    def _reaching(
        self, volume: PersistentVolume, nodes: NodeView, asked: Mask, problems: VolumeProblems
    ) -> Mask:
        fits = match_labels(required_nodes(volume), nodes)
        plugin = replaced_plugin(volume)
        if plugin is None:
            return fits
        migrated = self._migration.migrated(plugin, nodes)
        if not (migrated & asked).any():
            return fits
        try:
            translated = translate(plugin, volume)
        except VolumeClaimError as exc:
            problems.errors.append((migrated & asked, str(exc)))
            return fits
        return np.where(migrated, match_labels(required_nodes(translated), nodes), fits)

    def _look_at_delayed(
        self, claims: PodClaims, nodes: NodeView, problems: VolumeProblems
    ) -> None:
        left = np.ones(len(nodes), dtype=bool)
        to_match: list[PersistentVolumeClaim] = []
        selected: list[PersistentVolumeClaim] = []
        for claim in claims.delayed:
            name = claim.metadata.annotations.get(SELECTED_NODE)
            if name is None:
                to_match.append(claim)
                continue
            here = nodes.rows == nodes.table.row_of.get(name, -1)
            problems.sums[left & ~here] |= VolumeProblem.UNBOUND.value
            left &= here
            selected.append(claim)
        if not left.any():
            return
        to_match.sort(key=claimed_size)
        wanting = [(claim, left) for claim in selected]
        try:
            matched, is_open = self._match(to_match, nodes, left)
        except VolumeClaimError as exc:
            problems.errors.append((left, str(exc)))
            return
        wanting += [(claim, left & ~fits) for claim, fits in zip(to_match, matched, strict=True)]
        if is_open.any():
            self._ask_one_by_one(claims, nodes, is_open, problems)
            wanting = [(claim, where & ~is_open) for claim, where in wanting]
        self._look_at_provisioning(wanting, nodes, problems)

    def _match(
        self, claims: list[PersistentVolumeClaim], nodes: NodeView, asked: Mask
    ) -> tuple[list[Mask], Mask]:
        """Per claim, the nodes where it gets a volume, and the nodes where that is open.

        It is where claims of one pod may want the same volumes and there are few of them.
        """
        matched: list[Mask] = []
        is_open = np.zeros(len(nodes), dtype=bool)
        before: dict[VolumeKind, int] = {}
        keys = {(claim.metadata.namespace, claim.metadata.name) for claim in claims}
        if len(keys) < len(claims):
            is_open |= asked  # one claim under two names
        for claim in claims:
            claim_selector(claim)  # one that is not valid is an error also where it is not used
            reserved = reserved_volume(claim, self._index)
            if reserved is not None:
                matched.append(match_labels(required_nodes(reserved), nodes))
                continue
            kind = kind_of_claim(claim)
            if not self._index.has_free(kind):
                matched.append(np.zeros(len(nodes), dtype=bool))
                continue
            counts = nodes.at(self._free.counts(claim, nodes))
            fits = counts > 0
            rivals = before.get(kind, 0)
            if rivals:
                is_open |= asked & fits & (counts <= rivals)
            before[kind] = rivals + 1
            matched.append(fits)
        return matched, is_open

    def _ask_one_by_one(
        self, claims: PodClaims, nodes: NodeView, where: Mask, problems: VolumeProblems
    ) -> None:
        for place in np.flatnonzero(where).tolist():
            node = nodes.info_at(int(nodes.rows[place]))
            try:
                found = self._finder.find(claims, node.name, node.labels)
            except VolumeClaimError as exc:
                problems.errors.append((np.arange(len(nodes)) == place, str(exc)))
            else:
                problems.sums[place] = found.problems

    def _look_at_provisioning(
        self,
        wanting: list[tuple[PersistentVolumeClaim, Mask]],
        nodes: NodeView,
        problems: VolumeProblems,
    ) -> None:
        """The first claim that no volume can be made for decides about a node."""
        decided = np.zeros(len(nodes), dtype=bool)
        for claim, where in wanting:
            asked = where & ~decided
            if not asked.any():
                continue
            try:
                provisioning = self._provisioners.of_claim(claim)
            except VolumeClaimError as exc:
                problems.errors.append((asked, str(exc)))
                decided |= asked
                continue
            outlook = _outlook(provisioning, nodes)
            problems.sums[asked & (outlook == Outlook.IMPOSSIBLE)] |= VolumeProblem.UNBOUND.value
            problems.sums[asked & (outlook == Outlook.NO_SPACE)] |= VolumeProblem.SPACE.value
            decided |= asked & (outlook != Outlook.POSSIBLE)


def _outlook(provisioning: Provisioning, nodes: NodeView) -> NDArray[np.uint8]:
    """`Provisioning.outlook` of every node."""
    if not provisioning.is_possible:
        return np.full(len(nodes), Outlook.IMPOSSIBLE, dtype=np.uint8)
    outlook = np.zeros(len(nodes), dtype=np.uint8)
    if provisioning.capacities is not None:
        has_space = np.zeros(len(nodes), dtype=bool)
        for selector in provisioning.capacities.selectors:
            has_space |= match_selector(selector, nodes)
        outlook[~has_space] = Outlook.NO_SPACE
    if provisioning.topology is not None:
        allowed = np.zeros(len(nodes), dtype=bool)
        for selector in provisioning.topology.terms:
            allowed |= match_selector(selector, nodes)
        outlook[~allowed] = Outlook.IMPOSSIBLE
    return outlook
