"""The reference's search without any shortcut, for comparison (docs/reference/08 §8.4, §8.10).

It supports exact and prioritised requests, constraints, devices in use and failing selectors. It
tries every combination, so it is only suitable for a few devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["Ask", "FailingSelectorError", "Limit", "Rule", "plain_search"]

Values = dict[str, object]


class FailingSelectorError(Exception):
    """The selector of a request fails on a device."""


class Ask(NamedTuple):
    """An exact request, or an alternative of a request."""

    name: str
    count: int
    # Whether a device is selected; raises FailingSelectorError.
    selects: Callable[[Values], bool]


class Rule(NamedTuple):
    """A constraint: the attribute, whether values must be distinct, and the requests."""

    attribute: str
    is_distinct: bool
    requests: frozenset[str]


class Limit(Exception):  # noqa: N818
    """A claim would get more than 32 devices."""


class _State:
    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.count = 0
        self.value: object = None
        self.latest: dict[str, object] = {}

    def add(self, request: str, device: Values) -> bool:
        rule = self.rule
        if rule.requests and request not in rule.requests:
            return True
        if rule.attribute not in device:
            return False
        value = device[rule.attribute]
        if rule.is_distinct:
            if self.count and value in self.latest.values():
                return False
            self.latest[request] = value
        elif not self.count:
            self.value = value
        elif value != self.value:
            return False
        self.count += 1
        return True

    def remove(self, request: str) -> None:
        rule = self.rule
        if not rule.requests or request in rule.requests:
            self.latest.pop(request, None)
            self.count -= 1


def plain_search(
    claims: Sequence[tuple[Sequence[Sequence[Ask]], Sequence[Rule]]], devices: Sequence[Values]
) -> list[list[tuple[str, int]]] | None:
    """Return the request and the place of each device, by claim; None if they do not fit."""
    states = [[_State(rule) for rule in rules] for _, rules in claims]
    results: list[list[tuple[str, int]]] = [[] for _ in claims]
    used: set[int] = set()

    def step(c: int, r: int, s: int, taken: int, inside: bool, start: int) -> bool:
        if c == len(claims):
            return True
        requests = claims[c][0]
        if r == len(requests):
            try:
                return step(c + 1, 0, 0, 0, False, 0)
            except Limit:
                return False
        if len(requests[r]) > 1 and not inside:
            only_limits = True
            for k in range(len(requests[r])):
                try:
                    if step(c, r, k, 0, True, 0):
                        return True
                except Limit:
                    continue
                only_limits = False
            if only_limits:
                raise Limit
            return False
        ask = requests[r][s]
        if taken == ask.count:
            return step(c, r + 1, 0, 0, False, 0)
        if len(results[c]) + ask.count - taken > 32:
            raise Limit
        for place in range(start, len(devices)):
            if place in used or not ask.selects(devices[place]):
                continue
            if not take(c, ask.name, place):
                continue
            try:
                found = step(c, r, s, taken + 1, inside, place + 1)
            except Exception:
                give_back(c, ask.name, place)
                raise
            if found:
                return True
            give_back(c, ask.name, place)
        return False

    def take(c: int, name: str, place: int) -> bool:
        for index, state in enumerate(states[c]):
            if not state.add(name, devices[place]):
                for added in states[c][:index]:
                    added.remove(name)
                return False
        used.add(place)
        results[c].append((name, place))
        return True

    def give_back(c: int, name: str, place: int) -> None:
        used.discard(place)
        results[c].pop()
        for state in states[c]:
            state.remove(name)

    return results if step(0, 0, 0, 0, False, 0) else None
