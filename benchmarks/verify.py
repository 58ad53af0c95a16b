"""Compare the decisions of the cached and the full search in a cluster that changes all the time.

    python -m benchmarks.verify --decisions 50000

`--verify-engine` makes the same comparison. Here there is no server: nodes are added, changed and
deleted, pods are placed, relabelled and deleted, objects change, pods are nominated. The first
difference is an error. Prints one JSON line: the number of decisions compared, and their results.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import click
from msgspec.structs import replace

from kubesched.api import DeviceClass, DeviceClassSpec, Pod
from kubesched.errors import PluginError
from kubesched.framework import CycleState, FitError, Nominating, NominatingMode, PodInfo
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.config import default_configuration
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.schedule_result import NoNodesError
from kubesched.scheduler.search.verification import VerifyingSearch
from kubesched.testing import FakeHandle, make_meta, random_cluster, random_node, random_pod

__all__ = ["Churn"]

_TEMPLATES = 25
_MOST_PODS = 150


class Churn:
    """A small cluster with many similar pods, so that cached answers are used."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.rng = random.Random(seed)
        cluster = random_cluster(self.rng, nodes=nodes, pods=2 * nodes)
        self.cache = Cache()
        self.nodes = {node.metadata.name: node for node in cluster.nodes}
        for node in cluster.nodes:
            self.cache.add_node(node)
        self.running: dict[str, Pod] = {}
        for pod in cluster.pods:
            self.cache.add_pod(pod)
            self.running[pod.metadata.uid] = pod
        self.handle = FakeHandle(cluster.others, snapshot=self.cache.snapshot)
        self.services = self.handle.services()
        profile = default_configuration().profiles[0]
        self.framework = Framework(profile, IN_TREE_PLUGINS, self.services)
        self.search = VerifyingSearch(self.cache.snapshot, random.Random(seed))
        self.templates = [
            random_pod(self.rng, f"template-{number}", claims=cluster.claims)
            for number in range(_TEMPLATES)
        ]
        self.outcomes: Counter[str] = Counter()
        self._number = 0

    def decide(self) -> None:
        """Place one pod, and change the cluster before the next one.

        Raises:
            EngineMismatchError: the two searches came to different results.
        """
        self._number += 1
        pod = self._next_pod()
        self.cache.update_snapshot()
        state = CycleState()
        try:
            result = self.search.schedule_pod(self.framework, state, PodInfo(pod))
        except (FitError, NoNodesError):
            self.outcomes["unschedulable"] += 1
            self._nominate(pod)
        except PluginError:
            self.outcomes["error"] += 1
        else:
            self.outcomes["placed"] += 1
            placed = PodInfo(pod).placed_on(result.node_name)
            self.cache.assume_pod(placed)
            self.cache.add_pod(placed.pod)
            self.running[pod.metadata.uid] = placed.pod
        self._change()

    def _next_pod(self) -> Pod:
        template = self.rng.choice(self.templates)
        name = f"p{self._number}"
        return replace(template, metadata=replace(template.metadata, name=name, uid=name))

    def _nominate(self, pod: Pod) -> None:
        if self.rng.random() < 0.02 and self.nodes:
            self.handle.objects.put(pod)
            node = self.rng.choice(list(self.nodes))
            nominating = Nominating(NominatingMode.OVERRIDE, node)
            self.services.nominator().add_nominated_pod(PodInfo(pod), nominating)
            self.outcomes["nominated"] += 1
        elif self.rng.random() < 0.05:
            for waiting in list(self.handle.objects.list(Pod)):
                self.services.nominator().delete_nominated_pod(waiting)

    def _change(self) -> None:
        while len(self.running) > _MOST_PODS or (self.running and self.rng.random() < 0.3):
            uid = self.rng.choice(list(self.running))
            self.cache.remove_pod(self.running.pop(uid))
        chance = self.rng.random()
        if chance < 0.05:
            self._change_node()
        elif chance < 0.12 and self.running:
            uid = self.rng.choice(list(self.running))
            old = self.running[uid]
            labels = {**old.metadata.labels, "app": self.rng.choice(("web", "db"))}
            new = self.running[uid] = replace(old, metadata=replace(old.metadata, labels=labels))
            self.cache.update_pod(old, new)
        elif chance < 0.14:
            meta = make_meta("DeviceClass", f"class-{self.rng.randrange(3)}")
            names = ("example.com/gpu", "example.com/nic")
            spec = DeviceClassSpec(extended_resource_name=self.rng.choice(names))
            self.handle.objects.put(DeviceClass(metadata=meta, spec=spec))
            self.services.object_versions.changed(DeviceClass)

    def _change_node(self) -> None:
        name = f"node-{self.rng.randrange(len(self.nodes) + 2)}"
        node = random_node(self.rng, name)
        if name in self.nodes and self.rng.random() < 0.3:
            self.cache.remove_node(self.nodes.pop(name))
            for uid, pod in list(self.running.items()):
                if pod.spec.node_name == name:
                    self.cache.remove_pod(self.running.pop(uid))
        elif name in self.nodes:
            self.nodes[name] = node
            self.cache.update_node(node)
        else:
            self.nodes[name] = node
            self.cache.add_node(node)


@click.command()
@click.option("--decisions", default=50_000, show_default=True, help="How many to compare.")
@click.option("--nodes", default=30, show_default=True, help="Nodes of each cluster.")
@click.option("--each", default=2_000, show_default=True, help="Decisions per cluster.")
@click.option("--seed", default=0, show_default=True, help="Of the first cluster.")
def main(decisions: int, nodes: int, each: int, seed: int) -> None:
    """Compare cached and full searches; the first difference is an error."""
    outcomes: Counter[str] = Counter()
    done = 0
    while done < decisions:
        churn = Churn(seed, nodes)
        for _ in range(min(each, decisions - done)):
            churn.decide()
            done += 1
        outcomes += churn.outcomes
        seed += 1
    click.echo(json.dumps({"benchmark": "verify", "decisions": done, **outcomes}))


if __name__ == "__main__":
    main()
