"""TaintToleration: a tainted node accepts tolerating pods only."""

from kubesched.scheduler.plugins.taint_toleration.plugin import TaintToleration

__all__ = ["TaintToleration"]
