"""A cluster that changes at random, and one cache that applies all changes."""

from __future__ import annotations

import random

from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.framework import NodeView
from kubesched.scheduler.backend.cache import Cache
from kubesched.testing import make_view
from kubesched.testing.objects.random_clusters import random_node, random_pod

__all__ = ["Churn"]


class Churn:
    """A cache to which random additions, changes and removals of pods and nodes are applied."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        # In-tree plugins do not care; counts by labels must be right either way.
        self.cache = Cache(pod_updates_change_rows=seed % 2 == 0)
        self.number = 0
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}

    def step(self) -> None:
        rng = self.rng
        what = rng.random()
        if what < 0.45:
            self.add_pod()
        elif what < 0.65 and self.pods:
            self.cache.remove_pod(self.pods.pop(rng.choice(sorted(self.pods))))
        elif what < 0.75 and self.pods:
            self.change_pod(rng.choice(sorted(self.pods)))
        elif what < 0.95:
            self.write_node(f"node-{rng.randrange(7)}")
        elif self.nodes:
            node = self.nodes.pop(rng.choice(sorted(self.nodes)))
            self.cache.remove_node(node)

    def add_pod(self) -> None:
        self.number += 1
        # Some pods name nodes that are not there.
        pod = random_pod(self.rng, f"pod-{self.number}", node_name=f"node-{self.rng.randrange(7)}")
        self.pods[pod.metadata.name] = pod
        self.cache.add_pod(pod)

    def change_pod(self, name: str) -> None:
        old = self.pods[name]
        other = random_pod(self.rng, name, node_name=old.spec.node_name)
        metadata = replace(
            old.metadata,
            labels=other.metadata.labels,
            deletion_timestamp=other.metadata.deletion_timestamp,
        )
        self.pods[name] = new = replace(old, metadata=metadata)
        self.cache.update_pod(old, new)

    def write_node(self, name: str) -> None:
        self.nodes[name] = node = random_node(self.rng, name)
        self.cache.add_node(node)

    def fresh(self) -> NodeView:
        """Return the same cluster in a new cache; nodes have the same order."""
        shown = self.cache.update_snapshot().nodes
        nodes = [self.nodes[name] for name in shown.names]
        pods = [pod for pod in self.pods.values() if pod.spec.node_name in self.nodes]
        return make_view(*nodes, pods=pods)
