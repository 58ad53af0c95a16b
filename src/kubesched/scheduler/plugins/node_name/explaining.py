"""Explains rejections by `spec.nodeName`."""

from __future__ import annotations

from kubesched.framework.explaining import Explaining, RuleKind

__all__ = ["NodeNameExplaining"]


class NodeNameExplaining(Explaining):
    """Classifies the rejection as a selection of nodes by the pod itself."""

    kind = RuleKind.SELECTION
