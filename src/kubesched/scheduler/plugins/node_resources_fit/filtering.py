"""Whether a node has room for a pod, and which resources are insufficient.

docs/reference/05 §7.8.3.

In the form for columns, the insufficient resources of a node are an integer with one bit per
resource. There are few distinct integers, however many nodes there are, and each becomes a Status
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api.int64 import add_int64
from kubesched.api.resource_amounts import Resources
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kubesched.framework import SUCCESS, NodeInfo, NodeView, Rejections, Status
from kubesched.framework.causes import Cause, InsufficientResource, TooManyPods
from kubesched.framework.engine import kernels

__all__ = ["Demand", "find_rejections", "fit_status", "node_status"]

# A reason and its cause.
_TOO_MANY_PODS: Final[tuple[str, Cause]] = ("Too many pods", TooManyPods())

_UNRESOLVABLE: Final = 1 << 0
_NO_POD_LEFT: Final = 1 << 1
_FIRST_RESOURCE: Final = 2
_DTYPES: Final = ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64))
_MOST_RESOURCES: Final = 64 - _FIRST_RESOURCE


class Demand(msgspec.Struct, frozen=True):
    """The amounts that must be free on a node for a pod."""

    amounts: tuple[tuple[str, int], ...]  # non-zero, in the order of the reasons
    served_by_devices: frozenset[str] = frozenset()  # by a device class, where a node has 0
    # Cpu, memory and ephemeral storage, if the pod can request nothing else.
    plain: tuple[int, int, int] | None = None

    @classmethod
    def from_resources(
        cls,
        wanted: Resources,
        served: Callable[[list[str]], frozenset[str]],
        is_ignored: Callable[[str], bool] = lambda _: False,
    ) -> Demand:
        """Create a demand without amounts of zero and without ignored scalar resources."""
        plain = _plain_demand(wanted.milli_cpu, wanted.memory, wanted.ephemeral_storage)
        if not wanted.scalar:
            return plain
        # Sorted, so that equal requests produce equal statuses.
        scalars = [(n, a) for n, a in sorted(wanted.scalar.items()) if a and not is_ignored(n)]
        return cls((*plain.amounts, *scalars), served([name for name, _ in scalars]))

    def is_delegated(self, name: str, allocatable: int) -> bool:
        """Whether devices provide the resource, because the node has 0 of it."""
        return allocatable <= 0 and name in self.served_by_devices


@lru_cache(maxsize=1024)
def _plain_demand(milli_cpu: int, memory: int, ephemeral_storage: int) -> Demand:
    amounts = ((CPU, milli_cpu), (MEMORY, memory), (EPHEMERAL_STORAGE, ephemeral_storage))
    plain = (
        None
        if min(milli_cpu, memory, ephemeral_storage) < 0
        else (milli_cpu, memory, ephemeral_storage)
    )
    return Demand(tuple([each for each in amounts if each[1] > 0]), plain=plain)


def fit_status(
    demand: Demand, allocatable: Resources, allowed_pods: int, requested: Resources, pods: int
) -> Status:
    """Return the verdict on one node with these totals."""
    complaints = [_TOO_MANY_PODS] if pods + 1 > allowed_pods else []
    unresolvable = False
    for name, amount in demand.amounts:
        there_is = allocatable.amount(name)
        left = add_int64(there_is, -requested.amount(name))
        if amount > left and not demand.is_delegated(name, there_is):
            complaints.append(_insufficient(name))
            unresolvable |= amount > there_is
    return _rejection(complaints, is_unresolvable=unresolvable) if complaints else SUCCESS


def node_status(demand: Demand, node: NodeInfo) -> Status:
    """Return the verdict on one node."""
    if demand.plain is not None and _has_room(demand.plain, node):  # the usual case
        return SUCCESS
    return fit_status(
        demand, node.allocatable, node.allowed_pod_number, node.requested, len(node.pods)
    )


def _has_room(plain: tuple[int, int, int], node: NodeInfo) -> bool:
    """Whether the pod certainly fits.

    No sum is negative, so none can have wrapped.
    """
    cpu, memory, ephemeral_storage = plain
    there_is, taken = node.allocatable, node.requested
    return (
        len(node.pods) < node.allowed_pod_number
        and 0 <= taken.milli_cpu <= there_is.milli_cpu - cpu
        and 0 <= taken.memory <= there_is.memory - memory
        and 0 <= taken.ephemeral_storage <= there_is.ephemeral_storage - ephemeral_storage
    )


def find_rejections(demand: Demand, nodes: NodeView) -> Rejections:
    """Return the verdicts on many nodes."""
    if len(demand.amounts) > _MOST_RESOURCES:
        return Rejections.from_statuses(node_status(demand, node) for node in nodes)
    complaints: NDArray[np.unsignedinteger] | None = None
    full = nodes.pod_count >= nodes.allowed_pods
    if np.count_nonzero(full):
        complaints = _flag_rows(demand, full, _NO_POD_LEFT)
    if demand.amounts:
        names = tuple([name for name, _ in demand.amounts])
        wanted = [amount for _, amount in demand.amounts]
        allocatable, requested = nodes.allocatable_of(names), nodes.requested_of(names)
        if kernels.is_lacking(allocatable, requested, wanted):
            lacking = allocatable - requested < np.array(wanted)[:, np.newaxis]
            complaints = _complain(demand, allocatable, lacking, complaints)
    if complaints is None:
        return Rejections.none()
    codes, distinct = kernels.number_values(complaints)
    return Rejections(codes, tuple(_status_of(demand, number) for number in distinct))


def _complain(
    demand: Demand,
    allocatable: NDArray[np.int64],
    lacking: NDArray[np.bool_],
    complaints: NDArray[np.unsignedinteger] | None,
) -> NDArray[np.unsignedinteger] | None:
    """Set the bits of the resources that are short.

    Both matrices are [resource, node].
    """

    for place, (name, amount) in enumerate(demand.amounts):
        there_is, short = allocatable[place], lacking[place]
        if name in demand.served_by_devices:
            short &= there_is > 0
        if not short.any():
            continue
        flagged = _flag_rows(demand, short, 1 << (_FIRST_RESOURCE + place))
        complaints = flagged if complaints is None else complaints | flagged
        never = short & (there_is < amount)
        if never.any():
            np.bitwise_or(complaints, _UNRESOLVABLE, out=complaints, where=never)
    return complaints


def _flag_rows(demand: Demand, rows: NDArray[np.bool_], flag: int) -> NDArray[np.unsignedinteger]:
    bits = _FIRST_RESOURCE + len(demand.amounts)
    dtype = next(kind for size, kind in _DTYPES if bits <= size)
    return rows * dtype(flag)


def _status_of(demand: Demand, complaints: int) -> Status:
    return _rejection(
        tuple(_complaints_of(demand, complaints)),
        is_unresolvable=bool(complaints & _UNRESOLVABLE),
    )


def _rejection(complaints: Sequence[tuple[str, Cause]], *, is_unresolvable: bool) -> Status:
    reasons, causes = zip(*complaints, strict=True)
    if is_unresolvable:
        return Status.unresolvable(*reasons, causes=causes)
    return Status.unschedulable(*reasons, causes=causes)


def _complaints_of(demand: Demand, complaints: int) -> Iterator[tuple[str, Cause]]:
    if complaints & _NO_POD_LEFT:
        yield _TOO_MANY_PODS
    for place, (name, _) in enumerate(demand.amounts):
        if complaints >> (_FIRST_RESOURCE + place) & 1:
            yield _insufficient(name)


@lru_cache(maxsize=1024)
def _insufficient(name: str) -> tuple[str, Cause]:
    return f"Insufficient {name}", InsufficientResource(name)
