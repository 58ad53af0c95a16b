"""A Handle over plain objects, to build and call a plugin in a test."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from prometheus_client import CollectorRegistry

from kubesched.api import ApiAccess, Node, Pod
from kubesched.api.base import ApiObject
from kubesched.errors import WebPageError
from kubesched.foundation.client.event_naming import reference_to
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import Clock, ManualClock
from kubesched.foundation.util.virtual_loop import DEFAULT_START_NS
from kubesched.framework import (
    ClaimCache,
    ClusterVersion,
    CycleState,
    DryRun,
    Extender,
    Handle,
    Informer,
    Lister,
    NodeInfo,
    NodeScores,
    NodeView,
    NominatedTotals,
    PodInfo,
    PodInPreBind,
    PreemptionRules,
    Rejections,
    SharedState,
    Snapshot,
    Status,
    VictimPreemption,
    WaitingPod,
)
from kubesched.framework.background_calls import ApiDispatcher
from kubesched.framework.pod_groups import PodGroups
from kubesched.scheduler.backend.queue import PodNominator
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.types import API_VERSION
from kubesched.scheduler.plugins.default_preemption.ruled_preemption import RuledPreemption
from kubesched.scheduler.runtime.services import Services
from kubesched.scheduler.runtime.waiting_pods import PodInPreBindEntry
from kubesched.testing.fakes.fake_objects import FakeApi, FakeInformer, FakeObjects
from kubesched.testing.objects.views import make_snapshot

__all__ = [
    "FakeHandle",
    "FakePodInPreBind",
    "FakeRecorder",
    "FakeWaitingPod",
    "RecordedEvent",
    "make_nominator",
]

T = TypeVar("T", bound=msgspec.Struct)


class RecordedEvent(NamedTuple):
    regarding: str  # namespace/name
    type: str
    reason: str
    action: str
    note: str
    related: str = ""  # kind namespace/name


class FakeRecorder:
    """Appends events to a list."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []

    def event(
        self,
        regarding: Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ApiObject | None = None,
    ) -> None:
        name = f"{regarding.metadata.namespace}/{regarding.metadata.name}"
        involved = ""
        if related is not None:
            reference = reference_to(related)
            involved = f"{reference.kind} {reference.namespace}/{reference.name}"
        self.events.append(RecordedEvent(name, kind, reason, action, note, involved))


def make_nominator(objects: FakeObjects) -> PodNominator:
    """Make the queue's own nominator; every pod without a node counts as waiting.

    As in a scheduler, a pod can be nominated only while it has no node.
    """

    def find(key: str) -> PodInfo | None:
        namespace, _, name = key.partition("/")
        pod = objects.get(Pod, name, namespace)
        return None if pod is None or pod.spec.node_name else PodInfo(pod)

    nominator = PodNominator(objects.lister(Pod), find)

    def follow(old: Any, new: Any) -> None:
        for pod in (old, new):
            if isinstance(pod, Pod):
                nominator.touch(pod.metadata.uid)

    objects.listeners.append(follow)
    return nominator


class FakeWaitingPod:
    """A pod that waits on permit for these plugins, and their decisions."""

    def __init__(self, pod: Pod, *plugins: str) -> None:
        self.pod = pod
        self._pending = dict.fromkeys(plugins)
        self.rejection: tuple[str, str] | None = None  # plugin, message
        self.preemption: tuple[str, str] | None = None  # plugin, message

    @property
    def pending_plugins(self) -> Collection[str]:
        return tuple(self._pending)

    @property
    def is_allowed(self) -> bool:
        return not self._pending and not self._is_refused

    @property
    def is_decided(self) -> bool:
        return not self._pending or self._is_refused

    def allow(self, plugin: str) -> None:
        self._pending.pop(plugin, None)

    def reject(self, plugin: str, message: str) -> bool:
        if self._is_refused or not self._pending:
            return False
        self.rejection = (plugin, message)
        return True

    def preempt(self, plugin: str, message: str) -> bool:
        if self._is_refused or not self._pending:
            return False
        self.preemption = (plugin, message)
        return True

    @property
    def _is_refused(self) -> bool:
        return self.rejection is not None or self.preemption is not None


class FakePodInPreBind:
    """A pod in PreBind until `is_over` is set, and the reason why it was stopped."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.is_over = False
        self.cancel_reason = ""

    def cancel(self, reason: str) -> bool:
        if self.is_over:
            return False
        self.cancel_reason = reason
        return True


class FakeHandle:
    """The services of a plugin, built from plain objects.

    The snapshot consists of the nodes and the placed pods among the objects, unless one is given.
    All objects are in the listers and available through `api`, whose writes change both. Feature
    gates have the defaults of the reference except those given. `runner` is the Framework, or any
    Handle, that runs other plugins for this one. A spawned coroutine runs as a task of the running
    loop; `finish_work` waits for it.
    """

    def __init__(
        self,
        objects: Iterable[ApiObject] = (),
        *,
        snapshot: Snapshot | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        clock: Clock | None = None,
        seed: int = 0,
        api: ApiAccess | None = None,
        waiting: Iterable[WaitingPod] = (),
        in_pre_bind: Iterable[PodInPreBind] = (),
        runner: Handle | None = None,
        profile_name: str = "default-scheduler",
        extenders: Sequence[Extender] = (),
        kubeconfig: Any = None,
        pod_groups: PodGroups | None = None,
        api_dispatcher: ApiDispatcher | None = None,
    ) -> None:
        self.pod_groups = pod_groups
        self.api_dispatcher = api_dispatcher
        self.extenders = tuple(extenders)
        self.kubeconfig = kubeconfig
        self.component_config_version = API_VERSION
        self.objects = FakeObjects(objects)
        self.profile_name = profile_name
        self.snapshot: Snapshot = self._take_snapshot() if snapshot is None else snapshot
        self.nominator = make_nominator(self.objects)
        self.recorder = FakeRecorder()
        self.clock: Clock = ManualClock(DEFAULT_START_NS) if clock is None else clock
        self.random = random.Random(seed)
        self.fake_api = FakeApi(self.objects)
        self.api: ApiAccess = self.fake_api if api is None else api
        self.activated: dict[str, Pod] = {}
        self.shared = SharedState()
        self.runner = runner
        self.metrics = SchedulerMetrics(CollectorRegistry())
        self.room = False  # the result of dry_run.fits_now
        self.helps = True  # the result of dry_run.fits_without for all victims, or more
        self.enough: frozenset[str] = frozenset()  # pods without which it fits as well
        # uid of a pod -> the victims of its first call
        self._victims: dict[str, frozenset[str]] = {}
        self.pages: dict[str, bytes] = {}  # results of `read_page` by URL
        self.work: set[asyncio.Task[None]] = set()
        self._waiting = {entry.pod.metadata.uid: entry for entry in waiting}
        self._in_pre_bind = {entry.pod.metadata.uid: entry for entry in in_pre_bind}
        self._gates = FeatureGates(feature_gates)

    def _take_snapshot(self) -> Snapshot:
        placed = [pod for pod in self.objects.list(Pod) if pod.spec.node_name]
        return make_snapshot(self.objects.list(Node), placed)

    def refresh(self) -> None:
        """Take a new snapshot of the current objects."""
        self.snapshot = self._take_snapshot()

    def services(self) -> Services:
        """Return the same objects as services for a real Framework."""
        return Services(
            snapshot=self.snapshot,
            api=self.api,
            recorder_of=lambda _: self.recorder,
            clock=self.clock,
            random=self.random,
            lister=self.lister,
            informer=self.informer,
            extenders=self.extenders,
            kubeconfig=self.kubeconfig,
            component_config_version=self.component_config_version,
            feature_enabled=self.feature_enabled,
            nominator=lambda: self.nominator,
            activate=self.activate,
            spawn=self.spawn,
            fits_now=lambda *_: self.room,
            fits_without=lambda _, pod, __, gone: self.fits_without(pod, gone),
            metrics=self.metrics,
            shared=self.shared,
            preemption=RuledPreemption,
            pod_groups=self.pod_groups,
            api_dispatcher=self.api_dispatcher,
        )

    def lister(self, kind: type[T]) -> Lister[T]:
        return self.objects.lister(kind)

    def informer(self, kind: type[T]) -> Informer[T]:
        return FakeInformer(self.objects, kind)

    @property
    def claims(self) -> ClaimCache:
        return self.services().claims

    def feature_enabled(self, gate: str) -> bool:
        return self._gates.enabled(gate)

    def activate(self, pods: Mapping[str, Pod]) -> None:
        self.activated.update(pods)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.work.add(asyncio.get_running_loop().create_task(work, name=name))

    async def finish_work(self) -> None:
        """Wait for all background tasks; raises their exceptions."""
        while self.work:
            await self.work.pop()

    def fits_without(self, pod_info: PodInfo, gone: Collection[PodInfo]) -> bool:
        names = frozenset(each.pod.metadata.name for each in gone)
        victims = self._victims.setdefault(pod_info.uid, names)
        return self.helps and (names >= victims or names >= (self.enough or victims))

    def pod_in_pre_bind(self, uid: str) -> PodInPreBind | None:
        return self._in_pre_bind.get(uid)

    def add_pod_in_pre_bind(self, pod: Pod, task: asyncio.Task[Any]) -> PodInPreBind:
        entry = self._in_pre_bind[pod.metadata.uid] = PodInPreBindEntry(pod, task)
        return entry

    def remove_pod_in_pre_bind(self, uid: str) -> None:
        self._in_pre_bind.pop(uid, None)

    async def read_page(
        self,
        url: str,
        *,
        token: str = "",  # noqa: ARG002
        verify_tls: bool = True,  # noqa: ARG002
        timeout_ns: int = 10**10,  # noqa: ARG002
    ) -> bytes:
        if url not in self.pages:
            raise WebPageError(f"{url}: no such page")
        return self.pages[url]

    def preemption(
        self, plugin: str, rules: PreemptionRules, *, percentage: int = 10, absolute: int = 100
    ) -> VictimPreemption:
        return RuledPreemption(self, plugin, rules, percentage, absolute)

    def run_pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> None:
        self._required_runner.run_pre_score(state, pod_info, nodes)

    def run_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NodeScores:
        return self._required_runner.run_score(state, pod, nodes)

    @property
    def _required_runner(self) -> Handle:
        if self.runner is None:
            raise RuntimeError("this handle has no runner with plugins")
        return self.runner

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        return self._waiting.get(uid)

    def waiting_pods(self) -> Iterable[WaitingPod]:
        return list(self._waiting.values())

    @property
    def dry_run(self) -> FakeDryRun:
        return FakeDryRun(self)


class FakeDryRun:
    """Runs the filters with the handle's runner; the version of the cluster is the fake's own."""

    def __init__(self, handle: FakeHandle) -> None:
        self._handle = handle

    @property
    def version(self) -> ClusterVersion:
        table = self._handle.snapshot.nodes.table
        return ClusterVersion(
            table.changes.position,
            table.node_version,
            table.membership_version,
            table.pod_changes.position,
            self._handle.nominator.position,
            0,
        )

    def fits_now(self, pod_info: PodInfo, since: ClusterVersion) -> bool:  # noqa: ARG002
        return self._handle.room

    def fits_without(
        self,
        pod_info: PodInfo,
        node_name: str,  # noqa: ARG002
        gone: Collection[PodInfo],
    ) -> bool:
        return self._handle.fits_without(pod_info, gone)

    def filter_node(self, state: CycleState, pod_info: PodInfo, node: NodeInfo) -> Status:
        return self._runner.filter_node(state, pod_info, node)

    def filter_nodes(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        *,
        in_full: bool = False,
        again: bool = False,
    ) -> Rejections:
        return self._runner.filter_nodes(state, pod, nodes, in_full=in_full, again=again)

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        return self._runner.add_pod(state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        return self._runner.remove_pod(state, pod, removed, node)

    def reads_totals_only(self, state: CycleState) -> bool:
        return self._runner.reads_totals_only(state)

    def ignored_pods(self, state: CycleState, pod: Pod) -> Callable[[PodInfo], bool] | None:
        return self._runner.ignored_pods(state, pod)

    def nominated_totals(self, pod: Pod) -> NominatedTotals:
        return self._runner.nominated_totals(pod)

    def cache_key(self, state: CycleState) -> Hashable | None:
        return self._runner.cache_key(state)

    @property
    def _runner(self) -> DryRun:
        if self._handle.runner is None:
            raise RuntimeError("this FakeHandle has no plugins to run: give it a runner")
        return self._handle.runner.dry_run
