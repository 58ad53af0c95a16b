"""Explains rejections by features that nodes do not declare."""

from __future__ import annotations

from kubesched.framework.explaining import Explaining, RuleKind

__all__ = ["NodeDeclaredFeaturesExplaining"]


class NodeDeclaredFeaturesExplaining(Explaining):
    """Says that the pod itself selects nodes by the features that it needs."""

    kind = RuleKind.SELECTION
