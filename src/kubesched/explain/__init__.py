"""Why, why not, and what would help: questions about a cluster, answered by the real scheduler."""

from kubesched.explain.model import ExplainError
from kubesched.explain.results import Explanation
from kubesched.explain.snapshot import Snapshot
from kubesched.explain.whatif import Plan, WhatIf

__all__ = ["ExplainError", "Explanation", "Plan", "Snapshot", "WhatIf"]
