"""Amounts of resources as the scheduler counts them: integers, one per resource.

Cpu is in thousandths, memory and ephemeral storage in bytes, everything else in whole units
(docs/reference/05 §3.1). Unknown names are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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

# Up to this many scalars may be present with zero.
_MOST_ZEROS: Final = 128


class Resources(msgspec.Struct, gc=False):
    """A vector of amounts that can be added to and subtracted from in place.

    There is one for every pod and node. It refers to numbers only and cannot be part of a cycle,
    so the garbage collector does not track it.
    """

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    scalar: dict[str, int] = {}

    @classmethod
    def from_resource_list(cls, amounts: Mapping[str, RawQuantity]) -> Resources:
        """Create the vector of a resource list on the wire."""
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
        """Create the vector of a sum of resource lists, rounding each amount once."""
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
        """Return the number of pods that a node's allocatable admits; 0 if it is absent."""
        raw = amounts.get(PODS)
        return 0 if raw is None else parse_value(raw)

    def add(self, other: Resources) -> None:
        """Add amounts; sums wrap at 64 bits as in the reference."""
        cpu, memory = self.milli_cpu + other.milli_cpu, self.memory + other.memory
        # `add_int64`, inlined because this runs for every placed pod.
        self.milli_cpu = cpu if MIN_INT64 <= cpu <= MAX_INT64 else wrap_int64(cpu)
        self.memory = memory if MIN_INT64 <= memory <= MAX_INT64 else wrap_int64(memory)
        if other.ephemeral_storage:
            self.ephemeral_storage = add_int64(self.ephemeral_storage, other.ephemeral_storage)
        if other.scalar:
            scalar = self.scalar
            for name, amount in other.scalar.items():
                scalar[name] = add_int64(scalar.get(name, 0), amount)

    def subtract(self, other: Resources) -> None:
        """Subtract amounts, including wrapped ones.

        A scalar that becomes 0 stays present, as in the reference, unless there are many.
        """
        self.milli_cpu = add_int64(self.milli_cpu, -other.milli_cpu)
        self.memory = add_int64(self.memory, -other.memory)
        self.ephemeral_storage = add_int64(self.ephemeral_storage, -other.ephemeral_storage)
        if other.scalar:
            scalar = self.scalar
            for name, amount in other.scalar.items():
                scalar[name] = add_int64(scalar.get(name, 0), -amount)
            if len(scalar) > _MOST_ZEROS:  # pods can name ever new resources
                self.scalar = {name: amount for name, amount in scalar.items() if amount}

    def clone(self) -> Resources:
        return Resources(self.milli_cpu, self.memory, self.ephemeral_storage, dict(self.scalar))

    def amount(self, name: str) -> int:
        """Return the amount of one resource by name, 0 if it is absent."""
        if name == CPU:
            return self.milli_cpu
        if name == MEMORY:
            return self.memory
        if name == EPHEMERAL_STORAGE:
            return self.ephemeral_storage
        return self.scalar.get(name, 0)
