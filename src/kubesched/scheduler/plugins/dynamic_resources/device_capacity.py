"""Capacity of devices: how much a request takes, and whether there is (docs/reference/08 §8.9)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubesched.api import CapacityRequestPolicy, DeviceCapacity
from kubesched.api.quantity import ZERO, Format, Quantity, quantity_from_json

__all__ = ["Amounts", "CapacityRule", "consumption", "has_room"]

Amounts = Mapping[str, Quantity]


class CapacityRule(msgspec.Struct, frozen=True):
    """A capacity of a device, and the policy for requests of it."""

    value: Quantity
    has_policy: bool = False
    default: Quantity | None = None
    least: Quantity | None = None  # of a range
    most: Quantity | None = None
    step: Quantity | None = None
    has_range: bool = False
    valid_values: tuple[Quantity, ...] = ()

    @classmethod
    def read(cls, capacity: DeviceCapacity) -> CapacityRule:
        """Read the quantities; raises QuantityError."""
        value = quantity_from_json(capacity.value)
        policy = capacity.request_policy
        return cls(value) if policy is None else cls._with_policy(value, policy)

    @classmethod
    def _with_policy(cls, value: Quantity, policy: CapacityRequestPolicy) -> CapacityRule:
        bounds = policy.valid_range
        return cls(
            value,
            has_policy=True,
            default=_optional(policy.default),
            least=None if bounds is None else _optional(bounds.min),
            most=None if bounds is None else _optional(bounds.max),
            step=None if bounds is None else _optional(bounds.step),
            has_range=bounds is not None,
            valid_values=tuple(map(quantity_from_json, policy.valid_values)),
        )

    def consumed(self, wanted: Quantity | None) -> Quantity:
        """What a request for so much takes; None: the request does not name this capacity."""
        if wanted is None:
            return self.value if self.default is None else self.default
        if not self.has_policy:
            return wanted
        if self.least is not None:
            return self._within_range(wanted, self.least)
        for value in self.valid_values:
            if wanted <= value:
                return value
        return wanted

    def _within_range(self, wanted: Quantity, least: Quantity) -> Quantity:
        if wanted < least:
            return least
        if self.step is None or not self.step.value:
            return wanted
        step = self.step.value
        steps = -((least.value - wanted.value) // step)  # rounded up
        return Quantity.from_value(least.value + steps * step, Format.BINARY_SI)

    def is_violated_by(self, amount: Quantity) -> bool:
        """Whether the policy forbids to take so much."""
        if not self.has_policy or (self.default is not None and amount == self.default):
            return False
        if self.has_range:
            if self.most is not None and amount > self.most:
                return True
            if self.step is not None and self.step.value:
                least = 0 if self.least is None else self.least.value
                return (amount.value - least) % self.step.value != 0
        return bool(self.valid_values) and amount not in self.valid_values


def _optional(raw: str | float | None) -> Quantity | None:
    return None if raw is None else quantity_from_json(raw)


def consumption(rules: Mapping[str, CapacityRule], wanted: Amounts) -> dict[str, Quantity]:
    """What a request takes of every capacity of a device."""
    return {name: rule.consumed(wanted.get(name)) for name, rule in rules.items()}


def has_room(
    rules: Mapping[str, CapacityRule], wanted: Amounts, committed: Amounts, taken: Amounts
) -> bool:
    """Whether a device can give what is wanted, besides what was given before."""
    if any(name not in rules for name in wanted):
        return False
    for name, rule in rules.items():
        amount = rule.consumed(wanted.get(name))
        if rule.is_violated_by(amount):
            return False
        if committed.get(name, ZERO) + amount + taken.get(name, ZERO) > rule.value:
            return False
    return True
