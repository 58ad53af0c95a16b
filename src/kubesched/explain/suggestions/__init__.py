"""Changes with which a pod would fit, each tried out with the real scheduler."""

from kubesched.explain.suggestions.finding import find_suggestions

__all__ = ["find_suggestions"]
