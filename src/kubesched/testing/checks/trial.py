"""One round of a plugin check: a random cluster, a plugin, and the report of a violation."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import msgspec

from kubesched.api import Pod
from kubesched.api.base import ApiObject
from kubesched.errors import PluginError
from kubesched.foundation.util.randomness import derive
from kubesched.framework import NodeView, Plugin, Status
from kubesched.scheduler.backend.cache import Cache
from kubesched.testing.checks.fingerprint import difference, fingerprint
from kubesched.testing.checks.legal import illegal
from kubesched.testing.fakes.fake_handle import FakeHandle
from kubesched.testing.objects.builders import make_node
from kubesched.testing.objects.random_clusters import RandomCluster, random_cluster, random_pod

__all__ = ["PluginFactory", "Trial"]

PluginFactory = Callable[[Any, FakeHandle], Plugin]


class Trial:
    """A random cluster drawn from (seed, number), a pending pod, and the plugin under test."""

    def __init__(self, factory: PluginFactory, args: Any, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.rng = derive(seed, "check_plugin", number)
        self._factory, self._args = factory, args
        self.cluster = random_cluster(
            self.rng, nodes=self.rng.randint(2, 9), pods=self.rng.randint(0, 25)
        )
        self.pod = random_pod(self.rng, "incoming", claims=self.cluster.claims)
        self.handle = make_handle(self.cluster, self.pod, with_free_row=number % 2 == 1)
        self.plugin = factory(args, self.handle)
        self.view: NodeView = self.handle.snapshot.nodes

    def in_other_world(self, cluster: RandomCluster) -> tuple[Plugin, NodeView]:
        """Build the plugin for another cluster; return it and the cluster's nodes."""
        handle = make_handle(cluster, self.pod, with_free_row=False)
        return self._factory(self._args, handle), handle.snapshot.nodes

    def fail(self, rule: str, seen: str) -> NoReturn:
        """Raise PluginError with the plugin, the rule, the violation, and the seed."""
        name = self.plugin.name or type(self.plugin).__name__
        text = " ".join(seen.split())
        raise PluginError(f"{name}: {rule}: {text} (seed={self.seed}, round={self.number})")

    @contextlib.contextmanager
    def calling(self, method: str, view: NodeView | None = None) -> Iterator[None]:
        """Check calls of a plugin's method: no exception, and no mutation of the arguments."""
        nodes = self.view if view is None else view
        before = fingerprint(self.pod, nodes)
        try:
            yield
        except (PluginError, AssertionError):
            raise
        except Exception as exc:
            self.fail("a method does not raise", f"{method} raised {exc!r}")
        changed = difference(before, fingerprint(self.pod, nodes))
        if changed:
            self.fail("inputs are not mutated", f"{method} changed {changed}")

    def check_status(self, method: str, status: object) -> Status:
        """Check that a result is a Status that the method's extension point allows."""
        problem = illegal(method, status)
        if problem:
            self.fail("statuses are legal for the extension point", f"{method} {problem}")
        assert isinstance(status, Status)
        return status


def make_handle(cluster: RandomCluster, pod: Pod, *, with_free_row: bool) -> FakeHandle:
    """Build a handle for a cluster with a pending pod.

    With a free row in the node table, row numbers differ from positions in a view, as after the
    removal of a node.
    """
    cache = Cache()
    ghost = make_node("removed", labels={"disk": "ssd"})
    if with_free_row:
        cache.add_node(ghost)
        cache.update_snapshot()
    for node in cluster.nodes:
        cache.add_node(node)
    for placed in cluster.pods:
        cache.add_pod(placed)
    if with_free_row:
        cache.remove_node(ghost)
    objects: tuple[ApiObject, ...] = (*cluster.objects, pod)
    return FakeHandle(objects, snapshot=cache.update_snapshot())


def copy_of(pod: Pod) -> Pod:
    """Return a deep copy of a pod."""
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)


def pick(rng: random.Random, view: NodeView) -> int:
    """Return the index of a random node of the view."""
    return rng.randrange(len(view))
