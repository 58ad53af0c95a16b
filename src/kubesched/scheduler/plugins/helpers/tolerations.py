"""The feature gate for numeric tolerations."""

from __future__ import annotations

__all__ = ["COMPARISON_OPERATORS"]

# With this gate on, tolerations may use the operators `Lt` and `Gt`.
COMPARISON_OPERATORS = "TaintTolerationComparisonOperators"
