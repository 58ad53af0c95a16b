"""Whether a volume can be provisioned for a claim on a node.

docs/reference/07 §5.5.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kubesched.api import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from kubesched.api.labels import Requirement, Selector
from kubesched.api.node_selector import MOST_REQUIREMENTS
from kubesched.api.quantity import parse_value
from kubesched.api.sized_caches import MOST_WEIGHT, cached_unless, weight_of_texts
from kubesched.errors import SelectorError
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Handle
from kubesched.framework.pod_limits import requirements_of
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
    """Whether a claim can be provisioned on a node."""

    POSSIBLE = 0
    IMPOSSIBLE = 1  # the class has no provisioner, or does not allow the node
    NO_SPACE = 2


class Topology(NamedTuple):
    """The compiled allowedTopologies of a class: a node must match one of the terms."""

    terms: tuple[Selector, ...]

    @classmethod
    def parse(cls, terms: tuple[TopologySelectorTerm, ...]) -> Topology | None:
        """Return None if every node is allowed; a term without expressions matches none.

        Terms with too many expressions allow no node.
        """
        if not terms:
            return None
        if sum(len(each.match_label_expressions) for each in terms) > MOST_REQUIREMENTS:
            return cls(())
        return _parse_topology(terms)

    def matches(self, labels: Mapping[str, str]) -> bool:
        return any(term.matches(labels) for term in self.terms)


class Capacities:
    """The nodes with enough storage for a claim, as selectors.

    Most drivers publish one object per node, which requires one value of one label. Such objects
    are looked up by that value, so a lookup does not depend on their number.
    """

    def __init__(self, found: Iterable[tuple[Selector, CSIStorageCapacity]]) -> None:
        self._by_value: dict[str, dict[str, CSIStorageCapacity]] = {}  # label key -> value
        self._others: list[tuple[Selector, CSIStorageCapacity]] = []
        for selector, capacity in found:
            requirements = selector.requirements
            only = requirements[0] if len(requirements) == 1 else None
            if only is not None and only.operator in _EQUALS and len(only.values) == 1:
                self._by_value.setdefault(only.key, {}).setdefault(only.values[0], capacity)
            else:
                self._others.append((selector, capacity))
        # The same condition as a few selectors, for the many-node form.
        self.selectors = tuple(selector for selector, _ in self._others) + tuple(
            Selector([Requirement(key, "in", tuple(values))])
            for key, values in self._by_value.items()
        )

    def at(self, labels: Mapping[str, str]) -> CSIStorageCapacity | None:
        """Return the capacity for a node with these labels, or None."""
        for key, values in self._by_value.items():
            value = labels.get(key)
            if value is not None and (capacity := values.get(value)) is not None:
                return capacity
        for selector, capacity in self._others:
            if selector.matches(labels):
                return capacity
        return None


class Provisioning(NamedTuple):
    """How a claim is provisioned; the same for every node."""

    is_possible: bool  # the class has a provisioner
    topology: Topology | None
    capacities: Capacities | None  # None: storage capacity is not checked

    def outlook(self, labels: Mapping[str, str]) -> tuple[Outlook, CSIStorageCapacity | None]:
        """Return the outlook on a node with these labels, and the capacity if checked."""
        if not self.is_possible or (self.topology and not self.topology.matches(labels)):
            return Outlook.IMPOSSIBLE, None
        if self.capacities is None:
            return Outlook.POSSIBLE, None
        found = self.capacities.at(labels)
        return (Outlook.NO_SPACE, None) if found is None else (Outlook.POSSIBLE, found)


class Provisioners:
    """Finds out how claims are provisioned, from classes, drivers and capacities."""

    def __init__(self, handle: Handle) -> None:
        self._classes = handle.lister(StorageClass)
        self._drivers = handle.lister(CSIDriver)
        self._by_class: dict[str, dict[tuple[str, str], CSIStorageCapacity]] = {}
        self._spaces: dict[tuple[str, int], Capacities] = {}  # (class, size) ->
        handle.lister(CSIStorageCapacity).follow(self._capacity_changed)

    def of_claim(self, claim: PersistentVolumeClaim) -> Provisioning:
        """Return how a volume is provisioned for the claim.

        Raises:
            VolumeClaimError: the class of the claim does not exist.
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
        if requirements_of(each.node_topology) > MOST_REQUIREMENTS:
            log.error("Storage capacity has too many requirements of nodes", capacity=_key(each))
            continue
        try:
            selector = Selector.from_label_selector(each.node_topology)
        except SelectorError as exc:
            log.error("Storage capacity has an invalid topology selector", exc=exc, capacity=each)
            continue
        if not selector.is_nothing:
            yield selector, each


def _key(capacity: CSIStorageCapacity) -> tuple[str, str]:
    return capacity.metadata.namespace, capacity.metadata.name


def capacity_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return the largest volume that can be provisioned.

    The result is None if the driver does not report it.
    """
    raw = capacity.maximum_volume_size
    if raw is None:
        raw = capacity.capacity
    return None if raw is None else parse_value(raw)


def _is_large(terms: tuple[TopologySelectorTerm, ...]) -> bool:
    weight = sum(
        weight_of_texts((each.key, *each.values))
        for term in terms
        for each in term.match_label_expressions
    )
    return weight > MOST_WEIGHT


@cached_unless(_is_large, 1024)
def _parse_topology(terms: tuple[TopologySelectorTerm, ...]) -> Topology:
    return Topology(tuple(_terms(terms)))


def _terms(terms: Sequence[TopologySelectorTerm]) -> list[Selector]:
    compiled = []
    for term in terms:
        required = [
            Requirement(each.key, "in", each.values) for each in term.match_label_expressions
        ]
        if required and not any(requirement.errors() for requirement in required):
            compiled.append(Selector(required))
    return compiled


_IMPOSSIBLE: Final = Provisioning(False, None, None)
_ANYWHERE: Final = Provisioning(True, None, None)
