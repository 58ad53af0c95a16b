"""An index of pods by namespace and label, for controllers that select pods.

A cluster may have thousands of PodDisruptionBudgets and Services, and each change of a pod makes
those of its namespace plan again. Without the index each plan would read all pods of the namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kubesched.api import Pod
from kubesched.api.labels import Selector

__all__ = ["PodsByLabel"]

_EMPTY: Mapping[str, None] = {}


class PodsByLabel:
    """Uids of pods by label. Only keys that a selector has asked for are indexed."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[tuple[str, str], dict[str, None]]] = {}

    def missing_keys(self, selector: Selector) -> Collection[str]:
        """Return the keys of a selector that are not indexed yet."""
        return [key for key, _ in selector.exact_pairs if key not in self._by_key]

    def add_keys(self, keys: Collection[str], pods: Iterable[Pod]) -> None:
        """Index more keys of all pods."""
        self._by_key.update({key: {} for key in keys})
        for pod in pods:
            self._add(pod, keys)

    def candidates(self, namespace: str, selector: Selector) -> Collection[str] | None:
        """Return the uids of the pods that a selector may match; None if they may be any."""
        found = [
            self._by_key[key].get((namespace, value), _EMPTY) for key, value in selector.exact_pairs
        ]
        return min(found, key=len) if found else None

    def observe(self, pod: Pod, before: Pod | None) -> None:
        """Index a pod that is new or has changed."""
        if not self._by_key:
            return
        if before is None:
            self._add(pod, self._by_key)
        elif before.metadata.labels != pod.metadata.labels:
            self.remove(before)
            self._add(pod, self._by_key)

    def remove(self, pod: Pod) -> None:
        metadata = pod.metadata
        for key, values in self._by_key.items():
            if (value := metadata.labels.get(key)) is not None:
                uids = values[metadata.namespace, value]
                del uids[metadata.uid]
                if not uids:
                    del values[metadata.namespace, value]

    def _add(self, pod: Pod, keys: Iterable[str]) -> None:
        metadata = pod.metadata
        for key in keys:
            if (value := metadata.labels.get(key)) is not None:
                place = metadata.namespace, value
                self._by_key[key].setdefault(place, {})[metadata.uid] = None
