"""Requirements: a whole family, or some of its fields, must be identical."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.conformance.comparison import Step

__all__ = ["Requirement"]


class Requirement(NamedTuple):
    """Without fields every step must be identical; with fields none of those may differ."""

    family: str
    fields: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """From `FAMILY` or `FAMILY:field,field`."""
        family, _, fields = text.partition(":")
        return cls(family, frozenset(filter(None, fields.split(","))))

    def failures(self, steps: Iterable[Step]) -> Iterator[str]:
        """Return a line per step that does not meet it, or one if the family has no steps."""
        found = False
        for step in steps:
            if step.family != self.family:
                continue
            found = True
            problem = self._problem(step)
            if problem:
                yield f"{step.scenario} {step.label}: {problem}"
        if not found:
            yield f"{self.family}: no such steps"

    def _problem(self, step: Step) -> str:
        differing = [
            difference.field
            for difference in step.differences
            if not self.fields or difference.field in self.fields
        ]
        if differing:
            return f"differs in {', '.join(differing)}"
        if not self.fields and step.needs:
            return f"needs {', '.join(step.needs)}"
        return ""
