"""Whether nominated pods have required anti-affinity terms.

The scheduler reserves room for a pod that is nominated to a node. A nominated pod with required
anti-affinity must also repel pods that it does not tolerate. Otherwise such pods would be placed in
the released room, be evicted, and be recreated, in an endless loop.
"""

from __future__ import annotations

from kubesched.framework import Handle

__all__ = ["NominatedTerms"]


class NominatedTerms:
    """Tracks nominations; checks only the nodes whose nominations changed."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._position = -1
        self._nodes: set[str] = set()  # with a nominated pod that has required anti-affinity

    def exist(self) -> bool:
        """Whether some nominated pod has a required anti-affinity term."""
        nominator = self._handle.nominator
        if nominator.position == self._position:
            return bool(self._nodes)
        changed = nominator.changes_since(self._position)
        if changed is None:
            self._nodes.clear()
            changed = nominator.nominated_nodes()
        for name in list(changed):
            pods = nominator.nominated_pods(name) if name else ()
            if any(each.required_anti_affinity_terms for each in pods):
                self._nodes.add(name)
            else:
                self._nodes.discard(name)
        self._position = nominator.position
        return bool(self._nodes)
