"""Explanations of scheduling decisions, computed by the scheduler's own plugins and search."""

from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.explanation import Explanation
from kubesched.explain.snapshot import Snapshot
from kubesched.explain.whatif import Plan, WhatIf

__all__ = ["ExplainError", "Explanation", "Plan", "Snapshot", "WhatIf"]
