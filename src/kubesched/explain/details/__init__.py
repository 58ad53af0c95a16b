"""What a rejection is about, in amounts and names: asked, available, which, held by whom."""

from kubesched.explain.details.describing import DetailContext, describe, describe_reason

__all__ = ["DetailContext", "describe", "describe_reason"]
