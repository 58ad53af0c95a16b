"""What plugins that look at tolerations share beyond `api.taints`."""

from __future__ import annotations

__all__ = ["COMPARISON_OPERATORS"]

# The gate that lets tolerations use `Lt` and `Gt`.
COMPARISON_OPERATORS = "TaintTolerationComparisonOperators"
