"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from kubesched.plugins.node_unschedulable.plugin import NodeUnschedulable

__all__ = ["NodeUnschedulable"]
