"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from kubesched.scheduler.plugins.node_unschedulable.plugin import NodeUnschedulable

__all__ = ["NodeUnschedulable"]
