"""One HTTP extender: the pods it is interested in, and its verbs (docs/reference/04 §18)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kubesched.api import Container, Node, Pod, codec
from kubesched.api.raw_objects import node_wire_form
from kubesched.foundation.client.extender_client import ExtenderClient, ExtenderError
from kubesched.foundation.util.go_format import quote
from kubesched.framework import NodeInfo, Victims
from kubesched.scheduler.config.types import ExtenderConfig
from kubesched.scheduler.extenders.answers import (
    MetaVictims,
    read_bind_error,
    read_filter,
    read_preemption,
    read_scores,
)

__all__ = ["ExtenderFilterResult", "ExtenderNode", "HTTPExtender"]

_encode = msgspec.json.encode
_NULL = b"null"


class ExtenderNode:
    """A node in calls of extenders: the cached node, or one that an extender returned."""

    __slots__ = ("_body", "_node", "is_returned", "name")

    def __init__(
        self, name: str, body: bytes = b"", node: Node | None = None, *, is_returned: bool = False
    ) -> None:
        """`body` is the node's JSON; without it the node is sent by name only."""
        self.name = name
        self._body = body
        self._node = node
        self.is_returned = is_returned

    @classmethod
    def returned(cls, body: bytes, asked: Mapping[bytes, ExtenderNode]) -> ExtenderNode:
        """Return the node of an extender's response; usually it is one of those sent.

        Raises:
            ExtenderError: the body is not a node.
        """
        same = asked.get(body)
        if same is not None and same._node is not None:
            return cls(same.name, body, same._node, is_returned=True)
        try:
            node = codec.decode(body, Node)
            whole = _encode(node_wire_form(msgspec.json.decode(body)))
        except (msgspec.MsgspecError, AttributeError, TypeError, RecursionError) as exc:
            raise ExtenderError(f"json: cannot unmarshal a node: {exc}") from exc
        return cls(node.metadata.name, whole, node, is_returned=True)

    @property
    def body(self) -> bytes:
        return self._body

    def info(self) -> NodeInfo | None:
        """Return the NodeInfo of a returned node, without pods; None for a cached node."""
        return NodeInfo(self.name, self._node) if self.is_returned else None


class ExtenderFilterResult(NamedTuple):
    """The nodes that an extender accepted, and why it refused others."""

    nodes: list[ExtenderNode]
    failed: Mapping[str, str]
    failed_and_unresolvable: Mapping[str, str]


class HTTPExtender:
    """An extender: its settings and its HTTP client. A verb without a path is not called."""

    def __init__(self, settings: ExtenderConfig, client: ExtenderClient) -> None:
        self.settings = settings
        self.name = settings.url_prefix
        self.client = client
        self._managed = frozenset(resource.name for resource in settings.managed_resources)

    @property
    def is_ignorable(self) -> bool:
        """Whether pods are placed without it when it fails."""
        return self.settings.ignorable

    @property
    def takes_part_in_attempts(self) -> bool:
        """Whether an attempt may have to call it."""
        settings = self.settings
        return bool(settings.filter_verb or settings.prioritize_verb or settings.preempt_verb)

    @property
    def is_sent_nodes(self) -> bool:
        settings = self.settings
        asks = settings.filter_verb or settings.prioritize_verb
        return bool(asks) and not settings.node_cache_capable

    def is_interested(self, pod: Pod) -> bool:
        if not self._managed:
            return True
        spec = pod.spec
        return self._uses_managed(spec.containers) or self._uses_managed(spec.init_containers)

    def _uses_managed(self, containers: Iterable[Container]) -> bool:
        managed = self._managed
        return any(
            not managed.isdisjoint(amounts)
            for container in containers
            for amounts in (container.resources.requests, container.resources.limits)
        )

    async def filter(self, pod: bytes, nodes: Sequence[ExtenderNode]) -> ExtenderFilterResult:
        """Return the nodes that the extender accepts for the pod, whose JSON is `pod`.

        Raises:
            ExtenderError: the call failed, or the response says so.
        """
        settings = self.settings
        if not settings.filter_verb:
            return ExtenderFilterResult(list(nodes), {}, {})
        answer = read_filter(await self._post(settings.filter_verb, self._arguments(pod, nodes)))
        if answer.error:
            raise ExtenderError(answer.error)
        left: list[ExtenderNode] = []
        if settings.node_cache_capable and answer.node_names is not None:
            asked = {node.name: node for node in nodes}
            for name in answer.node_names:
                if name not in asked:
                    raise ExtenderError(
                        f"extender {quote(self.name)} claims a filtered node {quote(name)} "
                        "which is not found in the input node list"
                    )
                left.append(asked[name])
        elif answer.nodes is not None:
            by_body = {node.body: node for node in nodes}
            left = [ExtenderNode.returned(body, by_body) for body in answer.nodes]
        return ExtenderFilterResult(left, answer.failed, answer.failed_and_unresolvable)

    async def prioritize(
        self, pod: bytes, nodes: Sequence[ExtenderNode]
    ) -> Sequence[tuple[str, int]]:
        """Return (node name, score), not yet weighted. Raises ExtenderError."""
        verb = self.settings.prioritize_verb
        if not verb:
            return ()
        return read_scores(await self._post(verb, self._arguments(pod, nodes)))

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Have the extender bind the pod. Raises ExtenderError."""
        metadata = pod.metadata
        arguments = {
            "PodName": metadata.name,
            "PodNamespace": metadata.namespace,
            "PodUID": metadata.uid,
            "Node": node_name,
        }
        error = read_bind_error(await self._post(self.settings.bind_verb, _encode(arguments)))
        if error:
            raise ExtenderError(error)

    async def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], body_of: Callable[[Pod], bytes]
    ) -> Mapping[str, MetaVictims]:
        """Return the candidate nodes and victims it accepts. Raises ExtenderError."""
        by_name = by_uid = _NULL
        if self.settings.node_cache_capable:
            by_uid = _encode(
                {
                    node: {
                        "Pods": [{"UID": victim.uid} for victim in each.pods],
                        "NumPDBViolations": each.violations,
                    }
                    for node, each in victims.items()
                }
            )
        else:
            by_name = _object(
                (
                    node,
                    b'{"Pods":%b,"NumPDBViolations":%d}'
                    % (_array(body_of(victim.pod) for victim in each.pods), each.violations),
                )
                for node, each in victims.items()
            )
        arguments = b'{"Pod":%b,"NodeNameToVictims":%b,"NodeNameToMetaVictims":%b}' % (
            pod,
            by_name,
            by_uid,
        )
        return read_preemption(await self._post(self.settings.preempt_verb, arguments))

    def _arguments(self, pod: bytes, nodes: Sequence[ExtenderNode]) -> bytes:
        if self.settings.node_cache_capable:
            names = _encode([node.name for node in nodes])
            return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, names)
        items = _array(node.body for node in nodes)
        shown = b'{"metadata":{},"items":%b}' % items
        return b'{"Pod":%b,"Nodes":%b,"NodeNames":null}' % (pod, shown)

    async def _post(self, verb: str, arguments: bytes) -> bytes:
        return await self.client.post(verb, arguments)


def _array(items: Iterable[bytes]) -> bytes:
    return b"[%b]" % b",".join(items)


def _object(members: Iterable[tuple[str, bytes]]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (_encode(name), value) for name, value in members)
