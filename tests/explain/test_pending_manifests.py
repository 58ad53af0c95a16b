"""Pending pods as users write them: the cause is named, and every suggestion places the pod.

Each file in `pending_manifests/` is one cluster with a pod or a workload that gets no node. Its
first lines name the object to explain, and what the explanation has to say before its suggestions.
The cluster runs in virtual time, with admission, controllers, kubelets and the scheduler.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from kubesched.api import Pod
from kubesched.api.kinds import KINDS
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.manifests import apply_manifests, load_manifests
from kubesched.dashboard.bad_request import BadRequestError
from kubesched.dashboard.edit_transaction import apply_edits
from kubesched.explain import Snapshot
from kubesched.explain.explanation import Suggestion
from kubesched.explain.pending_text import render_pending
from kubesched.explain.text import render
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.randomness import derive

FILES = sorted((Path(__file__).parent / "pending_manifests").glob("*.yaml"))
# Nothing that is known helps: volumes in two zones, a provisioner that does not run, a pod that
# its controller does not create.
WITHOUT_SUGGESTIONS = {
    "limit-range",
    "no-priority-class",
    "no-runtime-class",
    "paused-deployment",
    "provisioner-absent",
    "quota",
    "two-volumes-two-zones",
}


class PendingManifest(NamedTuple):
    """A file, the object to explain (`pod/web`), and what is said about it."""

    path: Path
    target: str
    says: Sequence[str]

    @classmethod
    def of(cls, path: Path) -> PendingManifest:
        target, says = path.read_text().splitlines()[:2]
        return cls(
            path, target.removeprefix("# target: "), json.loads(says.removeprefix("# says: "))
        )

    def is_about(self, each: Any) -> bool:
        return f"{type(each).kind.lower()}/{each.metadata.name}" == self.target

    def pods(self, cluster: LiveCluster) -> list[Pod]:
        """Return the pod, or the pods of the workload, that are not being deleted."""
        kind, _, name = self.target.partition("/")
        return [
            pod
            for pod in cluster.api.present(Pod)
            if pod.metadata.deletion_timestamp is None
            and (
                pod.metadata.name == name
                or (kind != "pod" and pod.metadata.name.startswith(f"{name}-"))
            )
        ]

    def placed(self, cluster: LiveCluster) -> int:
        return sum(bool(pod.spec.node_name) for pod in self.pods(cluster))

    def explain(self, cluster: LiveCluster) -> tuple[str, tuple[Suggestion, ...]]:
        objects: list[Any] = [
            each
            for kind in KINDS
            if cluster.api.store.catalog.has_type(kind.type)
            for each in cluster.api.present(kind.type)
        ]
        snapshot = Snapshot(objects)
        kind, _, name = self.target.partition("/")
        if kind == "pod":
            answer = snapshot.explain(f"default/{name}")
            return render(answer, width=120), answer.suggestions
        report = snapshot.explain_workload(kind, name)
        suggestions = report.causes[0].suggestions if report.causes else ()
        return render_pending(report, width=120), suggestions


class Cluster(LiveCluster):
    """A live cluster with the objects of a file, after the scheduler has tried the pods."""

    def __init__(self) -> None:
        embedded = EmbeddedCluster(current_clock(), derive(0, "store"), heartbeats=False)
        super().__init__(embedded, seed=0)

    async def prepare(self, manifest: PendingManifest) -> None:
        """Create what is to be explained after the other pods have their nodes and devices."""
        given = load_manifests([manifest.path])
        last = [each for each in given if manifest.is_about(each.object)]
        await apply_manifests(self.api, [each for each in given if each not in last])
        await self.clock.sleep(2 * SECOND)
        await apply_manifests(self.api, last)
        await self.clock.sleep(5 * SECOND)


def explained(manifest: PendingManifest) -> tuple[str, tuple[Suggestion, ...]]:
    async def main() -> tuple[str, tuple[Suggestion, ...]]:
        cluster = Cluster()
        async with cluster.running():
            await cluster.prepare(manifest)
            return manifest.explain(cluster)

    return virtual_loop.run(main)


def problem_of(manifest: PendingManifest, suggestion: Suggestion) -> str:
    """Apply a suggestion to a cluster of its own; empty if a further pod is placed."""

    async def main() -> str:
        cluster = Cluster()
        async with cluster.running():
            await cluster.prepare(manifest)
            before = manifest.placed(cluster)
            edits = [msgspec.to_builtins(each) for each in suggestion.edits]
            try:
                await apply_edits(cluster.api, edits, cluster.clock)
            except BadRequestError as error:
                return f"{suggestion.change}: refused: {error}"
            for _ in range(60):
                await cluster.clock.sleep(SECOND)
                pods = manifest.pods(cluster)
                # With fewer replicas the pod is deleted, and no other pod is pending.
                is_enough = pods and (not before or not suggestion.node)
                if manifest.placed(cluster) > before or (is_enough and all_placed(pods)):
                    return ""
                await asyncio.sleep(0)
            return f"{suggestion.change}: not placed"

    return virtual_loop.run(main)


def all_placed(pods: Sequence[Pod]) -> bool:
    return all(pod.spec.node_name for pod in pods)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_cause_is_named_and_every_suggestion_places_the_pod(path: Path) -> None:
    manifest = PendingManifest.of(path)
    text, suggestions = explained(manifest)
    head = " ".join(text.split("What would help")[0].split())
    for part in manifest.says:
        assert part in head, text
    assert bool(suggestions) == (path.stem not in WITHOUT_SUGGESTIONS), text
    assert all(each.verified for each in suggestions)
    problems = [problem_of(manifest, each) for each in suggestions if each.edits]
    assert not [each for each in problems if each]
