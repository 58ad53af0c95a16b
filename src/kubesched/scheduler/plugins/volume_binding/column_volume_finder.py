"""Whether nodes can serve a pod's claims: the many-node rule."""

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
from kubesched.scheduler.plugins.volume_binding.claim_provisioning import (
    Outlook,
    Provisioners,
    Provisioning,
)
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

__all__ = ["ColumnVolumeFinder", "VolumeProblems"]

Mask = NDArray[np.bool_]


class VolumeProblems(NamedTuple):
    """The sum of problems of each node, and masks of nodes with an error."""

    sums: NDArray[np.uint8]
    errors: list[tuple[Mask, str]]


class ColumnVolumeFinder:
    """Evaluates all nodes of a view.

    Uses the one-node finder where columns cannot decide.
    """

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
        self._check_bound(claims.bound, nodes, problems)
        if claims.delayed:
            self._check_delayed(claims, nodes, problems)
        return problems

    def _check_bound(
        self, claims: Iterable[PersistentVolumeClaim], nodes: NodeView, problems: VolumeProblems
    ) -> None:
        left = np.ones(len(nodes), dtype=bool)
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                problems.sums[left] |= VolumeProblem.MISSING.value
                return
            fits = self._reachable(volume, nodes, left, problems)
            problems.sums[left & ~fits] |= VolumeProblem.AFFINITY.value
            left &= fits

    def _reachable(
        self, volume: PersistentVolume, nodes: NodeView, asked: Mask, problems: VolumeProblems
    ) -> Mask:
        """Return the nodes that can reach a volume; add errors for those in `asked`."""
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

    def _check_delayed(self, claims: PodClaims, nodes: NodeView, problems: VolumeProblems) -> None:
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
        to_provision = [(claim, left) for claim in selected]
        try:
            matched, is_open = self._match(to_match, nodes, left)
        except VolumeClaimError as exc:
            problems.errors.append((left, str(exc)))
            return
        to_provision += [
            (claim, left & ~fits) for claim, fits in zip(to_match, matched, strict=True)
        ]
        if is_open.any():
            self._check_one_by_one(claims, nodes, is_open, problems)
            to_provision = [(claim, where & ~is_open) for claim, where in to_provision]
        self._check_provisioning(to_provision, nodes, problems)

    def _match(
        self, claims: list[PersistentVolumeClaim], nodes: NodeView, asked: Mask
    ) -> tuple[list[Mask], Mask]:
        """Return the nodes where each claim gets a volume, and undecided nodes.

        A node is undecided if several claims of the pod compete there for too few volumes.
        """
        matched: list[Mask] = []
        is_open = np.zeros(len(nodes), dtype=bool)
        before: dict[VolumeKind, int] = {}
        keys = {(claim.metadata.namespace, claim.metadata.name) for claim in claims}
        if len(keys) < len(claims):
            is_open |= asked  # two volumes of the pod use one claim
        for claim in claims:
            claim_selector(claim)  # raises for an invalid selector, even if it is not needed
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

    def _check_one_by_one(
        self, claims: PodClaims, nodes: NodeView, where: Mask, problems: VolumeProblems
    ) -> None:
        for place in np.flatnonzero(where).tolist():
            node = nodes.info(place)
            try:
                found = self._finder.find(claims, node.name, node.labels)
            except VolumeClaimError as exc:
                problems.errors.append((np.arange(len(nodes)) == place, str(exc)))
            else:
                problems.sums[place] = found.problems

    def _check_provisioning(
        self,
        to_provision: list[tuple[PersistentVolumeClaim, Mask]],
        nodes: NodeView,
        problems: VolumeProblems,
    ) -> None:
        """Add the problem of the first claim that a node cannot provision."""
        decided = np.zeros(len(nodes), dtype=bool)
        for claim, where in to_provision:
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
    """Return `Provisioning.outlook` for each node."""
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
