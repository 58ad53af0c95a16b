"""Whether what a pod is told about nodes is true, by the judge's word.

A message gives numbers of nodes with reasons. No reason may be given for more nodes than have it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from kubesched.api import Node, Pod
from tests.fault_injection.placement_oracle import placement_violations

__all__ = ["counts_add_up", "false_statements", "sorted_words"]

# What a reason says, and what the judge says then.
_MEANINGS = {
    r"Insufficient (\S+)": r"\d+ of {} would be asked of",
    r"Too many pods": r"it has \d+ pods already",
    r"node\(s\) had untolerated taint.*": r"taint .* is not tolerated",
    r"node\(s\) were unschedulable": r"taint node.kubernetes.io/unschedulable is not tolerated",
    r"node\(s\) didn't match Pod's node affinity/selector": r"label .* is not ",
    r"node\(s\) didn't have free ports for the requested pod ports": r"host port \d+ is taken",
    r"node\(s\) didn't match pod anti-affinity rules": r"it wants .* away",
    r"node\(s\) didn't satisfy existing pods anti-affinity rules": r".* wants it away",
    r"node\(s\) didn't match pod affinity rules": r"nobody is there",
    r"node\(s\) didn't match pod topology spread constraints \(.*": r".* does not count",
    r"node\(s\) didn't match pod topology spread constraints": r"the skew over",
}


def false_statements(
    message: str,
    pod: Pod,
    nodes: Mapping[str, Node],
    placed: Collection[Pod],
    nominated: Mapping[str, Collection[Pod]],
) -> Iterator[str]:
    """What a message says that is not so, given what there is and whom nodes are promised to."""
    found = re.match(r"0/(\d+) nodes are available: (.*?)\.(?: |$)", message)
    if found is None:
        return
    if int(found[1]) != len(nodes):
        yield f"there are {len(nodes)} nodes"
    against = [
        [
            *placement_violations(pod, name, nodes, placed),
            *placement_violations(pod, name, nodes, [*placed, *nominated.get(name, ())]),
        ]
        for name in nodes
    ]
    for part in found[2].split(", "):
        number, _, reason = part.partition(" ")
        meant = _meaning(reason)
        if meant is None or not number.isdecimal():
            continue  # of what the judge does not look at
        count = sum(any(re.match(meant, each) for each in texts) for texts in against)
        if int(number) > count:
            yield f"{reason!r} is so of {count} nodes"


def _meaning(reason: str) -> str | None:
    for said, meant in _MEANINGS.items():
        if match := re.fullmatch(said, reason):
            return meant.format(*map(re.escape, match.groups()))
    return None


def counts_add_up(message: str) -> bool:
    """Whether a message about nodes gives at least as many reasons as it names nodes."""
    found = re.match(r"0/(\d+) nodes are available: (.*?)\.(?: |$)", message)
    if found is None:
        return bool(message)
    parts = found[2].split(", ")
    counts = [int(part.split(" ", 1)[0]) for part in parts if part.split(" ", 1)[0].isdecimal()]
    return len(counts) < len(parts) or sum(counts) >= int(found[1])


def sorted_words(said: tuple[str, ...] | None) -> list[str]:
    """Words, sorted: nodes are told of in the order in which they were looked at."""
    return sorted(" ".join(said or ()).replace("]", ",").split())
