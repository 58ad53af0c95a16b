"""Capacity of devices: the consumption of requests, and the remaining capacity.

docs/reference/08 §8.9.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubesched.api import CapacityRequestPolicy, DeviceCapacity
from kubesched.api.quantity import ZERO, Format, Quantity, quantity_from_json

__all__ = ["Amounts", "CapacityRule", "consumption", "has_room"]

Amounts = Mapping[str, Quantity]


class CapacityRule(msgspec.Struct, frozen=True):
    """A capacity of a device, with the policy for requests of it."""

    value: Quantity
    has_policy: bool = False
    default: Quantity | None = None
    least: Quantity | None = None  # of the valid range
    most: Quantity | None = None  # of the valid range
    step: Quantity | None = None
    has_range: bool = False
    valid_values: tuple[Quantity, ...] = ()

    @classmethod
    def read(cls, capacity: DeviceCapacity) -> CapacityRule:
        """Parse the quantities; raises QuantityError."""
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

    def consumed(self, requested: Quantity | None) -> Quantity:
        """Return the consumption of a request with this amount.

        `requested` is None if the request does not name the capacity.
        """
        if requested is None:
            return self.value if self.default is None else self.default
        if not self.has_policy:
            return requested
        if self.least is not None:
            return self._within_range(requested, self.least)
        for value in self.valid_values:
            if requested <= value:
                return value
        return requested

    def _within_range(self, requested: Quantity, least: Quantity) -> Quantity:
        if requested < least:
            return least
        if self.step is None or not self.step.value:
            return requested
        step = self.step.value
        steps = -((least.value - requested.value) // step)  # rounded up
        return Quantity.from_value(least.value + steps * step, Format.BINARY_SI)

    def is_violated_by(self, amount: Quantity) -> bool:
        """Whether the policy forbids to consume this amount."""
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


def consumption(rules: Mapping[str, CapacityRule], requested: Amounts) -> dict[str, Quantity]:
    """Return what a request consumes of each capacity of a device."""
    return {name: rule.consumed(requested.get(name)) for name, rule in rules.items()}


def has_room(
    rules: Mapping[str, CapacityRule], requested: Amounts, committed: Amounts, taken: Amounts
) -> bool:
    """Whether a device has the requested capacity left."""
    if any(name not in rules for name in requested):
        return False
    for name, rule in rules.items():
        amount = rule.consumed(requested.get(name))
        if rule.is_violated_by(amount):
            return False
        if committed.get(name, ZERO) + amount + taken.get(name, ZERO) > rule.value:
            return False
    return True
