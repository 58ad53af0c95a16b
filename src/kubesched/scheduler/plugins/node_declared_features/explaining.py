"""Explains rejections by features that nodes do not declare."""

from __future__ import annotations

from kubesched.framework.explaining import Explaining, RuleKind

__all__ = ["NodeDeclaredFeaturesExplaining"]


class NodeDeclaredFeaturesExplaining(Explaining):
    """Classifies the rejection as a selection of nodes by the pod itself."""

    kind = RuleKind.SELECTION
