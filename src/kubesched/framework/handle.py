"""The services of a plugin: the snapshot, listers, the API server, the clock, waiting pods.

`Handle` and the objects that it returns are protocols. The runtime implements them, and
`kubesched.testing.FakeHandle` does so in tests. Plugins never import `foundation/client/`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.api.access import ApiAccess
from kubesched.api.base import ApiObject
from kubesched.foundation.util.clock import Clock
from kubesched.framework.background_calls import ApiDispatcher
from kubesched.framework.claim_cache import ClaimCache
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.node_info import NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.pod_groups import PodGroups
from kubesched.framework.pod_info import PodInfo
from kubesched.framework.post_filter import Nominating
from kubesched.framework.preemption import DryRun, PreemptionRules, VictimPreemption
from kubesched.framework.shared_state import SharedState

__all__ = [
    "EventRecorder",
    "Extender",
    "Handle",
    "Informer",
    "Lister",
    "NodeScores",
    "Nominator",
    "PluginMetrics",
    "PodInPreBind",
    "Snapshot",
    "WaitingPod",
]

T = TypeVar("T", bound=msgspec.Struct)
T_co = TypeVar("T_co", bound=msgspec.Struct, covariant=True)


class Lister(Protocol[T_co]):
    """Read access to the informer's cached objects of one kind."""

    def get(self, name: str, namespace: str | None = None) -> T_co | None: ...

    def list(self, namespace: str | None = None) -> Collection[T_co]: ...

    def follow(self, listener: Callable[[Any, Any], None]) -> Callable[[], None]:
        """Call the listener with (old or None, new or None) after every change of the cache.

        It is called at once with each present object as an addition. For plugins with an index.
        Returns a function that removes the listener. The runtime calls it when the plugin is
        closed.
        """
        ...


class Informer(Protocol[T_co]):
    """Watches the objects of one kind and calls handlers."""

    def add_handler(
        self,
        on_add: Callable[[T_co], None] | None = None,
        on_update: Callable[[T_co, T_co], None] | None = None,
        on_delete: Callable[[T_co, bool], None] | None = None,
    ) -> Callable[[], None]:
        """Call the handlers on changes; `on_add` is called at once for each present object.

        `on_delete` also gets whether the final state is unknown because the deletion was missed.
        Handlers run on the scheduler's loop and must not wait. Returns a function that removes the
        handlers. The runtime calls it when the plugin is closed.
        """
        ...

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in the cache."""
        ...


class Extender(Protocol):
    """An HTTP extender of the configuration."""

    @property
    def name(self) -> str:
        """The URL of the extender."""
        ...

    @property
    def is_ignorable(self) -> bool:
        """Whether pods are placed without the extender if it fails."""
        ...

    def is_interested(self, pod: Pod) -> bool:
        """Whether attempts at the pod call the extender."""
        ...


class Snapshot(Protocol):
    """The nodes at the beginning of the attempt."""

    @property
    def nodes(self) -> NodeView: ...

    @property
    def order(self) -> NDArray[np.intp]:
        """Rows of the nodes in the order in which the reference lists them."""
        ...

    def get(self, name: str) -> NodeInfo | None: ...

    def has_pvc_in_use(self, key: str) -> bool:
        """Whether a scheduled pod uses the claim `namespace/name`."""
        ...


class Nominator(Protocol):
    """The pods that are nominated to nodes."""

    def nominated_pods(self, node_name: str) -> Collection[PodInfo]: ...

    def nominated_nodes(self) -> Collection[str]:
        """Names of the nodes that some pod is nominated to."""
        ...

    def node_of(self, uid: str) -> str | None:
        """The node that the pod with this uid is nominated to, if any."""
        ...

    @property
    def position(self) -> int:
        """The number of changes to nominations so far."""
        ...

    def changes_since(self, position: int) -> Collection[str] | None:
        """Return names of nodes whose nominations changed since; None if the log was truncated."""
        ...

    def add_nominated_pod(self, pod_info: PodInfo, nominating: Nominating | None) -> None: ...

    def delete_nominated_pod(self, pod: Pod) -> None: ...

    def update_nominated_pod(self, old: Pod, pod_info: PodInfo) -> None:
        """Update the nomination of a waiting pod that has changed."""
        ...


class WaitingPod(Protocol):
    """A pod that waits because a Permit plugin returned `Wait`."""

    @property
    def pod(self) -> Pod: ...

    @property
    def pending_plugins(self) -> Collection[str]: ...

    @property
    def is_decided(self) -> bool:
        """Whether the pod was allowed, rejected or preempted, or its time is over."""
        ...

    def allow(self, plugin: str) -> None: ...

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod; False if the outcome was decided before."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait because the pod is preempted; False if the outcome was decided before."""
        ...


class PodInPreBind(Protocol):
    """A pod whose PreBind plugins are running."""

    @property
    def pod(self) -> Pod: ...

    def cancel(self, reason: str) -> bool:
        """Cancel PreBind; False if it has ended."""
        ...


class EventRecorder(Protocol):
    def event(
        self,
        regarding: Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ApiObject | None = None,
    ) -> None:
        """Record an event about a pod, and another object that it involves."""
        ...


class PluginMetrics(Protocol):
    """Metrics whose values only plugins can compute."""

    def count_preemption_attempt(self) -> None: ...

    def observe_preemption_victims(self, count: int) -> None: ...

    def observe_background_preemption(self, result: str, duration_ns: int) -> None: ...

    def count_created_claim(self, status: str) -> None: ...

    def count_binding_conditions(self, profile: str, driver: str, status: str) -> None: ...

    def observe_binding_conditions(
        self, profile: str, driver: str, status: str, duration_ns: int
    ) -> None: ...

    def count_volume_error(self, operation: str) -> None: ...


class NodeScores(Protocol):
    """Scores of the nodes of a view, in the order of the view."""

    @property
    def total(self) -> NDArray[np.int64]: ...

    @property
    def by_plugin(self) -> Mapping[str, NDArray[np.int64]]: ...


class Handle(Protocol):
    """The services of a plugin. The runtime builds one handle for each profile."""

    @property
    def profile_name(self) -> str: ...

    @property
    def snapshot(self) -> Snapshot:
        """The nodes and their pods at the beginning of the attempt."""
        ...

    def lister(self, kind: type[T]) -> Lister[T]:
        """Return a lister of a kind; the scheduler then watches that kind."""
        ...

    def informer(self, kind: type[T]) -> Informer[T]:
        """Return the informer of a kind; call this when the plugin is built."""
        ...

    @property
    def extenders(self) -> Sequence[Extender]:
        """The HTTP extenders, in the order in which they are called."""
        ...

    @property
    def kubeconfig(self) -> Any:
        """The connection settings of the scheduler's process, for plugins with own connections.

        The value that the program passed to the scheduler; None if it passed nothing.
        """
        ...

    @property
    def component_config_version(self) -> str:
        """The apiVersion of the configuration that the scheduler was built from."""
        ...

    @property
    def api(self) -> ApiAccess:
        """The API server. For PreBind and later: a scheduling cycle never waits."""
        ...

    async def read_page(
        self, url: str, *, token: str = "", verify_tls: bool = True, timeout_ns: int = 10**10
    ) -> bytes:
        """Return the response of an HTTP server to a GET request, for example metrics.

        Do not call it in a scheduling cycle, which never waits.

        Raises:
            WebPageError: there is no successful response in time.
        """
        ...

    @property
    def api_dispatcher(self) -> ApiDispatcher | None:
        """Executes calls outside the scheduling loop; None without SchedulerAsyncAPICalls."""
        ...

    @property
    def recorder(self) -> EventRecorder:
        """Writes events about pods."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> random.Random:
        """Seeded: the same run again makes the same choices."""
        ...

    @property
    def metrics(self) -> PluginMetrics: ...

    @property
    def claims(self) -> ClaimCache:
        """The cache of resource claims; the scheduler watches them once a plugin reads this."""
        ...

    @property
    def shared(self) -> SharedState:
        """State that plugins of all profiles share."""
        ...

    def feature_enabled(self, gate: str) -> bool: ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine outside the scheduling loop, as a task that the scheduler owns.

        The scheduler waits for the task when it ends. An exception ends only the task, and is
        logged.
        """
        ...

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Move these pending pods ("ns/name" -> pod) to the active queue."""
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod that waits in Permit."""
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]: ...

    def pod_in_pre_bind(self, uid: str) -> PodInPreBind | None: ...

    def add_pod_in_pre_bind(self, pod: Pod, task: asyncio.Task[Any]) -> PodInPreBind:
        """Register a pod whose PreBind the task runs; preemption cancels the task."""
        ...

    def remove_pod_in_pre_bind(self, uid: str) -> None:
        """Undo `add_pod_in_pre_bind`."""
        ...

    def run_pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> None:
        """Run the profile's PreScore plugins, before `run_score`.

        Raises:
            PluginError: a plugin failed.
        """
        ...

    def run_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NodeScores:
        """Run the profile's Score plugins; the scores are normalised and weighted.

        Raises:
            PluginError: a plugin failed.
        """
        ...

    @property
    def nominator(self) -> Nominator:
        """The nominations of pods to nodes."""
        ...

    @property
    def pod_groups(self) -> PodGroups | None:
        """The pod groups; None if the scheduler does not schedule them."""
        ...

    def preemption(
        self, plugin: str, rules: PreemptionRules, *, percentage: int = 10, absolute: int = 100
    ) -> VictimPreemption:
        """Return DefaultPreemption's algorithm with other rules for victims.

        The numbers limit how many candidate nodes are compared, like the arguments of
        DefaultPreemption. Call this when the plugin is built.
        """
        ...

    @property
    def dry_run(self) -> DryRun:
        """Runs the profile's filters on hypothetical states of nodes; for preemption."""
        ...
