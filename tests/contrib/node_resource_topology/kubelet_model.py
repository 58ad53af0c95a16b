"""The kubelet's topology manager by brute force: it tries all sets of NUMA nodes.

A resource has a hint for each set of NUMA nodes that has enough of it. The hint is preferred if no
smaller set of the empty machine has enough. A merged hint is the intersection of one hint per
resource. With the policy single-numa-node one NUMA node must have everything; with restricted there
must be a merged hint of preferred hints.
"""

from __future__ import annotations

import itertools

Zones = list[dict[str, int]]
Request = dict[str, int]


def _sets(count: int) -> list[tuple[int, ...]]:
    return [
        group
        for size in range(1, count + 1)
        for group in itertools.combinations(range(count), size)
    ]


def _amount(zones: Zones, group: tuple[int, ...], name: str) -> int:
    return sum(zones[zone].get(name, 0) for zone in group)


def merged_hints(free: Zones, whole: Zones, request: Request) -> set[frozenset[int]]:
    """Return the intersections of preferred hints, one per resource, that are not empty."""
    found = {frozenset(range(len(free)))}
    for name, amount in request.items():
        if not any(name in zone for zone in whole):
            continue
        groups = _sets(len(free))
        smallest = min(
            (len(group) for group in groups if _amount(whole, group, name) >= amount), default=0
        )
        hints = [
            frozenset(group)
            for group in groups
            if len(group) == smallest and _amount(free, group, name) >= amount
        ]
        found = {one & other for one in found for other in hints if one & other}
    return found


class Kubelet:
    """The NUMA nodes of one machine, and the resources that its pods use."""

    def __init__(self, zones: Zones, policy: str, scope: str) -> None:
        self.whole = [dict(zone) for zone in zones]
        self.free = [dict(zone) for zone in zones]
        self.policy, self.scope = policy, scope

    def admit(self, containers: list[Request]) -> bool:
        """Give the containers their resources; False: the pod is refused."""
        if self.scope == "pod":
            names = {name for each in containers for name in each}
            total = {name: sum(each.get(name, 0) for each in containers) for name in names}
            return self._has_hint(total) and self._take(total)
        return all(self._has_hint(each) and self._take(each) for each in containers)

    def _has_hint(self, request: Request) -> bool:
        hints = merged_hints(self.free, self.whole, request)
        if self.policy == "single-numa-node":
            # The set must be one NUMA node that provides all resources.
            return any(
                all(
                    self.free[zone].get(name, 0) >= amount
                    for name, amount in request.items()
                    if any(name in each for each in self.whole)
                )
                for zone in range(len(self.free))
            )
        return bool(hints)

    def _take(self, request: Request) -> bool:
        divided = {n: a for n, a in request.items() if any(n in each for each in self.whole)}
        if self.policy == "single-numa-node":
            zone = next(
                zone
                for zone, free in enumerate(self.free)
                if all(free.get(name, 0) >= amount for name, amount in divided.items())
            )
            order = [zone]
        else:
            first = min(min(each) for each in merged_hints(self.free, self.whole, request))
            order = [first]
        for name, amount in divided.items():
            rest = sorted(
                (zone for zone in range(len(self.free)) if zone not in order),
                key=lambda zone: -self.free[zone].get(name, 0),
            )
            for zone in [*order, *rest]:
                taken = min(self.free[zone].get(name, 0), amount)
                if taken:
                    self.free[zone][name] -= taken
                    amount -= taken
        return True
