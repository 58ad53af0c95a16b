"""Why, why not, and what would help: questions about a cluster, answered by the real scheduler."""

from kubesched.explain.cluster_snapshot import Snapshot
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.explanation import Explanation
from kubesched.explain.whatif import Plan, WhatIf

__all__ = ["ExplainError", "Explanation", "Plan", "Snapshot", "WhatIf"]
