"""What the runtime hands back when it looked for a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.framework import Status

__all__ = ["PreFilterOutcome", "Scores"]


class PreFilterOutcome(msgspec.Struct, frozen=True):
    """What PreFilter said: on success, perhaps only some nodes are worth a look."""

    status: Status
    only_nodes: frozenset[str] | None
    narrowing_plugins: frozenset[str]


class Scores:
    """Scores of the nodes of a view, in its order."""

    __slots__ = ("_explain", "total")

    def __init__(
        self,
        total: NDArray[np.int64],
        explain: Callable[[], Mapping[str, NDArray[np.int64]]] = dict,
    ) -> None:
        self.total = total
        self._explain = explain

    @property
    def by_plugin(self) -> Mapping[str, NDArray[np.int64]]:
        """What each plugin added, after normalisation and weight; asked again when read.

        Valid until the cluster changes, like every view of its nodes.
        """
        return self._explain()
