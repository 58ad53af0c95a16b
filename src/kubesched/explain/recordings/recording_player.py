"""Plays a flight recording: applies its records to a model of the cluster, decision by decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kubesched.api import Pod
from kubesched.errors import CacheError
from kubesched.explain.clusters.cluster_model import ClusterModel, SearchOutcome
from kubesched.explain.recordings.recorded_objects import NOT_REPLAYED, RecordedObjects
from kubesched.explain.recordings.segment_files import RecordingError, SegmentReader, segments_of
from kubesched.foundation.util.clock import ManualClock
from kubesched.framework import CycleState, Nominating, NominatingMode, PodInfo
from kubesched.scheduler.all_plugins import complete_registry
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.options import scheduler_configuration
from kubesched.scheduler.runtime.plugin_loading import is_installed, out_of_tree_plugins
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry, Registry

__all__ = ["PlayedChange", "RecordedDecision", "RecordingPlayer", "read_recording"]


class RecordedDecision(NamedTuple):
    """A recorded decision."""

    at_ns: int
    pod: Pod
    node: str  # empty: none was found
    evaluated: int  # nodes, or one of NO_NODE_FITS and NOT_REPLAYED
    message: str  # why no node fits
    post_filter: str  # the part of the message that PostFilter added

    @property
    def is_verdict(self) -> bool:
        """Whether the decision can be replayed: a verdict about one pod, without extenders."""
        return self.evaluated != NOT_REPLAYED

    @property
    def key(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


class PlayedChange(NamedTuple):
    """An object before and after a change."""

    at_ns: int
    before: Any
    after: Any


class RecordingFiles(NamedTuple):
    """The records of all segments, and errors of damaged segments."""

    header: Mapping[str, Any]
    records: Iterator[list[Any]]
    damages: list[str]


def read_recording(folder: Path) -> RecordingFiles:
    """Open a recording. Snapshots after the first are skipped if nothing is missing before them.

    Raises:
        RecordingError: the folder has no segment, or a file is no segment.
    """
    paths = segments_of(folder)
    if not paths:
        raise RecordingError(f"{folder}: no segments of a recording")
    damages: list[str] = []
    first = next(SegmentReader(paths[0]).records(), None)
    if first is None or first[0] != "h":
        raise RecordingError(f"{paths[0]}: the first frame is missing")

    def records() -> Iterator[list[Any]]:
        for path in paths:
            reader = SegmentReader(path)
            yield from reader.records()
            if reader.damage:
                damages.append(reader.damage)

    return RecordingFiles(first[2], records(), damages)


def _installed_plugins(recorded: Iterable[str]) -> Registry:
    for each in recorded:
        if not is_installed(each):
            error = RecordingError(f"the recording names the plugin {each}, which is not installed")
            error.add_note(f"--plugin {each} allows to run its code")
            raise error
    return out_of_tree_plugins(tuple(recorded))


class RecordingPlayer:
    """A model of the recorded cluster at a moment of the recording."""

    model: ClusterModel

    def __init__(
        self,
        header: Mapping[str, Any],
        *,
        configuration: KubeSchedulerConfiguration | None = None,
        plugins: Registry | None = None,
    ) -> None:
        """Build the model. `configuration` replaces the recorded one.

        `plugins` are the out-of-tree plugins; by default those that the recording names, if they
        are installed.

        Raises:
            RecordingError: the recording names code that is not installed. It is not imported,
                because a recording may come from another user (docs/decisions/0051).
        """
        if plugins is None:
            plugins = _installed_plugins(header["plugins"])
        self._out_of_tree = plugins
        self._gates = FeatureGates(header["gates"])
        self._plugins = complete_registry(plugins)
        self._is_replaced = configuration is not None
        self.configuration = configuration or self._read(header["configuration"])
        self._has_begun = False
        # A segment begins with the last records of the previous one, from its snapshot on.
        self.is_repeated = False
        self._begin(0)
        self._has_begun = False

    def _read(self, document: Any) -> KubeSchedulerConfiguration:
        read = configuration_from_builtins(
            document, gates=self._gates, known_args=PluginRegistry(self._out_of_tree).known_args()
        )
        return scheduler_configuration(
            configuration=read,
            feature_gates=self._gates,
            out_of_tree_registry=self._out_of_tree,
        )

    def _build_model(self, objects: Iterable[Any] = ()) -> ClusterModel:
        return ClusterModel(
            objects,
            self.clock,
            configuration=self.configuration,
            plugins=self._plugins,
            gates=self._gates,
        )

    def _reconfigure(self, document: Any) -> None:
        """Continue with the profiles that the scheduler loaded at this moment."""
        if self._is_replaced:
            return
        self.configuration = self._read(document)
        cache = self.model.cache
        assumed = [
            each.pod
            for info in cache.nodes.values()
            for each in info.pods
            if cache.is_assumed(each.pod)
        ]
        self.model = self._build_model(self.model.objects)
        for pod in assumed:
            self.model.cache.assume_pod(PodInfo(pod))
        self._reserved.clear()
        self._restore_nominations()

    def _begin(self, at_ns: int) -> None:
        self._has_begun = True
        self.clock = ManualClock(at_ns)
        self.model = self._build_model()
        self._objects = RecordedObjects()
        self._reserved: dict[str, tuple[CycleState, Pod, str]] = {}  # by uid
        # The nominations in the scheduler's memory, which may be newer than those in the status of
        # pods.
        self._nominated: list[tuple[str, str, str, str]] = []

    def apply(self, record: list[Any]) -> PlayedChange | RecordedDecision | None:
        """Apply a record; return a change of an object, or a decision.

        A decision has no effect yet: the caller may read the state in which it was made, and then
        calls `carry_out`.
        """
        letter, at_ns = record[0], record[1]
        if letter == "h":
            self._begin_segment(at_ns, record[2], is_continued=not record[3])
            return None
        if letter == "r":
            self.is_repeated = False
            return None
        self.clock.advance(max(0, at_ns - self.clock.now_ns()))
        match record:
            case ["+" | "~" | "-", *_]:
                return self._change(at_ns, record)
            case ["d", _, namespace, name, uid, *decided]:
                pod = self._unbound(namespace, name)
                if pod is not None and pod.metadata.uid == uid:
                    return RecordedDecision(at_ns, pod, *decided)
            case ["c", _, document]:
                self._reconfigure(document)
            case ["f", _, _, _, uid]:
                self._undo(uid)
            case ["n", _, nominated]:
                self._nominated = nominated
                self._restore_nominations()
            case ["a", _, namespace, name, node]:
                pod = self._unbound(namespace, name)
                if pod is not None:
                    self.model.cache.assume_pod(PodInfo(pod).placed_on(node))
        return None

    def _unbound(self, namespace: str, name: str) -> Pod | None:
        pod = self.model.objects.get(Pod, name, namespace)
        return None if pod is None or pod.spec.node_name else pod

    def _begin_segment(self, at_ns: int, header: Mapping[str, Any], *, is_continued: bool) -> None:
        self.is_repeated = is_continued and self._has_begun
        if not self._is_replaced:
            self.configuration = self._read(header["configuration"])
        self._begin(at_ns)

    def _change(self, at_ns: int, record: list[Any]) -> PlayedChange:
        kind, namespace, name, after = self._objects.read(record)
        objects = self.model.objects
        before = objects.get(kind, name, namespace)
        if kind is Pod and before is not None and not before.spec.node_name:
            ended = after is None or after.metadata.uid != before.metadata.uid
            if ended:
                self._undo(before.metadata.uid)
            elif after.spec.node_name:
                self._release(before.metadata.uid)
        if after is None:
            objects.remove(kind, name, namespace)
        else:
            objects.put(after)
        if kind is Pod:
            self._restore_nominations()
        return PlayedChange(at_ns, before, after)

    def carry_out(self, decision: RecordedDecision, outcome: SearchOutcome | None) -> None:
        """Assume the pod where the recorded scheduler placed it, and reserve what it needs."""
        if not decision.node:
            return
        model, pod = self.model, decision.pod
        state = CycleState() if outcome is None else outcome.state
        assumed = PodInfo(pod).placed_on(decision.node)
        if state.adjust_assumed is not None:
            assumed = PodInfo(state.adjust_assumed(assumed.pod, decision.node))
        try:
            model.cache.assume_pod(assumed)
        except CacheError:
            return
        model.nominator.delete_nominated_pod(pod)
        if outcome is not None and outcome.result is not None:
            model.framework_of(pod).binding.run_reserve(state, assumed.pod, decision.node)
            self._reserved[pod.metadata.uid] = (state, assumed.pod, decision.node)

    def _undo(self, uid: str) -> None:
        """Undo the placement of a pod that was assumed and not bound."""
        self._release(uid)
        cache = self.model.cache
        for info in list(cache.nodes.values()):
            for each in info.pods:
                if each.uid == uid and cache.is_assumed(each.pod):
                    cache.forget_pod(each.pod)
                    return

    def _release(self, uid: str) -> None:
        """Release the reservations of a pod whose claims were written or whose attempt failed."""
        reserved = self._reserved.pop(uid, None)
        if reserved is not None:
            state, pod, node = reserved
            self.model.framework_of(pod).binding.run_unreserve(state, pod, node)

    def _restore_nominations(self) -> None:
        nominator = self.model.nominator
        wanted = {uid: (node, namespace, name) for node, namespace, name, uid in self._nominated}
        for node in list(nominator.nominated_nodes()):
            for info in list(nominator.nominated_pods(node)):
                if wanted.get(info.uid, ("",))[0] != node:
                    nominator.delete_nominated_pod(info.pod)
        for uid, (node, namespace, name) in wanted.items():
            pod = self.model.objects.get(Pod, name, namespace)
            if pod is not None and nominator.node_of(uid) != node:
                override = Nominating(NominatingMode.OVERRIDE, node)
                nominator.add_nominated_pod(PodInfo(pod), override)
