"""The Python interface of this package: a cluster at one moment, with methods that explain it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.access import ApiAccess
from kubesched.api.base import ApiObject
from kubesched.api.latest_time import latest_time_ns
from kubesched.explain.clusters.capture import Capture, read_capture
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.clusters.missing_pods import missing_pod_note
from kubesched.explain.clusters.sources import SCHEDULING_KINDS, load_files, read_cluster
from kubesched.explain.clusters.unknown_kinds import without_rules
from kubesched.explain.explanation import Explanation
from kubesched.explain.fitting import Fit, fit_pods
from kubesched.explain.group_explanation import (
    PodGroupExplanation,
    explain_group,
    members_of,
)
from kubesched.explain.pending_report import PendingReport, cause_of, group_by_cause
from kubesched.explain.pod_explanation import explain_pod
from kubesched.explain.whatif import Plan, WhatIf, play
from kubesched.explain.whatif.drain_order import drain_order
from kubesched.explain.workload_pods import find_workload_pods
from kubesched.foundation.util.clock import Clock, ManualClock, RealClock
from kubesched.foundation.util.virtual_loop import DEFAULT_START_NS
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.plugin_registry import Registry, custom_kinds_of

__all__ = ["Snapshot"]

_FINISHED = ("Succeeded", "Failed")


class Snapshot:
    """The objects of a cluster at one moment, and the scheduler's parts that use them.

    No method changes the snapshot or a cluster.
    """

    def __init__(
        self,
        objects: Iterable[ApiObject],
        *,
        configuration: KubeSchedulerConfiguration | None = None,
        unknown: Sequence[str] = (),
        partial: Sequence[str] = (),
        clock: Clock | None = None,
        queue: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Build the model.

        `queue` has the positions of pending pods in a running scheduler's queue.

        `unknown` are kinds that may not be read, `partial` those of which one namespace may be
        read. Without a clock the time of the snapshot is the latest time in its objects.
        """
        objects = list(objects)
        if clock is None:
            clock = ManualClock(latest_time_ns(objects) or DEFAULT_START_NS)
        self.unknown = tuple(unknown)
        self.partial = tuple(partial)
        self._places: Mapping[str, Any] = {} if queue is None else queue.get("pods", {})
        known: Registry = options.pop("plugins", IN_TREE_PLUGINS)
        self.out_of_tree_plugins = {
            name: factory for name, factory in known.items() if name not in IN_TREE_PLUGINS
        }
        plugins = without_rules(known, self.unknown)
        self.model = ClusterModel(
            objects, clock, configuration=configuration, plugins=plugins, **options
        )

    @classmethod
    def from_files(cls, *paths: str | Path, **options: Any) -> Snapshot:
        """Read objects from manifests or dumps, YAML or JSON."""
        loaded = load_files(paths)
        return cls(loaded.objects, unknown=loaded.unknown, **options)

    @classmethod
    async def from_cluster(cls, api: ApiAccess, namespace: str = "", **options: Any) -> Snapshot:
        """Read the objects of an API server that the user may list."""
        given: KubeSchedulerConfiguration | None = options.get("configuration")
        enabled = frozenset() if given is None else given.enabled_plugins()
        custom = custom_kinds_of(options.get("plugins", IN_TREE_PLUGINS), sorted(enabled))
        loaded = await read_cluster(api, (*SCHEDULING_KINDS, *custom), namespace)
        options.setdefault("clock", RealClock())
        return cls(loaded.objects, unknown=loaded.unknown, partial=loaded.partial, **options)

    @classmethod
    def from_capture(cls, path: str | Path, **options: Any) -> Snapshot:
        """Read a file of `kubesched capture`, with the configuration of that time."""
        return cls.of_capture(read_capture(Path(path)), **options)

    @classmethod
    def of_capture(cls, capture: Capture, **options: Any) -> Snapshot:
        """Return the cluster of a capture, with the configuration of that time."""
        if options.get("configuration") is None and capture.configuration is not None:
            options["configuration"] = configuration_from_builtins(capture.configuration)
        if capture.taken and options.get("clock") is None:
            moment_ns = max(capture.taken_ns, latest_time_ns(capture.objects))
            options["clock"] = ManualClock(moment_ns)
        return cls(capture.objects, unknown=capture.unknown, queue=capture.queue, **options)

    def overlaid(self, objects: Iterable[ApiObject]) -> Snapshot:
        """Return a snapshot with further objects, or with other versions of its objects."""
        for each in objects:
            self.model.objects.put(each)
        return self

    def pending(self) -> list[Pod]:
        """Return the pending pods, by name."""
        waiting = [
            pod
            for pod in self.model.objects.list(Pod)
            if not pod.spec.node_name and pod.status.phase not in _FINISHED
        ]
        return sorted(waiting, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))

    def pod(self, name: str, namespace: str = "default") -> Pod:
        """Return a pod by name, or by `namespace/name`."""
        if "/" in name:
            namespace, _, name = name.partition("/")
        return self.model.find_pod(namespace, name)

    def explain(self, pod: Pod | str, *, versus: str = "", suggest: bool = True) -> Explanation:
        """Explain why the pod is pending, or why it gets its node."""
        found = self.pod(pod) if isinstance(pod, str) else pod
        answer = explain_pod(
            self.model,
            found,
            versus=versus,
            suggest=suggest,
            unknown=self.unknown,
            partial=self.partial,
        )
        place = self._places.get(answer.pod)
        return answer if place is None else replace(answer, queue=dict(place))

    def explain_pending(self, namespace: str = "", *, suggest: bool = True) -> PendingReport:
        """Explain all pending pods, or those of a namespace, grouped by cause."""
        pods = [
            pod
            for pod in self.model.objects.list(Pod, namespace or None)
            if pod.status.phase not in _FINISHED
        ]
        return self._report(pods, suggest=suggest)

    def explain_workload(
        self, kind: str, name: str, namespace: str = "default", *, suggest: bool = True
    ) -> PendingReport:
        """Explain the pending pods of a workload, or the pod that its controller would create next.

        Raises:
            ExplainError: there is no such workload.
        """
        found = find_workload_pods(self.model.objects, kind, namespace, name)
        note = ""
        subject = f"{found.kind} {namespace}/{name}"
        if found.why_none:
            note = f"{subject} gets no further pods: {'; '.join(found.why_none)}."
        elif found.missing:
            note = missing_pod_note(self.model.objects, namespace, name)
        report = self._report(found.pods, suggest=suggest)
        if not found.pods and found.wanted != 0:
            answer = self.explain(found.next_pod, suggest=suggest)
            report = replace(report, causes=(cause_of(found.next_pod, answer),))
        return replace(report, subject=subject, missing=found.missing, note=note)

    def explain_group(
        self, name: str, namespace: str = "default", *, suggest: bool = True
    ) -> PodGroupExplanation:
        """Explain what a PodGroup waits for.

        Raises:
            ExplainError: there is no such group.
        """
        if "/" in name:
            namespace, _, name = name.partition("/")
        pods = members_of(self.model, namespace, name)
        report = self._report(pods, suggest=suggest)
        return explain_group(self.model, namespace, name, report)

    def _report(self, pods: Sequence[Pod], *, suggest: bool) -> PendingReport:
        waiting = [pod for pod in pods if not pod.spec.node_name]
        waiting.sort(key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        causes = group_by_cause(
            waiting,
            lambda pod, with_remedies: self.explain(pod, suggest=with_remedies),
            self.model.clock.now_ns(),
            suggest=suggest,
        )
        return PendingReport(
            pods=len(pods),
            pending=len(waiting),
            causes=causes,
            unknown=self.unknown,
            partial=self.partial,
        )

    def fit(self, *pods: Pod, replicas: int | None = None) -> Fit:
        """Compute how many copies of the pods fit; without `replicas`, as many as possible."""
        return fit_pods(self.model, pods, replicas)

    def whatif(self, plan: Plan | None = None, **changes: Any) -> WhatIf:
        """Compute the effects of changes, by a simulation in virtual time on a copy.

        Nodes are drained in an order in which no pod waits, if there is one. `changes` are the
        fields of a `Plan`.
        """
        plan = plan or Plan(**changes)
        if len(plan.drain) > 1:
            plan = replace(plan, drain=drain_order(self.model, plan.drain))
        return play(
            self.model.objects,
            plan,
            configuration=self.model.configuration,
            plugins=self.out_of_tree_plugins,
            now_ns=self.model.clock.now_ns(),
        )

    def __repr__(self) -> str:
        pods = len(self.model.objects.list(Pod))
        return f"<Snapshot of {len(self.model.snapshot)} nodes and {pods} pods>"
