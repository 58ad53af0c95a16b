"""Why a pod fits no node: verdicts per node in compact form; texts are built when read.

docs/reference/04 §11 and §12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.errors import KubeschedError, text_of
from kubesched.framework.cycle_state import StateNotFoundError
from kubesched.framework.rejections import Rejections
from kubesched.framework.status import Code, Status

__all__ = ["Diagnosis", "FitError", "NodeVerdicts", "main_reason"]

NO_NODES_AVAILABLE = "no nodes available to schedule pods"
_SILENT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class NodeVerdicts(NamedTuple):
    """Rejected nodes: the status of `rows[i]` is `statuses[codes[i] - 1]`."""

    rows: NDArray[np.intp]
    codes: NDArray[np.integer]
    statuses: tuple[Status, ...]  # with the plugin that gave them


class Diagnosis:
    """The result of filtering, for messages, preemption and the queue.

    Nodes without a verdict of their own share `absent_nodes_status`: those that PreFilter
    left out, or all of them when PreFilter rejected the pod.
    """

    __slots__ = (
        "_by_name",
        "_verdicts",
        "absent_nodes_status",
        "names",
        "pending_plugins",
        "post_filter_failed",
        "post_filter_message",
        "pre_filter_message",
        "unschedulable_plugins",
    )

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names  # str[row]: the table's, read only while the cycle lasts
        self._verdicts: list[NodeVerdicts] = []
        self._by_name: dict[str, Status] = {}  # verdicts of single nodes
        self.absent_nodes_status = _SILENT
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        self.pre_filter_message = ""
        self.post_filter_message = ""
        self.post_filter_failed = False  # PostFilter ended in an error that may pass

    def note_post_filter(self, status: Status) -> None:
        """Record the status of PostFilter."""
        self.post_filter_message = status.message
        # A state that PreFilter did not write is missing in the next attempt, too.
        is_state_missing = isinstance(status.error, StateNotFoundError)
        self.post_filter_failed = status.code is Code.ERROR and not is_state_missing

    def add_rejections(self, plugin: str, rows: NDArray[np.intp], rejections: Rejections) -> None:
        """Record the nodes of a view (`rows`) that a plugin rejected."""
        assert rejections.codes is not None
        hit = np.flatnonzero(rejections.codes)
        statuses = tuple(status.blame(plugin) for status in rejections.statuses)
        self.add_verdicts(rows[hit], rejections.codes[hit], statuses)

    def add_verdicts(
        self, rows: NDArray[np.intp], codes: NDArray[np.integer], statuses: tuple[Status, ...]
    ) -> None:
        """Record rejected nodes; some of the statuses may belong to none of them."""
        self._verdicts.append(NodeVerdicts(rows, codes, statuses))
        for status, number in zip(statuses, _counts(codes, len(statuses)), strict=True):
            if number:
                self._note_plugin(status)

    def add_node_status(self, node_name: str, status: Status) -> None:
        """Record the verdict on one node; it replaces an earlier one."""
        self._by_name[node_name] = status
        if status.plugin:
            self._note_plugin(status)

    def _note_plugin(self, status: Status) -> None:
        self.unschedulable_plugins.add(status.plugin)
        if status.code is Code.PENDING:
            self.pending_plugins.add(status.plugin)

    def settle(self) -> None:
        """Convert all verdicts to node names: rows are valid during the current cycle only."""
        self._by_name = self.node_statuses()
        self._verdicts = []

    def merge(self, other: Diagnosis) -> None:
        """Add the verdicts of another diagnosis."""
        self._verdicts.extend(other._verdicts)
        self._by_name.update(other._by_name)
        self.unschedulable_plugins |= other.unschedulable_plugins
        self.pending_plugins |= other.pending_plugins

    def merge_except(self, other: Diagnosis, left_out: NDArray[np.bool_]) -> None:
        """Add another diagnosis's verdicts by row, except for rows in `left_out` (bool[row])."""
        for verdicts in other._verdicts:
            keep = ~left_out[verdicts.rows]
            if keep.any():
                self.add_verdicts(verdicts.rows[keep], verdicts.codes[keep], verdicts.statuses)

    @property
    def explicit_count(self) -> int:
        """The number of nodes with a verdict of their own."""
        if not self._by_name:
            return sum(len(verdicts.rows) for verdicts in self._verdicts)
        return len(self.node_statuses())

    def node_statuses(self) -> dict[str, Status]:
        """Return every explicit verdict by node name. Takes a Python step per node."""
        found: dict[str, Status] = {}
        for verdicts in self._verdicts:
            for row, code in zip(verdicts.rows.tolist(), verdicts.codes.tolist(), strict=True):
                found[self.names[row]] = verdicts.statuses[code - 1]
        found.update(self._by_name)
        return found

    def status_of(self, node_name: str, row: int | None) -> Status:
        """Return the verdict on the node, or the shared status if it has no verdict of its own.

        `row` is the row of the node in the table, None if it was removed.
        """
        status = self._by_name.get(node_name)
        if status is not None:
            return status
        if row is not None:
            for verdicts in self._verdicts:
                found = np.flatnonzero(verdicts.rows == row)
                if len(found):
                    return verdicts.statuses[int(verdicts.codes[found[0]]) - 1]
        return self.absent_nodes_status

    def has_code(
        self, code: Code, rows: NDArray[np.intp], row_of: Mapping[str, int], capacity: int
    ) -> NDArray[np.bool_]:
        """Return which rows have a status (own or shared) with exactly this code."""
        found = np.full(capacity, self.absent_nodes_status.code is code)
        for verdicts in self._verdicts:
            wanted = np.array([False, *(status.code is code for status in verdicts.statuses)])
            found[verdicts.rows] = wanted[verdicts.codes]
        for name, status in self._by_name.items():
            if (row := row_of.get(name)) is not None:
                found[row] = status.code is code
        answer: NDArray[np.bool_] = found[rows]
        return answer

    def iter_verdicts(self) -> Iterator[NodeVerdicts]:
        yield from self._verdicts

    def statuses_by_name(self) -> Mapping[str, Status]:
        """Return verdicts of single nodes; they override those by row."""
        return self._by_name

    def reason_counts(self, all_nodes: int) -> Counter[str]:
        """Count the nodes of each reason."""
        counts: Counter[str] = Counter()
        if self._by_name:
            for status in self.node_statuses().values():
                counts.update(status.all_reasons)
        else:
            for verdicts in self._verdicts:
                numbers = _counts(verdicts.codes, len(verdicts.statuses))
                for status, number in zip(verdicts.statuses, numbers, strict=True):
                    if number:
                        for reason in status.all_reasons:
                            counts[reason] += number
        silent = all_nodes - self.explicit_count
        if silent > 0:
            for reason in self.absent_nodes_status.all_reasons:
                counts[reason] += silent
        return counts


def _counts(codes: NDArray[np.integer], kinds: int) -> list[int]:
    """Count how often each of the codes 1..kinds occurs."""
    counts: list[int] = np.bincount(codes, minlength=kinds + 1)[1:].tolist()
    return counts


class FitError(KubeschedError):
    """No node fits the pod. The message is built when it is read."""

    def __init__(self, node_count: int, diagnosis: Diagnosis) -> None:
        super().__init__()
        self.node_count = node_count
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        diagnosis = self.diagnosis
        text = f"0/{self.node_count} nodes are available:"
        if diagnosis.pre_filter_message:
            text += f" {diagnosis.pre_filter_message}."
        else:
            counts = diagnosis.reason_counts(self.node_count)
            if counts:
                parts = sorted(f"{number} {reason}" for reason, number in counts.items())
                text += f" {', '.join(parts)}."
        if diagnosis.post_filter_message:
            text += f" {diagnosis.post_filter_message}"
        return text

    @classmethod
    def for_one_node(cls, node_name: str, status: Status) -> FitError:
        """Return the error for a chosen node that Reserve or Permit rejected."""
        diagnosis = Diagnosis()
        diagnosis.add_node_status(node_name, status)
        diagnosis.unschedulable_plugins.add(status.plugin)
        return cls(1, diagnosis)


def main_reason(status: Status) -> str:
    """Return the reason that most nodes have, or the reason that concerns the pod as a whole."""
    error = status.error
    if not isinstance(error, FitError):
        return _first_sentence(status.message if error is None else text_of(error))
    if error.diagnosis.pre_filter_message:
        return error.diagnosis.pre_filter_message
    counts = error.diagnosis.reason_counts(error.node_count)
    return min(counts, key=lambda reason: (-counts[reason], reason), default=status.message)


def _first_sentence(text: str) -> str:
    return text.partition(".")[0]
