"""Renders the explanation of a pod group for a terminal."""

from __future__ import annotations

from kubesched.explain.group_explanation import PodGroupExplanation
from kubesched.explain.pending_text import render_pending
from kubesched.explain.text import Paint, plain, wrapped
from kubesched.scheduler.plugins.helpers.wording import plural

__all__ = ["render_group"]

_DOMAINS_SHOWN = 10


def render_group(answer: PodGroupExplanation, *, width: int = 100, paint: Paint = plain) -> str:
    """Return the state of the group, its domains, and the causes of its pending members."""
    style = "bad" if answer.verdict in ("pending", "incomplete") else "good"
    head = f"PodGroup {answer.group}: {answer.summary}"
    lines = [paint(line, style) for line in wrapped(head, width)]
    count = f", minCount {answer.min_count}" if answer.policy == "gang" else ""
    lines.append(f"{answer.policy}{count}; {answer.pods} pods, {answer.scheduled} on nodes")
    if answer.condition:
        lines += wrapped(f"condition: {answer.condition}", width)
    if answer.verdict == "pending" and answer.message:
        lines += ["", *wrapped(f"the next pod: {answer.message}", width)]
    if answer.domains:
        lines += ["", paint(f"{answer.topology_key}: how many pods fit", "head")]
        lines += _domain_lines(answer)
    if answer.verdict == "pending" and answer.members.causes:
        lines += ["", *_member_lines(answer, width, paint)]
    return "\n".join(lines)


def _domain_lines(answer: PodGroupExplanation) -> list[str]:
    lines = [
        f"  {domain.name}: {domain.fits} on {plural(domain.nodes, 'node')}"
        for domain in answer.domains[:_DOMAINS_SHOWN]
    ]
    more = len(answer.domains) - _DOMAINS_SHOWN
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _member_lines(answer: PodGroupExplanation, width: int, paint: Paint) -> list[str]:
    if all(each.verdict == "fits" for each in answer.members.causes):
        return ["Each pending pod would fit alone."]
    text = render_pending(answer.members, width=width, paint=paint)
    return [paint("Each pod for itself", "head"), *text.splitlines()]
