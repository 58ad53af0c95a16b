"""Amounts of resources as a scheduler counts them: integers, one slot per resource.

Cpu is in thousandths, memory and ephemeral storage in bytes, everything else in whole units
(docs/reference/05 §3.1). Names that are none of these are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubesched.api.base import RawQuantity
from kubesched.api.int64 import MAX_INT64, MIN_INT64, add_int64, wrap_int64
from kubesched.api.quantity import Quantity, parse_milli_value, parse_value
from kubesched.api.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    is_scalar_resource_name,
)

__all__ = ["Resources"]


class Resources(msgspec.Struct, gc=False):
    """A vector of amounts that can be added to and subtracted from in place.

    There is one for every pod and node; holding nothing but numbers, none can be part of a cycle,
    and the garbage collector need not look at them.
    """

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    scalar: dict[str, int] = {}

    @classmethod
    def from_resource_list(cls, amounts: Mapping[str, RawQuantity]) -> Resources:
        """Count what a resource list on the wire holds."""
        resources = cls()
        for name, raw in amounts.items():
            if name == CPU:
                resources.milli_cpu = parse_milli_value(raw)
            elif name == MEMORY:
                resources.memory = parse_value(raw)
            elif name == EPHEMERAL_STORAGE:
                resources.ephemeral_storage = parse_value(raw)
            elif is_scalar_resource_name(name):
                resources.scalar[name] = parse_value(raw)
        return resources

    @classmethod
    def from_quantities(cls, amounts: Mapping[str, Quantity]) -> Resources:
        """Count what a sum of resource lists holds, rounding each amount once."""
        resources = cls()
        for name, quantity in amounts.items():
            if name == CPU:
                resources.milli_cpu = quantity.milli_value
            elif name == MEMORY:
                resources.memory = quantity.value
            elif name == EPHEMERAL_STORAGE:
                resources.ephemeral_storage = quantity.value
            elif is_scalar_resource_name(name):
                resources.scalar[name] = quantity.value
        return resources

    @staticmethod
    def allowed_pods(amounts: Mapping[str, RawQuantity]) -> int:
        """How many pods a node's allocatable admits; none if it does not say."""
        raw = amounts.get(PODS)
        return 0 if raw is None else parse_value(raw)

    def add(self, other: Resources) -> None:
        """Add amounts. Sums wrap at 64 bits, as the reference's, so that columns can hold them."""
        cpu, memory = self.milli_cpu + other.milli_cpu, self.memory + other.memory
        # As `add_int64`, without its cost: this is done for every pod that is placed.
        self.milli_cpu = cpu if MIN_INT64 <= cpu <= MAX_INT64 else wrap_int64(cpu)
        self.memory = memory if MIN_INT64 <= memory <= MAX_INT64 else wrap_int64(memory)
        if other.ephemeral_storage:
            self.ephemeral_storage = add_int64(self.ephemeral_storage, other.ephemeral_storage)
        if other.scalar:
            scalar = self.scalar
            for name, amount in other.scalar.items():
                scalar[name] = add_int64(scalar.get(name, 0), amount)

    def subtract(self, other: Resources) -> None:
        """Take amounts away, also those that wrapped; a scalar that falls to zero stays."""
        self.milli_cpu = add_int64(self.milli_cpu, -other.milli_cpu)
        self.memory = add_int64(self.memory, -other.memory)
        self.ephemeral_storage = add_int64(self.ephemeral_storage, -other.ephemeral_storage)
        if other.scalar:
            scalar = self.scalar
            for name, amount in other.scalar.items():
                scalar[name] = add_int64(scalar.get(name, 0), -amount)

    def clone(self) -> Resources:
        return Resources(self.milli_cpu, self.memory, self.ephemeral_storage, dict(self.scalar))

    def amount(self, name: str) -> int:
        """The amount of one resource by name, zero if there is none."""
        if name == CPU:
            return self.milli_cpu
        if name == MEMORY:
            return self.memory
        if name == EPHEMERAL_STORAGE:
            return self.ephemeral_storage
        return self.scalar.get(name, 0)
