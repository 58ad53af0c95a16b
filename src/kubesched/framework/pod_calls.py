"""The scheduler's calls about pods: status patches and bindings (docs/reference/04 §20.1)."""

from __future__ import annotations

from typing import ClassVar

from kubesched.api import Pod, PodCondition
from kubesched.api.access import ApiAccess, ApiError
from kubesched.foundation.util.logging import get_logger
from kubesched.framework.background_calls import ApiDispatcher, BackgroundCall
from kubesched.framework.pod_status_writer import PodStatusWriter, StatusWriter

__all__ = ["DispatchingStatusWriter", "PodBindingCall", "PodStatusPatchCall"]

log = get_logger(__name__)


class PodStatusPatchCall(BackgroundCall):
    """Patches the condition and the nominated node of a pod; None leaves the field unchanged."""

    call_type: ClassVar[str] = "pod_status_patch"
    relevance: ClassVar[int] = 1

    def __init__(
        self,
        writer: PodStatusWriter,
        pod: Pod,
        condition: PodCondition | None,
        nominated_node: str | None,
    ) -> None:
        self._writer = writer
        self.pod, self.condition, self.nominated_node = pod, condition, nominated_node

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    async def execute(self, api: ApiAccess) -> None:  # noqa: ARG002
        try:
            await self._writer.write(self.pod, self.condition, self.nominated_node)
        except ApiError as exc:
            log.error("Error updating pod", exc=exc, pod=self.pod)
            raise

    def merge(self, older: BackgroundCall) -> None:
        assert isinstance(older, PodStatusPatchCall)
        if self.condition is None:
            self.condition = older.condition
        if self.nominated_node is None:
            self.nominated_node = older.nominated_node

    def is_no_op(self) -> bool:
        return not self._writer.has_changes(self.pod, self.condition, self.nominated_node)

    def sync(self, pod: Pod) -> None:
        self.pod = pod


class PodBindingCall(BackgroundCall):
    """Binds a pod to a node."""

    call_type: ClassVar[str] = "pod_binding"
    relevance: ClassVar[int] = 2

    def __init__(self, pod: Pod, node_name: str) -> None:
        self.pod, self.node_name = pod, node_name

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    async def execute(self, api: ApiAccess) -> None:
        metadata = self.pod.metadata
        await api.bind(metadata.namespace, metadata.name, metadata.uid, self.node_name)


class DispatchingStatusWriter(StatusWriter):
    """Gives status patches to a dispatcher, and does not wait for them."""

    def __init__(self, dispatcher: ApiDispatcher, writer: PodStatusWriter) -> None:
        self._dispatcher, self._writer = dispatcher, writer

    async def write(
        self, pod: Pod, condition: PodCondition | None, nominated_node: str | None
    ) -> None:
        self._dispatcher.add(PodStatusPatchCall(self._writer, pod, condition, nominated_node))
