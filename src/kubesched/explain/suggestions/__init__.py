"""Changes that would help, each tried out with the real scheduler on the changed cluster."""

from kubesched.explain.suggestions.finding import find_suggestions
from kubesched.explain.suggestions.letting_in import let_in, with_other_scheduler

__all__ = ["find_suggestions", "let_in", "with_other_scheduler"]
