"""Explains rejections by `spec.nodeName`."""

from __future__ import annotations

from kubesched.framework.explaining import Explaining, RuleKind

__all__ = ["NodeNameExplaining"]


class NodeNameExplaining(Explaining):
    """Says that the pod itself selects its node."""

    kind = RuleKind.SELECTION
