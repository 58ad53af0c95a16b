"""Results of running the PreFilter, Filter and Score plugins of a profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.framework import Diagnosis, Rejections, Status

__all__ = ["DeferredRejections", "PreFilterOutcome", "RejectionSink", "Scores"]


class PreFilterOutcome(msgspec.Struct, frozen=True):
    """The verdict of PreFilter: a rejection, or success for all or some nodes."""

    status: Status
    # The names of the only nodes that may be feasible; None: all.
    only_nodes: frozenset[str] | None
    # The names of the plugins that narrowed the nodes.
    narrowing_plugins: frozenset[str]


class RejectionSink(Protocol):
    """Takes the rejections of Filter plugins; a `Diagnosis` is one."""

    def add_rejections(self, plugin: str, rows: NDArray[np.intp], rejections: Rejections) -> None:
        """Record the nodes of a view (`rows`) that a plugin rejected."""
        ...


class DeferredRejections:
    """Rejections that become part of a diagnosis only if the search needs one."""

    __slots__ = ("_added",)

    def __init__(self) -> None:
        self._added: list[tuple[str, NDArray[np.intp], Rejections]] = []

    def add_rejections(self, plugin: str, rows: NDArray[np.intp], rejections: Rejections) -> None:
        self._added.append((plugin, rows, rejections))

    def add_to(self, diagnosis: Diagnosis) -> None:
        for plugin, rows, rejections in self._added:
            diagnosis.add_rejections(plugin, rows, rejections)


class Scores:
    """Scores of the nodes of a view, in the order of the view."""

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
        """Each plugin's part of the totals, after normalisation and weighting.

        The plugins are called again on every read. The result is valid until the cluster changes,
        like every view of its nodes.
        """
        return self._explain()
