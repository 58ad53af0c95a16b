"""The main reason of a waiting pod, from the text that a scheduler wrote into its condition.

The API carries nothing but this text, and the page also shows pods that another scheduler tried.
This is the only place that splits such a text: everything that has a scheduler's decision at hand
reads the causes of its statuses (`kubesched.framework.causes`).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["main_reason"]

# "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint(s). ..."
_COUNTED: Final = re.compile(r"(\d+) ((?:[^,.]|\.(?! |$))+)")


def main_reason(message: str) -> str:
    """Return the reason that most nodes have, or the one that concerns the pod as a whole."""
    head, _, rest = message.partition(": ")
    if "nodes are available" not in head:
        return message.partition(".")[0]
    best, most = "", -1
    reasons = rest.partition(" preemption: ")[0]
    for number, text in _COUNTED.findall(reasons):
        if int(number) > most:
            best, most = text.strip(), int(number)
    # A reason for all nodes alike has no number: `persistentvolumeclaim "data" not found`.
    return best or reasons.partition(". ")[0] or message
