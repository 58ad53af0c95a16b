"""More planted bugs: what somebody would try who has not seen the first ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.cluster.apiserver.store import object_store, preconditions
from kubesched.cluster.apiserver.store.persistence import DataFile
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.informer_store import ObjectStore
from kubesched.foundation.client.lease_view import LeaseView
from kubesched.framework import pod_status_writer
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue import queueing_hints
from kubesched.scheduler.backend.queue.backoff import Backoff
from kubesched.scheduler.backend.queue.in_flight import InFlight
from kubesched.scheduler.backend.queue.nominator import Nominator
from kubesched.scheduler.backend.queue.pre_enqueue import Gatekeeper
from kubesched.scheduler.backend.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.backend.queue.unschedulable_pods import UnschedulablePods
from kubesched.scheduler.cycles.binding_cycle import BindingCycle
from kubesched.scheduler.cycles.failure import FailureHandler
from kubesched.scheduler.events.event_handlers import EventHandlers
from kubesched.scheduler.extenders.chain import Extenders
from kubesched.scheduler.plugins.default_preemption.evaluator import Evaluator
from kubesched.scheduler.plugins.default_preemption.eviction import Evictions
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import InFlightClaims
from kubesched.scheduler.plugins.dynamic_resources.claim_reservation import ClaimReservation
from kubesched.scheduler.plugins.dynamic_resources.claim_writing import ClaimWriter
from kubesched.scheduler.plugins.volume_binding import VolumeBinding
from kubesched.scheduler.runtime.waiting_pods import PodsInPreBind, WaitingPodEntry
from tests.fault_injection.planting import Patch, edited, no, nothing, sometimes, yes

__all__ = ["MORE"]


def _deaf(plugin: str, resource: str) -> tuple[Patch, ...]:
    """A plugin does not hear of changes of a kind of object."""
    original: Callable[..., Any] = queueing_hints._registrations_of

    def registrations(owner: Any, **options: Any) -> Any:
        return [
            each
            for each in original(owner, **options)
            if each.plugin != plugin or each.event.resource.rpartition("/")[2] != resource
        ]

    return ((queueing_hints, "_registrations_of", registrations),)


# NodeUnschedulable need not hear of nodes: a controller keeps a taint beside every cordon.
_DEAF = (
    ("NodeAffinity", "Node"),
    ("NodePorts", "Pod"),
    ("NodeResourcesFit", "Node"),
    ("NodeResourcesFit", "Pod"),
    ("TaintToleration", "Pod"),
    ("InterPodAffinity", "Pod"),
    ("PodTopologySpread", "Pod"),
    ("PodTopologySpread", "Node"),
    ("SchedulingGates", "Pod"),
    ("VolumeBinding", "PersistentVolume"),
    ("VolumeRestrictions", "Pod"),
    ("VolumeRestrictions", "PersistentVolumeClaim"),
    ("DynamicResources", "ResourceClaim"),
    ("DynamicResources", "Pod"),
    ("DynamicResources", "ResourceSlice"),
)

MORE: dict[str, tuple[Patch, ...]] = {
    **{f"{plugin} does not hear of {kind}s": _deaf(plugin, kind) for plugin, kind in _DEAF},
    # The queue
    "an event wakes only the first of those who wait": (
        edited(
            SchedulingQueue,
            "move_all",
            "for queued in candidates:\n            strategy",
            "for queued in candidates[:1]:\n            strategy",
        ),
    ),
    "backoff grows without end": (
        edited(Backoff, "duration_ns", "return self.max_ns", "return 1000 * self.max_ns"),
    ),
    "who is deleted during an attempt is put back": (
        edited(
            FailureHandler,
            "_requeue",
            "if current is None or current.spec.node_name:",
            "current = current or queued.pod\n    if current.spec.node_name:",
        ),
    ),
    "gated pods are tried": ((Gatekeeper, "check", yes),),
    "a pod that waits is filed under no plugin": ((UnschedulablePods, "_buckets_for", tuple),),
    "events in flight are kept for ever": (
        edited(InFlight, "done", "del self._events[:obsolete]", "pass"),
    ),
    "a nomination is not taken back": (
        edited(
            pod_status_writer,
            "status_patch",
            "if nominated_node is not None and nominated_node",
            "if nominated_node and nominated_node",
        ),
    ),
    "who waits does not hear that a nomination is gone": (
        (EventHandlers, "_announce_to_lower_priority", nothing),
    ),
    "room that is kept for others is given away": (
        (Nominator, "nominated_pods", lambda *_: ()),
        (Nominator, "nominated_nodes", lambda *_: ()),
    ),
    # The cache
    "changes of nodes are forgotten now and then": (sometimes(Cache, "update_node", 4),),
    "a pod that another replica bound elsewhere stays where it was assumed": (
        edited(
            Cache,
            "add_pod",
            "if cached.pod.spec.node_name == pod.spec.node_name and _same_demand(cached.pod, pod):",
            "if cached.pod:",
        ),
    ),
    "ports that are taken are not written": (
        edited(Cache, "_write_row", "table.write_ports(row, info.used_ports)", "pass"),
    ),
    # Binding
    "volumes stay reserved when a binding fails": ((VolumeBinding, "unreserve", nothing),),
    "devices stay reserved when a binding fails": ((ClaimReservation, "unreserve", nothing),),
    "a binding that is refused is taken for done": (
        edited(
            HttpApi,
            "bind",
            '_check_is_object(await self._call("POST", place, codec.encode(binding)))',
            'try:\n        await self._call("POST", place, codec.encode(binding))\n'
            "    except ApiError as exc:\n        if exc.code != 409:\n            raise",
        ),
    ),
    "whoever has the name is bound": (
        edited(HttpApi, "bind", "namespace=namespace, uid=uid", 'namespace=namespace, uid=""'),
    ),
    "whoever has the name is evicted": (edited(HttpApi, "delete", "if uid:", "if False:"),),
    "who waits on permit is never refused": ((WaitingPodEntry, "reject", no),),
    "who is in PreBind is never forgotten": ((PodsInPreBind, "remove", nothing),),
    "what is said of a pod is written into its successor": (
        (pod_status_writer, "for_this_object", lambda _, patch: patch),
    ),
    "an extender is not asked": ((Extenders, "names_asked_about", lambda *_: frozenset()),),
    # Leading
    "a lease runs out after half its time": (
        edited(LeaseView, "is_valid", "+ duration_ns > now_ns", "+ duration_ns // 2 > now_ns"),
    ),
    # Watches
    "deletions of some are dropped": (
        edited(
            ObjectStore,
            "apply",
            'if event.type == "DELETED":',
            'if event.type == "DELETED" and sum(map(ord, name)) % 4 == 0:\n'
            '        return None\n    if event.type == "DELETED":',
        ),
    ),
    "a history that is gone is asked for again and again": (
        edited(
            SharedInformer,
            "_watch_until_lost",
            "if error.code not in (_UNREACHABLE, _TOO_MANY_REQUESTS):",
            "if error.code not in (_UNREACHABLE, _TOO_MANY_REQUESTS, _GONE):",
        ),
    ),
    "a watch goes on where it was before the list": (
        edited(SharedInformer, "_replace", "self._version = version", "self._version or version"),
    ),
    "what changed during a gap is not told": (
        edited(
            ObjectStore,
            "replace",
            "return gone + changes",
            "return gone + [each for each in changes if each.old is None]",
        ),
    ),
    # Preemption
    "one victim too many": (
        edited(
            Evictions,
            "start",
            "for each in candidate.victims if not",
            "for each in self._handle.snapshot.get(candidate.node_name).pods "
            "if pod_priority(each.pod) < pod_priority(preemptor) and not",
        ),
    ),
    "who is polite evicts others": (
        edited(Evaluator, "_ineligible", 'pod.spec.preemption_policy == "Never"', "False"),
    ),
    # Volumes and devices
    "devices in flight are free": ((InFlightClaims, "add", nothing),),
    "a reservation is not written": (
        edited(
            ClaimWriter,
            "_write_once",
            "reserved_for=(*status.reserved_for, consumer)",
            "reserved_for=status.reserved_for",
        ),
    ),
    "a claim is taken for what it was": ((ClaimReservation, "_refresh", nothing),),
    # What is said and counted
    "no event says why a pod waits": (
        edited(
            FailureHandler,
            "handle",
            'framework.recorder.event(\n        queued.pod, "Warning"',
            '(lambda *_: None)(\n        queued.pod, "Warning"',
        ),
    ),
    "no event says that a pod is placed": (
        edited(BindingCycle, "_succeed", "framework.recorder.event(", "(lambda *_: None)("),
    ),
    "a metric is counted twice": (
        edited(
            BindingCycle,
            "_observe_success",
            "admitted_ns = queued",
            'metrics.observe_attempt("scheduled", attempt.framework.profile_name, duration_ns)\n'
            "    admitted_ns = queued",
        ),
    ),
    "pods that enter a queue are counted twice": (
        edited(
            SchedulingQueue,
            "_entered",
            "self._journal.enter(",
            "self._metrics.queue_incoming_pods_total.labels(queue, label).inc()\n"
            "    self._journal.enter(",
        ),
    ),
    "a condition whose message changes stays": (
        edited(
            pod_status_writer,
            "_condition_change",
            "and current.message == wanted.message",
            "and True",
        ),
    ),
    # The server
    "some writes are not in the file": (sometimes(DataFile, "write", 9),),
    "a write with an old version is let through": (
        (
            object_store,
            "check_write",
            edited(
                preconditions,
                "check_write",
                'if version != stored["resourceVersion"]:',
                "if False:",
            )[2],
        ),
    ),
}
