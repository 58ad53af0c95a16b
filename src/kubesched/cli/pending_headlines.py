"""Why the pods of an embedded cluster are pending, in the first line of `kubesched explain`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from kubesched.api import PodGroup
from kubesched.api.pod_facts import pod_key
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.explain import Snapshot
from kubesched.explain.clusters.sources import SCHEDULING_KINDS
from kubesched.explain.group_explanation import members_of
from kubesched.foundation.util.forked import ChildError, in_child
from kubesched.scheduler.all_plugins import complete_registry
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry, custom_kinds_of

__all__ = ["pending_headlines"]

_LONGEST_S: Final = 20.0


async def pending_headlines(
    live: LiveCluster, plugins: PluginRegistry, gates: FeatureGates
) -> Mapping[str, str]:
    """Return the headlines by namespace and name, without those of pods that fit.

    A child process computes them while the cluster continues. After a timeout the result is empty.
    """
    api = live.cluster.api

    def work() -> bytes:
        registry = complete_registry(plugins)
        custom = custom_kinds_of(registry, sorted(live.configuration.enabled_plugins()))
        snapshot = Snapshot(
            [each for kind in (*SCHEDULING_KINDS, *custom) for each in api.present(kind.type)],
            configuration=live.configuration,
            plugins=registry,
            gates=gates,
        )
        report = snapshot.explain_pending(suggest=False)
        found = {
            row.pod: cause.summary
            for cause in report.causes
            if cause.verdict == "pending"
            for row in cause.pods
        }
        if gates.enabled("GenericWorkload"):
            found |= _of_groups(snapshot)
        return msgspec.json.encode(found)

    try:
        found = await (
            in_child(work, _LONGEST_S) if hasattr(os, "fork") else asyncio.to_thread(work)
        )
    except ChildError:
        return {}
    return msgspec.json.decode(found, type=dict[str, str])


def _of_groups(snapshot: Snapshot) -> dict[str, str]:
    """Return what the group of each pending member waits for, by namespace and name."""
    found = {}
    for group in snapshot.model.objects.list(PodGroup):
        name, namespace = group.metadata.name, group.metadata.namespace
        answer = snapshot.explain_group(name, namespace, suggest=False)
        if answer.verdict not in ("pending", "incomplete"):
            continue
        for pod in members_of(snapshot.model, namespace, name):
            if not pod.spec.node_name:
                found[pod_key(pod)] = f"pod group {name}: {answer.summary}"
    return found
