"""NodeMetadata: score nodes by a number or a time in a label or an annotation."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import CycleState, Handle, NodeInfo, NodeView, Plugin, PodPart, PodsOnNode
from kubesched.framework import Reads as PluginReads

__all__ = ["NodeMetadata", "NodeMetadataArgs"]

# Values are scored in thousandths of a number or of a second.
_PARTS: Final = 1000
_MISSING: Final = -(1 << 62)
_RFC3339: Final = "2006-01-02T15:04:05Z07:00"
# The elements of a Go time layout, and the equivalents of Python.
_LAYOUT: Final = {
    "January": "%B",
    "Jan": "%b",
    "Monday": "%A",
    "Mon": "%a",
    "2006": "%Y",
    "Z07:00": "%z",
    "-07:00": "%z",
    "-0700": "%z",
    "MST": "%Z",
    "PM": "%p",
    ".000000": ".%f",
    "01": "%m",
    "02": "%d",
    "03": "%I",
    "04": "%M",
    "05": "%S",
    "06": "%y",
    "15": "%H",
}
_LAYOUT_PART: Final = re.compile("|".join(map(re.escape, _LAYOUT)))


class NodeMetadataArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of NodeMetadata."""

    metadata_key: str = ""
    metadata_source: Literal["Label", "Annotation"] = "Label"
    metadata_type: Literal["Number", "Timestamp"] = "Number"
    scoring_strategy: Literal["Highest", "Lowest", "Newest", "Oldest"] = "Highest"
    timestamp_format: str = _RFC3339  # a Go time layout
    default_value: str | None = None  # the score of nodes without the key

    def __post_init__(self) -> None:
        known = ("Highest", "Lowest") if self.metadata_type == "Number" else ("Newest", "Oldest")
        if self.metadata_key and self.scoring_strategy not in known:
            raise ValueError(
                f"scoringStrategy must be {' or '.join(known)} for {self.metadata_type}"
            )
        if self.default_value is not None and _value(self, self.default_value) is None:
            raise ValueError(f"defaultValue is no {self.metadata_type}: {self.default_value!r}")


def _value(args: NodeMetadataArgs, text: str) -> int | None:
    """Return a value in thousandths, or None if the text cannot be parsed."""
    try:
        if args.metadata_type == "Number":
            number = float(text)
            return round(number * _PARTS) if math.isfinite(number) else None
        layout = _LAYOUT_PART.sub(lambda part: _LAYOUT[part.group()], args.timestamp_format)
        moment = datetime.strptime(text, layout)  # noqa: DTZ007 - the layout may have no zone
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * _PARTS)
    except (ValueError, OverflowError):
        return None


class NodeMetadata(Plugin):
    """Score nodes by a number or a time; nodes without a valid value get the score 0."""

    name = "NodeMetadata"
    args_type = NodeMetadataArgs
    reads = PluginReads(
        pod=PodPart.NOTHING, pods_on_node=PodsOnNode.NOTHING, other_nodes=False, objects=()
    )

    def __init__(self, args: NodeMetadataArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args or NodeMetadataArgs(), handle)
        given: NodeMetadataArgs = self.args
        self._sign = 1 if given.scoring_strategy in ("Highest", "Newest") else -1

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        given: NodeMetadataArgs = self.args
        if node.node is None:
            return _MISSING
        metadata = node.node.metadata
        source = metadata.labels if given.metadata_source == "Label" else metadata.annotations
        text = source.get(given.metadata_key, given.default_value)
        value = None if text is None else _value(given, text)
        return _MISSING if value is None else self._sign * value

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        is_known = scores != _MISSING
        if not is_known.any():
            return np.zeros_like(scores)
        lowest, highest = int(scores[is_known].min()), int(scores[is_known].max())
        if highest == lowest:
            return np.where(is_known, 100, 0)
        share = (scores - lowest).astype(np.float64) * 100 / (highest - lowest)
        return np.where(is_known, share, 0).astype(np.int64)
