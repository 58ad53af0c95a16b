"""What a plugin may call: the snapshot, listers, the API server, the clock, waiting pods.

`Handle` and all it hands out are protocols; the runtime provides them, and
`kubesched.testing.FakeHandle` does in tests. Plugins never import `client/`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.api.access import ApiAccess
from kubesched.foundation.util.clock import Clock
from kubesched.framework.claim_cache import ClaimCache
from kubesched.framework.node_info import NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.pod_groups import PodGroups
from kubesched.framework.pod_info import PodInfo
from kubesched.framework.post_filter import Nominating
from kubesched.framework.preemption import DryRun
from kubesched.framework.shared_state import SharedState

__all__ = [
    "EventRecorder",
    "Extender",
    "Handle",
    "Informer",
    "Lister",
    "Nominator",
    "PluginMetrics",
    "PodInPreBind",
    "Snapshot",
    "WaitingPod",
]

T = TypeVar("T", bound=msgspec.Struct)
T_co = TypeVar("T_co", bound=msgspec.Struct, covariant=True)


class Lister(Protocol[T_co]):
    """Objects of one kind as the informer last saw them."""

    def get(self, name: str, namespace: str | None = None) -> T_co | None: ...

    def list(self, namespace: str | None = None) -> Collection[T_co]: ...

    def follow(self, listener: Callable[[Any, Any], None]) -> None:
        """Call back with (old or None, new or None) on every change, once it can be read here.

        What is there already comes at once, as additions. For plugins that keep an index.
        """
        ...


class Informer(Protocol[T_co]):
    """Follows the objects of one kind."""

    def add_handler(
        self,
        on_add: Callable[[T_co], None] | None = None,
        on_update: Callable[[T_co, T_co], None] | None = None,
        on_delete: Callable[[T_co, bool], None] | None = None,
    ) -> None:
        """Call back on changes; objects that are already here are announced at once.

        `on_delete` also gets whether the final state is unknown because the deletion was missed.
        Handlers run on the scheduler's loop and must not wait.
        """
        ...

    @property
    def has_synced(self) -> bool:
        """Whether the first list has been taken in."""
        ...


class Extender(Protocol):
    """An HTTP extender of the configuration."""

    @property
    def name(self) -> str:
        """Its URL."""
        ...

    @property
    def is_ignorable(self) -> bool:
        """Whether pods are placed without it if it does not answer."""
        ...

    def is_interested(self, pod: Pod) -> bool:
        """Whether attempts at the pod ask it."""
        ...


class Snapshot(Protocol):
    """The nodes as they were when the attempt began."""

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
    """Pods that are expected on a node soon."""

    def nominated_pods(self, node_name: str) -> Collection[PodInfo]: ...

    def nominated_nodes(self) -> Collection[str]:
        """Names of the nodes that some pod is nominated to."""
        ...

    def node_of(self, uid: str) -> str | None:
        """The node that the pod with this uid is nominated to, if any."""
        ...

    @property
    def position(self) -> int:
        """How much has happened to nominations so far."""
        ...

    def changes_since(self, position: int) -> Collection[str] | None:
        """Names of nodes whose nominations changed; None: that is no longer known."""
        ...

    def add_nominated_pod(self, pod_info: PodInfo, nominating: Nominating | None) -> None: ...

    def delete_nominated_pod(self, pod: Pod) -> None: ...


class WaitingPod(Protocol):
    """A pod that Permit plugins asked to wait."""

    @property
    def pod(self) -> Pod: ...

    @property
    def pending_plugins(self) -> Collection[str]: ...

    def allow(self, plugin: str) -> None: ...

    def reject(self, plugin: str, message: str) -> bool:
        """False if the outcome was decided before."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait because the pod has to give way; False if it was decided before."""
        ...


class PodInPreBind(Protocol):
    """A pod that PreBind plugins are working on."""

    @property
    def pod(self) -> Pod: ...

    def cancel(self, reason: str) -> bool:
        """Stop the work; False if it is over."""
        ...


class EventRecorder(Protocol):
    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str) -> None: ...


class PluginMetrics(Protocol):
    """Metrics that only a plugin can know the values of."""

    def count_preemption_attempt(self) -> None: ...

    def observe_preemption_victims(self, count: int) -> None: ...

    def observe_background_preemption(self, result: str, duration_ns: int) -> None: ...

    def count_created_claim(self, status: str) -> None: ...

    def count_binding_conditions(self, profile: str, driver: str, status: str) -> None: ...

    def observe_binding_conditions(
        self, profile: str, driver: str, status: str, duration_ns: int
    ) -> None: ...
    def count_volume_error(self, operation: str) -> None: ...


class Handle(Protocol):
    """What a plugin may call. Built by the runtime, one for each profile."""

    @property
    def profile_name(self) -> str: ...

    @property
    def snapshot(self) -> Snapshot:
        """The nodes and their pods as this attempt sees them."""
        ...

    def lister(self, kind: type[T]) -> Lister[T]:
        """The objects of a kind; asking for them makes the scheduler watch that kind."""
        ...

    def informer(self, kind: type[T]) -> Informer[T]:
        """Tells of changes of a kind; ask for it when the plugin is built."""
        ...

    @property
    def extenders(self) -> Sequence[Extender]:
        """The HTTP extenders, in the order in which they are asked."""
        ...

    @property
    def kubeconfig(self) -> Any:
        """How the scheduler's process is connected, for plugins that connect by themselves.

        What the program that built the scheduler gave; None if it gave nothing.
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
        """Resource claims with this scheduler's own writes; asking makes it watch them."""
        ...

    @property
    def shared(self) -> SharedState:
        """What plugins of all profiles keep together."""
        ...

    def feature_enabled(self, gate: str) -> bool: ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run work beside the scheduling loop; the scheduler owns the task and ends with it.

        An exception costs the work alone: it is logged.
        """
        ...

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Try these waiting pods ("ns/name" -> pod) again at once."""
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """A pod that Permit holds back."""
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]: ...

    def pod_in_pre_bind(self, uid: str) -> PodInPreBind | None: ...

    @property
    def nominator(self) -> Nominator:
        """Which pods are expected on which nodes."""
        ...

    @property
    def pod_groups(self) -> PodGroups | None:
        """Which pods belong together; None: pod groups are not scheduled here."""
        ...

    @property
    def dry_run(self) -> DryRun:
        """The profile's filters on nodes as they might be; for preemption."""
        ...
