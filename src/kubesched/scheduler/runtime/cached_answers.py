"""One entry of the answer cache: verdicts and scores of every row, for pods with one key.

The key has all that the cached plugins read of a pod, as bytes: every part of the pod that one of
them declares in `Plugin.reads`. Pods with the same key get the same answers.

An entry has the answers of the cached plugins for every row, up to a version of the cluster. The
answer cache brings it up to date; no plugin is called here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import reduce
from hashlib import blake2b
from itertools import takewhile
from operator import attrgetter, or_
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod, PodSpec
from kubesched.foundation.util.small_cache import SmallCache
from kubesched.framework import (
    ClusterVersion,
    Diagnosis,
    NodeView,
    Plugin,
    PodPart,
    PodsOnNode,
    Reads,
    Status,
)
from kubesched.framework.engine import TotalIndex
from kubesched.framework.reads import POD_FIELDS

__all__ = [
    "CachedAnswers",
    "CachedFilters",
    "CachedScores",
    "Weighted",
    "is_large_spec",
    "pod_key_function",
]

Rows = int | slice | NDArray[np.intp]
Weighted = Sequence[tuple[Plugin, int]]

_encode = msgspec.json.Encoder(order="deterministic").encode
_encode_compactly = msgspec.msgpack.Encoder().encode
_INDEX_BYTES = 120  # per row in the index
_LARGE_BYTES = 128 << 10
# Caches do not refer to larger specs and keys, so that these are freed with their pods.
_LARGEST_CACHED = 4 << 10
_DIGEST_BYTES = 32


class CachedFilters:
    """The filters whose verdicts are in an entry, in the profile's order."""

    __slots__ = ("kinds", "of_node", "plugins", "reading_pods", "skipped")

    def __init__(self, plugins: Sequence[Plugin], skipped: frozenset[str]) -> None:
        self.skipped = skipped  # names of cached plugins that PreFilter skipped for this key
        self.plugins = [plugin for plugin in plugins if plugin.name not in skipped]
        self.kinds = _kinds_read(self.plugins)
        # Changes of pods do not change these verdicts: no filter before them reads pods either.
        self.of_node = frozenset(plugin.name for plugin in takewhile(_reads_no_pods, self.plugins))
        self.reading_pods = self.plugins[len(self.of_node) :]

    def to_call(self, only_pods: bool) -> Sequence[Plugin]:
        """Return the plugins to call on changed rows; `only_pods`: only pods changed there."""
        return self.reading_pods if only_pods else self.plugins


class CachedScores:
    """The plugins whose scores are in an entry: summed, or stored raw until normalisation."""

    __slots__ = (
        "kinds",
        "names",
        "names_reading_pods",
        "normalizing",
        "normalizing_pods",
        "of_node",
        "reading_pods",
        "skipped",
    )

    def __init__(self, summed: Weighted, normalizing: Weighted, skipped: frozenset[str]) -> None:
        self.skipped = skipped  # names of cached plugins that PreScore skipped for this key
        used = [each for each in summed if each[0].name not in skipped]
        self.reading_pods = [each for each in used if not _reads_no_pods(each[0])]
        self.of_node = [each for each in used if _reads_no_pods(each[0])]
        self.normalizing = [each for each in normalizing if each[0].name not in skipped]
        self.normalizing_pods = [each for each in self.normalizing if not _reads_no_pods(each[0])]
        plugins = [plugin for plugin, _ in (*used, *self.normalizing)]
        self.kinds = _kinds_read(plugins)
        self.names = [plugin.name for plugin in plugins]
        self.names_reading_pods = [each.name for each in plugins if not _reads_no_pods(each)]

    def to_normalize(self, only_pods: bool) -> Weighted:
        """Return the normalising plugins to call on changed rows; see `CachedFilters.to_call`."""
        return self.normalizing_pods if only_pods else self.normalizing


class CachedAnswers:
    """The cached plugins' answers for every row, for pods with one key."""

    __slots__ = (
        "_codes_of",
        "_is_final",
        "all_scored",
        "capacity",
        "codes",
        "counted_bytes",
        "filter_objects",
        "filtered_at",
        "filters",
        "has_final",
        "index",
        "index_uses",
        "is_scored",
        "may_have_index",
        "node_total",
        "plugin_versions",
        "raw_scores",
        "refreshed",
        "score_objects",
        "scored_at",
        "scores",
        "statuses",
        "steady_pods",
        "total",
        "uses",
    )

    def __init__(
        self, capacity: int, normalizing: Sequence[str], total_type: type[np.signedinteger]
    ) -> None:
        self.capacity = capacity
        self.filters: CachedFilters | None = None
        self.scores: CachedScores | None = None
        # The versions up to which verdicts and scores are up to date; None: there are none.
        self.filtered_at: ClusterVersion | None = None
        self.scored_at: ClusterVersion | None = None
        # The versions of everything else they depend on.
        self.plugin_versions: tuple[Hashable, ...] = ()
        self.filter_objects = -1
        self.score_objects = -1
        self.codes = np.zeros(capacity, dtype=np.int32)  # int32[row]: 0 passes, k is status k - 1
        self.statuses: list[Status] = []  # each names the plugin that returned it
        self._codes_of: dict[Status, int] = {}
        # bool[code]: changes of pods on the node cannot change the rejection.
        self._is_final = [False]
        self.has_final = False
        # The rows whose verdicts were refreshed last, and the row version since which.
        self.refreshed: tuple[int, NodeView | None] = (-1, None)
        # Weighted sum of the scores that are not normalised.
        self.total: NDArray[np.signedinteger] = np.zeros(capacity, dtype=total_type)
        # The part of it from plugins that read no pods; None while it is zero everywhere.
        self.node_total: NDArray[np.signedinteger] | None = None
        self.is_scored = np.zeros(capacity, dtype=bool)  # bool[row]: that part is up to date
        self.all_scored = False  # for every node
        # Scores before normalisation; None while every row's score is zero, the usual case.
        self.raw_scores: dict[str, NDArray[np.int64] | None] = dict.fromkeys(normalizing)
        # The passing rows by total, of the same version as verdicts and scores; None: no index.
        self.index: TotalIndex | None = None
        self.index_uses = 0
        self.may_have_index = True
        self.steady_pods = 0  # how many pods in a row found few changes
        self.uses = 0
        self.counted_bytes = 0  # the size that the cache's sum over all entries contains

    @property
    def size_bytes(self) -> int:
        """The memory in use. Large arrays that were never written take none."""
        size = self.total.nbytes + self.is_scored.nbytes
        if self.statuses or self.codes.nbytes < _LARGE_BYTES:
            size += self.codes.nbytes
        if self.node_total is not None:
            size += self.node_total.nbytes
        if self.index is not None:
            size += _INDEX_BYTES * len(self.index)
        return size + sum(raw.nbytes for raw in self.raw_scores.values() if raw is not None)

    def invalidate(self) -> None:
        """Drop all answers, because something besides rows has changed."""
        self.filtered_at = None
        if self.statuses:
            # Whether a verdict is final depends on the filters before it, so all are dropped.
            self.codes[:] = 0
            self.statuses = []
            self._codes_of.clear()
            self._is_final = [False]
            self.has_final = False
        self.invalidate_scores()
        self.may_have_index = True

    def invalidate_scores(self) -> None:
        self.scored_at = None
        self.index = None

    def invalidate_node_scores(self, rows: Rows) -> None:
        """Drop the scores by plugins that read no pods: the nodes in these rows changed."""
        self.is_scored[rows] = False
        self.all_scored = False

    def drop_index(self) -> None:
        """Drop the index because it is stale. One that was never used is not built again."""
        if self.index is not None:
            self.may_have_index = self.index_uses > 0
            self.index = None

    def refreshed_since(self, row_version: int) -> NodeView | None:
        """Return the nodes refreshed last, if they are those that changed since the version."""
        since, changed = self.refreshed
        return changed if since == row_version else None

    def passing(self, nodes: NodeView) -> NodeView:
        """Return the nodes that the cached filters let pass."""
        if not self.statuses:
            return nodes  # no node was ever rejected
        codes = nodes.at(self.codes)
        return nodes.subset(codes == 0) if np.count_nonzero(codes) else nodes

    def record_rejections(self, nodes: NodeView, diagnosis: Diagnosis) -> NodeView:
        """Return the nodes that the cached filters let pass; record the others."""
        codes = nodes.at(self.codes)
        if not self.statuses or not np.count_nonzero(codes):
            return nodes
        rejected = codes != 0
        diagnosis.add_verdicts(nodes.rows[rejected], codes[rejected], tuple(self.statuses))
        return nodes.subset(~rejected)

    def is_passing(self, row: int) -> bool:
        """Whether the cached filters let the node in a row pass."""
        return not self.statuses or not self.codes[row]

    def code_of(self, status: Status, *, is_final: bool) -> int:
        """Return the number that stands for a status in `codes`."""
        code = self._codes_of.get(status)
        if code is None:
            self.statuses.append(status)
            self._is_final.append(is_final)
            self.has_final |= is_final
            code = self._codes_of[status] = len(self.statuses)
        return code

    def is_final(self, row: int) -> bool:
        """Whether changes of pods on the node in a row cannot change its rejection."""
        return self.has_final and self._is_final[self.codes[row]]

    def without_final(self, nodes: NodeView) -> NodeView:
        """Return the nodes without those whose rejection changes of pods cannot change."""
        if not self.has_final:
            return nodes
        codes = nodes.at(self.codes)
        if not np.count_nonzero(codes):  # the usual case: few nodes are rejected
            return nodes
        return nodes.subset(~np.array(self._is_final).take(codes))

    def store_raw(self, plugin: str, rows: Rows, scores: int | NDArray[np.int64]) -> None:
        """Store scores that are normalised later."""
        stored = self.raw_scores[plugin]
        if stored is None:
            if not (scores if isinstance(scores, int) else scores.any()):
                return
            stored = self.raw_scores[plugin] = np.zeros(self.capacity, dtype=np.int64)
        stored[rows] = scores

    def store_node_total(self, rows: Rows, totals: int | NDArray[np.int64]) -> None:
        """Store the part of the sum that comes from plugins that read no pods."""
        if self.node_total is None:
            if not (totals if isinstance(totals, int) else totals.any()):
                return
            self.node_total = np.zeros_like(self.total)
        self.node_total[rows] = totals


def _reads_no_pods(plugin: Plugin) -> bool:
    return plugin.reads.pods_on_node is PodsOnNode.NOTHING


def _kinds_read(plugins: Sequence[Plugin]) -> tuple[type[Any], ...] | None:
    """Return the kinds of objects that any of the plugins reads; None: any kind."""
    kinds: dict[type[Any], None] = {}
    for plugin in plugins:
        if plugin.reads.objects is None:
            return None
        kinds.update(dict.fromkeys(plugin.reads.objects))
    return tuple(kinds)


def is_large_spec(spec: PodSpec) -> bool:
    """Whether a cache must not refer to the spec, because it would outlive its pod."""
    return len(_encode_compactly(spec)) > _LARGEST_CACHED


def pod_key_function(reads: Iterable[Reads]) -> Callable[[Pod], bytes | None]:
    """Return a function that encodes all parts of a pod that plugins read.

    It returns None for a pod whose answers must not be cached.
    """
    parts = reduce(or_, (each.pod for each in reads), PodPart.NOTHING)
    fields = [name for part, names in POD_FIELDS.items() if part in parts for name in names]
    # With one name attrgetter returns no tuple, which makes no difference for the key.
    plain: Callable[[Pod], Any] = attrgetter(*fields) if fields else _nothing
    computed_parts = [get for part, get in _COMPUTED.items() if part in parts]
    by_spec_alone = all(name.startswith("spec.") for name in fields)
    key_of_spec: SmallCache[PodSpec, bytes] = SmallCache()

    def key(pod: Pod) -> bytes | None:
        status, spec = pod.status, pod.spec
        if status.container_statuses or status.resources is not None:
            return None  # after a resize the requests follow the status, not the spec
        cached = key_of_spec.get(spec)
        if cached is not None:
            return cached
        # Computed parts are empty for most pods.
        computed = [get(pod) for get in computed_parts] if spec.affinity or spec.volumes else ()
        encoded = _encode((plain(pod), computed) if any(computed) else plain(pod))
        if len(encoded) > _LARGEST_CACHED:
            return blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
        if by_spec_alone and not is_large_spec(spec):
            key_of_spec.store(spec, encoded)
        return encoded

    return key


def _nothing(_pod: Pod) -> None:
    return None


def _image_volumes(pod: Pod) -> Any:
    return [volume.image for volume in pod.spec.volumes if volume.image is not None]


def _node_affinity(pod: Pod) -> Any:
    affinity = pod.spec.affinity
    return affinity and affinity.node_affinity


def _pod_affinity(pod: Pod) -> Any:
    affinity = pod.spec.affinity
    return affinity and (affinity.pod_affinity, affinity.pod_anti_affinity)


_COMPUTED: dict[PodPart, Callable[[Pod], Any]] = {
    PodPart.CONTAINERS: _image_volumes,
    PodPart.NODE_SELECTION: _node_affinity,
    PodPart.POD_AFFINITY: _pod_affinity,
}
