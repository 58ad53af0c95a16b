"""Whether a volume could be made for a claim on a node (docs/reference/07 §5.5)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kubesched.api import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from kubesched.api.labels import Requirement, Selector
from kubesched.api.quantity import parse_value
from kubesched.errors import SelectorError
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Handle
from kubesched.scheduler.plugins.helpers.volume_claims import VolumeClaimError, claim_class

__all__ = [
    "NO_PROVISIONER",
    "Capacities",
    "Outlook",
    "Provisioners",
    "Provisioning",
    "Topology",
    "capacity_limit",
]

log = get_logger(__name__)

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_EQUALS: Final = ("=", "==", "in")
_MOST_SPACES: Final = 256


class Outlook(enum.IntEnum):
    """What a claim can hope for on a node."""

    POSSIBLE = 0
    IMPOSSIBLE = 1  # nobody makes volumes of the class there
    NO_SPACE = 2


class Topology(NamedTuple):
    """allowedTopologies, compiled: a node must match one of the terms."""

    terms: tuple[Selector, ...]

    @classmethod
    def parse(cls, terms: tuple[TopologySelectorTerm, ...]) -> Topology | None:
        """None if every node is allowed. A term without expressions matches none."""
        return _parse_topology(terms) if terms else None

    def matches(self, labels: Mapping[str, str]) -> bool:
        return any(term.matches(labels) for term in self.terms)


class Capacities:
    """Where there is space for a claim: nodes that one of these selectors matches.

    Most drivers publish one object per node, which asks for one value of one label. Those are
    looked up by that value, so that their number does not matter.
    """

    def __init__(self, found: Iterable[tuple[Selector, CSIStorageCapacity]]) -> None:
        self._by_value: dict[str, dict[str, CSIStorageCapacity]] = {}  # label key -> value
        self._others: list[tuple[Selector, CSIStorageCapacity]] = []
        for selector, capacity in found:
            wanted = selector.requirements
            if len(wanted) == 1 and wanted[0].operator in _EQUALS and len(wanted[0].values) == 1:
                values = self._by_value.setdefault(wanted[0].key, {})
                values.setdefault(wanted[0].values[0], capacity)
            else:
                self._others.append((selector, capacity))
        # The same as few selectors, for many nodes at once.
        self.selectors = tuple(selector for selector, _ in self._others) + tuple(
            Selector([Requirement(key, "in", tuple(values))])
            for key, values in self._by_value.items()
        )

    def at(self, labels: Mapping[str, str]) -> CSIStorageCapacity | None:
        """Space on a node with these labels."""
        for key, values in self._by_value.items():
            value = labels.get(key)
            if value is not None and (capacity := values.get(value)) is not None:
                return capacity
        for selector, capacity in self._others:
            if selector.matches(labels):
                return capacity
        return None


class Provisioning(NamedTuple):
    """What decides for one claim; the same for every node."""

    is_possible: bool  # the class has a provisioner
    topology: Topology | None
    capacities: Capacities | None  # None: space is not looked at

    def outlook(self, labels: Mapping[str, str]) -> tuple[Outlook, CSIStorageCapacity | None]:
        """For a node with these labels, with where the space is if that was looked at."""
        if not self.is_possible or (self.topology and not self.topology.matches(labels)):
            return Outlook.IMPOSSIBLE, None
        if self.capacities is None:
            return Outlook.POSSIBLE, None
        found = self.capacities.at(labels)
        return (Outlook.NO_SPACE, None) if found is None else (Outlook.POSSIBLE, found)


class Provisioners:
    """Looks up classes, drivers and capacities."""

    def __init__(self, handle: Handle) -> None:
        self._classes = handle.lister(StorageClass)
        self._drivers = handle.lister(CSIDriver)
        self._by_class: dict[str, dict[tuple[str, str], CSIStorageCapacity]] = {}
        self._spaces: dict[tuple[str, int], Capacities] = {}  # by class and size
        handle.lister(CSIStorageCapacity).follow(self._capacity_changed)

    def of_claim(self, claim: PersistentVolumeClaim) -> Provisioning:
        """What decides whether a volume can be made for the claim.

        Raises:
            VolumeClaimError: its class is not known.
        """
        class_name = claim_class(claim)
        if not class_name:
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            raise VolumeClaimError(f'no class for claim "{name}"')
        found = self._classes.get(class_name)
        if found is None:
            raise VolumeClaimError(f'failed to find storage class "{class_name}"')
        if found.provisioner in ("", NO_PROVISIONER):
            return _IMPOSSIBLE
        topology = Topology.parse(found.allowed_topologies)
        driver = self._drivers.get(found.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return _ANYWHERE if topology is None else Provisioning(True, topology, None)
        return Provisioning(True, topology, self._spaces_for(claim, class_name))

    def _spaces_for(self, claim: PersistentVolumeClaim, class_name: str) -> Capacities | None:
        raw = claim.spec.resources.requests.get("storage")
        if raw is None:
            return None
        size = parse_value(raw)
        spaces = self._spaces.get((class_name, size))
        if spaces is None:
            if len(self._spaces) >= _MOST_SPACES:
                self._spaces.clear()
            found = self._by_class.get(class_name, {}).values()
            spaces = self._spaces[class_name, size] = Capacities(_large_enough(found, size))
        return spaces

    def _capacity_changed(
        self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None
    ) -> None:
        for each in (old, new):
            if each is not None:
                self._spaces = {
                    key: spaces
                    for key, spaces in self._spaces.items()
                    if key[0] != each.storage_class_name
                }
        if old is not None:
            self._by_class[old.storage_class_name].pop(_key(old), None)
        if new is not None:
            self._by_class.setdefault(new.storage_class_name, {})[_key(new)] = new


def _large_enough(
    capacities: Iterable[CSIStorageCapacity], size: int
) -> Iterator[tuple[Selector, CSIStorageCapacity]]:
    for each in capacities:
        limit = capacity_limit(each)
        if limit is None or limit < size:
            continue
        try:
            selector = Selector.from_label_selector(each.node_topology)
        except SelectorError as exc:
            log.error("Capacity for unknown nodes is not used", exc=exc, capacity=each)
            continue
        if not selector.is_nothing:
            yield selector, each


def _key(capacity: CSIStorageCapacity) -> tuple[str, str]:
    return capacity.metadata.namespace, capacity.metadata.name


def capacity_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume that can be made; None: nobody said."""
    raw = capacity.maximum_volume_size
    if raw is None:
        raw = capacity.capacity
    return None if raw is None else parse_value(raw)


@lru_cache(maxsize=1024)
def _parse_topology(terms: tuple[TopologySelectorTerm, ...]) -> Topology:
    return Topology(tuple(_terms(terms)))


def _terms(terms: Sequence[TopologySelectorTerm]) -> list[Selector]:
    compiled = []
    for term in terms:
        wanted = [Requirement(each.key, "in", each.values) for each in term.match_label_expressions]
        if wanted and not any(requirement.errors() for requirement in wanted):
            compiled.append(Selector(wanted))
    return compiled


_IMPOSSIBLE: Final = Provisioning(False, None, None)
_ANYWHERE: Final = Provisioning(True, None, None)
