"""The explaining parts of a profile's plugins, by the names of the plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kubesched.api import Node, Pod
from kubesched.explain.explanation import Rejection
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    Cause,
    Code,
    Detail,
    Explaining,
    Plugin,
    RejectedNodes,
    Remedy,
    RuleKind,
    Status,
)
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["PluginExplanations"]

log = get_logger(__name__)

_PLAIN = Explaining()


class PluginExplanations:
    """Calls the explaining part of the plugin that returned a status.

    For a plugin without such a part the reason is the whole explanation. The same applies if the
    part raises an exception, which is logged and shown.
    """

    def __init__(self, parts: Mapping[str, Explaining]) -> None:
        self._parts = parts

    @classmethod
    def of_framework(cls, framework: Framework) -> PluginExplanations:
        """Collect the parts of all plugins that can reject a pod before it has a node."""
        plugins: Sequence[Plugin] = (
            *framework.pre_enqueue_plugins,
            *framework.pre_filter_plugins,
            *framework.filter_plugins,
        )
        parts = {}
        for plugin in plugins:
            if plugin.name not in parts and (part := _part_of(plugin)) is not None:
                parts[plugin.name] = part
        return cls(parts)

    def kind(self, plugin: str) -> RuleKind:
        """Return the meaning of the plugin's rejections for the nodes."""
        return self._part(plugin).kind

    def topic(self, plugin: str) -> str:
        """Return the problem that several plugins check; empty if only this plugin does."""
        return self._part(plugin).topic

    def may_repeat(self, plugin: str) -> bool:
        """Whether the plugin overrides `repeats`."""
        return type(self._part(plugin)).repeats is not Explaining.repeats

    def repeats(self, plugin: str, pod: Pod, node: Node, other: Cause) -> bool:
        """Whether the plugin's rejection of a node repeats another plugin's cause."""
        try:
            return self._part(plugin).repeats(pod, node, other)
        except Exception as error:  # a bug in a user's plugin must not end the explanation
            log.error("Explaining part failed", exc=error, plugin=plugin)
            return False

    def detail(
        self, plugin: str, rejected: RejectedNodes, reason: str, cause: Cause | None
    ) -> Detail:
        """Describe one reason of a plugin.

        Neither the sentence nor the brief text is ever empty.
        """
        found = Detail()
        if len(rejected.positions):
            found = self.pre_enqueue_detail(plugin, rejected, cause)
        return found._replace(
            sentence=found.sentence or reason,
            brief=found.brief or reason,
            cause=cause if found.cause is None else found.cause,
        )

    def pre_enqueue_detail(
        self, plugin: str, rejected: RejectedNodes, cause: Cause | None
    ) -> Detail:
        """Describe a rejection by PreEnqueue, which concerns no nodes."""
        part = self._part(plugin)
        try:
            return part.details(rejected, cause)
        except Exception as error:  # a bug in a user's plugin must not hide the reason
            log.error("Explaining part failed", exc=error, plugin=plugin)
            return Detail(detail=f"the plugin's explaining part failed: {error!r:.200}")

    def rejections(
        self, plugin: str, rejected: RejectedNodes, status: Status
    ) -> tuple[Rejection, ...]:
        """Return one rejection for each reason of the status."""
        found = []
        for reason, cause in status.reasons_with_causes or ((status.code.label, None),):
            detail = self.detail(plugin, rejected, reason, cause)
            found.append(
                Rejection(
                    plugin=plugin,
                    reason=reason,
                    asked=detail.asked,
                    available=detail.available,
                    detail=detail.detail,
                    preemptable=status.code is Code.UNSCHEDULABLE,
                    cause=None if detail.cause is None else detail.cause.to_dict(),
                )
            )
        return tuple(found)

    def remedies(self, plugin: str, rejected: RejectedNodes) -> Iterator[Remedy]:
        """Yield the plugin's remedies; an exception of its part ends the iteration."""
        try:
            yield from self._part(plugin).remedies(rejected)
        except Exception as error:  # a bug in a user's plugin must not hide other remedies
            log.error("Explaining part failed", exc=error, plugin=plugin)

    def _part(self, plugin: str) -> Explaining:
        return self._parts.get(plugin, _PLAIN)


def _part_of(plugin: Plugin) -> Explaining | None:
    try:
        return plugin.explaining()
    except Exception as error:  # a bug in a user's plugin must not end the explanation
        log.error("Explaining part could not be built", exc=error, plugin=plugin.name)
        return None
