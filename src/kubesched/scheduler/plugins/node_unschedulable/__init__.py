"""NodeUnschedulable: a cordoned node accepts tolerating pods only."""

from kubesched.scheduler.plugins.node_unschedulable.plugin import NodeUnschedulable

__all__ = ["NodeUnschedulable"]
