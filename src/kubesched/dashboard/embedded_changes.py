"""Changes that the page makes to an embedded cluster: create, scale, stop, configure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from kubesched.api import Deployment, Node, ReplicaSet, StatefulSet
from kubesched.api.access import ApiError
from kubesched.api.base import ApiObject
from kubesched.api.kinds import by_api_version_kind
from kubesched.dashboard.bad_request import BadRequestError
from kubesched.dashboard.edit_transaction import CheckedApi, apply_edits
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.yaml_documents import YamlProblem, read_documents

__all__ = ["ClusterControls", "EmbeddedChanges"]

_MOST_REPLICAS: Final = 10_000
_MOST_NODES: Final = 1_000
_NODE_CHANGES: Final = ("stop", "start", "cordon", "uncordon", "delete")


class ClusterControls(Protocol):
    """Operations that only the process of the cluster can do."""

    async def stop_node(self, name: str) -> None: ...

    async def start_node(self, name: str) -> None: ...

    async def configure(self, text: str) -> None:
        """Replace the scheduler by one with this configuration.

        Raises:
            BadRequestError: the configuration is invalid; the old scheduler continues.
        """
        ...


class EmbeddedChanges:
    """Carries out the changes that a viewer requests."""

    def __init__(
        self, api: CheckedApi, clock: Clock, controls: ClusterControls | None = None
    ) -> None:
        self._api = api
        self._clock = clock
        self._controls = controls

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Carry out a change, and return a summary of it.

        Raises:
            BadRequestError: the change failed, in whole or in part.
        """
        try:
            match path.split("/"):
                case ["apply"]:
                    return await self._apply(body)
                case ["manifests"]:
                    return await self._create(str(body.get("text", "")))
                case ["scale"]:
                    return await self._scale(body)
                case ["nodes"]:
                    return await self._switch(body)
                case ["configuration"]:
                    return await self._configure(str(body.get("text", "")))
        except ApiError as error:
            raise BadRequestError(str(error)) from error
        raise BadRequestError(f"no such path: {path}", 404)

    async def _apply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the edits of a suggestion, all or none."""
        return {"done": await apply_edits(self._api, body.get("edits"), self._clock)}

    async def _create(self, text: str) -> dict[str, Any]:
        """Create the objects of a YAML text; nothing is created from an invalid text."""
        found: list[tuple[int, ApiObject]] = []
        for part in read_documents(text):
            if isinstance(part, YamlProblem):
                raise BadRequestError(f"line {part.line}: {part.text}")
            if part.value is None:
                continue
            try:
                found.append((part.line, _typed(part.value)))
            except BadRequestError as error:
                raise BadRequestError(f"line {part.line}: {error}") from error
        if not found:
            raise BadRequestError("the text contains no object")
        made: list[str] = []
        for line, each in found:
            try:
                created: Any = await self._api.create(each)
            except ApiError as error:
                before = f" (created before: {', '.join(made)})" if made else ""
                raise BadRequestError(f"line {line}: {error}{before}") from error
            made.append(f"{type(each).__name__} {created.metadata.name}")
        return {"made": made}

    async def _scale(self, body: Mapping[str, Any]) -> dict[str, Any]:
        kinds: dict[str, Any] = {each.kind: each for each in (Deployment, ReplicaSet, StatefulSet)}
        kind, replicas = kinds.get(str(body.get("kind"))), body.get("replicas")
        if kind is None or not isinstance(replicas, int) or not 0 <= replicas <= _MOST_REPLICAS:
            raise BadRequestError("expected kind, namespace, name and replicas up to 10000")
        name, namespace = str(body.get("name")), str(body.get("namespace", "default"))
        change = {"spec": {"replicas": replicas}}
        await self._api.patch(kind, name, namespace, change, patch_type="merge")
        return {"replicas": replicas}

    async def _switch(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Stop, start, cordon, uncordon or delete nodes."""
        names, what = body.get("names"), body.get("what")
        if not isinstance(names, list) or not names or what not in _NODE_CHANGES:
            raise BadRequestError(f"expected names of nodes, and one of {', '.join(_NODE_CHANGES)}")
        if len(names) > _MOST_NODES:
            raise BadRequestError(f"more than {_MOST_NODES} nodes at once")
        for name in names:
            await self._change_node(str(name), what)
        return {"nodes": len(names), "what": what}

    async def _change_node(self, name: str, what: str) -> None:
        if what == "delete":
            await self._api.delete(Node, name)
            return
        if what in ("cordon", "uncordon"):
            change = {"spec": {"unschedulable": what == "cordon"}}
            await self._api.patch(Node, name, None, change, patch_type="merge")
            return
        if self._controls is None:
            raise BadRequestError("nodes of this cluster cannot be stopped", 403)
        act = self._controls.stop_node if what == "stop" else self._controls.start_node
        await act(name)

    async def _configure(self, text: str) -> dict[str, Any]:
        if self._controls is None:
            raise BadRequestError("the scheduler of this cluster cannot be configured here", 403)
        await self._controls.configure(text)
        return {"configured": True}


def _typed(value: Any) -> ApiObject:
    if not isinstance(value, dict):
        raise BadRequestError("not an object")
    kind = by_api_version_kind(str(value.get("apiVersion")), str(value.get("kind")))
    if kind is None:
        raise BadRequestError(f"no kind {value.get('kind')!r} in {value.get('apiVersion')!r}")
    document = {key: each for key, each in value.items() if key not in ("apiVersion", "kind")}
    metadata = document.get("metadata")
    if kind.namespaced and isinstance(metadata, dict):
        document["metadata"] = {"namespace": "default", **metadata}
    try:
        return msgspec.convert(document, kind.type)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{kind.kind}: {error}") from error
