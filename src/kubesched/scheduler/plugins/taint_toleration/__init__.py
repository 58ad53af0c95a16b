"""TaintToleration: tainted nodes are for pods that tolerate the taints."""

from kubesched.scheduler.plugins.taint_toleration.plugin import TaintToleration

__all__ = ["TaintToleration"]
