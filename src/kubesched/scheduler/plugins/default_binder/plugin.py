"""DefaultBinder: bind a pod through the API server (docs/reference/05 §7.11)."""

from __future__ import annotations

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.framework import SUCCESS, CycleState, Plugin, Status
from kubesched.framework.pod_calls import PodBindingCall
from kubesched.scheduler.config.plugin_names import DEFAULT_BINDER

__all__ = ["DefaultBinder"]


class DefaultBinder(Plugin):
    """Bind plugin: send a binding to the API server."""

    name = DEFAULT_BINDER

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        metadata = pod.metadata
        dispatcher = self.handle.api_dispatcher
        if dispatcher is not None:
            result = await dispatcher.add(PodBindingCall(pod, node_name))
            return SUCCESS if result.error is None else Status.failure(result.error)
        try:
            await self.handle.api.bind(metadata.namespace, metadata.name, metadata.uid, node_name)
        except ApiError as exc:
            return Status.failure(exc)
        return SUCCESS
