"""Checks whether messages about nodes are correct, according to the placement oracle.

A message gives numbers of nodes with reasons. No reason may be given for more nodes than the oracle
rejects for that reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from kubesched.api import Node, Pod
from tests.fault_injection.placement_oracle import placement_violations

__all__ = ["counts_add_up", "false_statements", "sorted_words"]

# A reason in a message -> the violation that the oracle reports in that case.
_MEANINGS = {
    r"Insufficient (\S+)": r"\d+ of {} would be requested of",
    r"Too many pods": r"the node has \d+ pods already",
    r"node\(s\) had untolerated taint.*": r"taint .* is not tolerated",
    r"node\(s\) were unschedulable": r"taint node.kubernetes.io/unschedulable is not tolerated",
    r"node\(s\) didn't match Pod's node affinity/selector": r"label .* is not ",
    r"node\(s\) didn't have free ports for the requested pod ports": r"host port \d+ is taken",
    r"node\(s\) didn't match pod anti-affinity rules": r"its anti-affinity matches .*",
    r"node\(s\) didn't satisfy existing pods anti-affinity rules": r"the anti-affinity of .* match",
    r"node\(s\) didn't match pod affinity rules": r"no pod there matches",
    r"node\(s\) didn't match pod topology spread constraints \(.*": r".* is no eligible domain",
    r"node\(s\) didn't match pod topology spread constraints": r"the skew over",
}


def false_statements(
    message: str,
    pod: Pod,
    nodes: Mapping[str, Node],
    placed: Collection[Pod],
    nominated: Mapping[str, Collection[Pod]],
) -> Iterator[str]:
    """Return the false parts of a message; `nominated` has the nominated pods of each node."""
    found = re.match(r"0/(\d+) nodes are available: (.*?)\.(?: |$)", message)
    if found is None:
        return
    if int(found[1]) != len(nodes):
        yield f"{len(nodes)} nodes exist"
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
            continue  # the oracle does not check it
        count = sum(any(re.match(meant, each) for each in texts) for texts in against)
        if int(number) > count:
            yield f"{reason!r} is true of {count} nodes"


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
    """Return the words in order: messages list nodes in the order in which they were filtered."""
    return sorted(" ".join(said or ()).replace("]", ",").split())
