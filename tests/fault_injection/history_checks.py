"""Checks of the store's history, made with every request and every change.

The API allows some races: a watch may lag behind, and a response may be lost. The checks
distinguish them from bugs by the events and responses that a process has received.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import convert
from msgspec.structs import replace

from kubesched.api import Node, Pod, ResourceClaim
from kubesched.api.pod_facts import is_terminating, pod_priority
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.store.stored_records import StoredChange
from kubesched.errors import CacheError
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util.clock import SECOND
from tests.fault_injection.faulty_extender import is_accepted
from tests.fault_injection.generated_objects import FOO, SERVED
from tests.fault_injection.lease_history import LEASE_CLIENT, LeaseHistory
from tests.fault_injection.message_checks import false_statements
from tests.fault_injection.placement_oracle import has_affinity_to, placement_violations
from tests.fault_injection.replica import ReplicaProcess
from tests.fault_injection.resource_oracle import (
    allocated_devices,
    device_violations,
    volume_violations,
)
from tests.fault_injection.server_invariants import ServerInvariants

__all__ = ["HistoryChecker"]

Json = dict[str, Any]
LEASE = "kube-system/kube-scheduler"
_MOST_ATTEMPTS = 50
# The fields of a pod's status that a scheduler may write.
_OF_SCHEDULERS = (
    "nominatedNodeName",
    "observedGeneration",
    "qosClass",
    "extendedResourceClaimStatus",
)


class HistoryChecker:
    """Records requests, decisions and changes, and reports those that break an invariant."""

    def __init__(
        self,
        store: Callable[[], Store],
        process_of: Callable[[str], ReplicaProcess | None],
        acting: Callable[[], str],
        report: Callable[[str], None],
        log: Callable[[str], None],
    ) -> None:
        self._store, self._process_of, self._acting = store, process_of, acting
        self._report, self._log = report, log
        self._server_invariants = ServerInvariants(report)
        self.uids: dict[str, str] = {}  # uid of every pod that was created -> name
        self.schedulers: dict[str, str] = {}  # uid -> scheduler name of the pod
        self.bound: Counter[str] = Counter()  # uid -> number of bindings by schedulers
        self.node_of: dict[str, str] = {}  # uid -> node of the last binding
        self.bound_by: Counter[str] = Counter()  # identity -> bindings that took effect
        self.bound_in_quiet_phase: set[str] = (
            set()
        )  # uids of the pods that were bound before the quiet phase
        self.is_quiet = False
        self._leases = LeaseHistory()
        self._decisions: dict[tuple[str, str], str] = {}  # identity, uid -> node
        self._confirmed_bindings: dict[
            str, dict[str, str]
        ] = {}  # identity -> uid -> name of the pods that it has received as bound
        self._attempts: Counter[tuple[str, str, int]] = Counter()
        self._tried: set[tuple[str, str]] = set()  # identity, uid
        self._disruption_marked: set[str] = set()  # uids of pods with a disruption condition
        self._evicted: dict[tuple[str, str], set[str]] = {}  # identity, preemptor -> uids
        self._devices: dict[tuple[str, str, str], str] = {}  # device -> key of its claim
        self._allocated_by: dict[tuple[str, str, str], str] = {}  # device -> identity of the writer
        self.evictions_by: Counter[str] = Counter()  # identity -> evictions sent to its client
        self.deleted = 0  # number of pods that were deleted
        self._groups: dict[str, str] = {}  # uid -> name of the pod's group

    # Requests

    def on_request_applied(
        self, name: str, request: OutgoingRequest, answer: ServerResponse
    ) -> None:
        """Check a request that took effect, from the server's side."""
        self._server_invariants.on_request_applied(request, answer)
        if name.startswith(LEASE_CLIENT) or request.method == "GET" or answer.status >= 300:
            return
        if not self._leases.may_write(name):
            holder = self._leases.holder
            self._report(f"{request.method} {request.target} by {name}, lease held by {holder}")
        path = request.target.partition("?")[0]
        if path.endswith("/binding"):
            self._check_binding(name, path.split("/")[-2])
        elif request.method == "DELETE" and "/pods/" in path and b'"uid"' not in request.body:
            self._report(f"{name} deleted {path.split('/')[-1]} without a uid")
        elif request.method == "PATCH" and "/pods/" in path and path.endswith("/status"):
            self._check_status_patch(name, path.split("/")[-2], json.loads(request.body)["status"])

    def on_answer(self, name: str, request: OutgoingRequest, answer: ServerResponse) -> None:
        self._leases.on_answer(name, answer)
        path = request.target.partition("?")[0]
        if path.endswith("/binding") and answer.status == 201 and _is_readable(answer):
            pod = path.split("/")[-2]
            record = self._store().find("pods", f"default/{pod}")
            if record is not None and record["spec"].get("nodeName"):
                self._confirmed_bindings.setdefault(name, {})[record["metadata"]["uid"]] = pod

    def _check_binding(self, name: str, pod: str) -> None:
        record = self._store().find("pods", f"default/{pod}")
        if record is None:
            self._report(f"{name} bound {pod}, which does not exist")
            return
        uid, node = record["metadata"]["uid"], record["spec"].get("nodeName", "")
        self.bound[uid] += 1
        self.bound_by[name] += 1
        self._log(f"{name} bound {pod} to {node}")
        if self.is_quiet:
            self.bound_in_quiet_phase.add(uid)
        if self._decisions.get((name, uid)) != node:
            self._report(f"pod {pod} was bound to {node} by {name}, which did not choose that node")
        if self.bound[uid] > 1:
            self._report(f"pod {pod} was bound {self.bound[uid]} times")
        if record["metadata"].get("deletionTimestamp"):
            self._report(f"pod {pod} was bound while it was being deleted")
        if record["spec"].get("schedulingGates"):
            self._report(f"pod {pod} was bound although it is gated")
        if record["spec"]["schedulerName"] == "nobody":
            self._report(f"pod {pod} was bound by {name}, and has no scheduler")
        process = self._process_of(name)
        known = [] if process is None else self.known_state(process)[1]
        for text in (
            *volume_violations(self._store(), record, known),
            *device_violations(self._store(), record),
            *self._gang_violations(name, record),
        ):
            self._report(f"pod {pod} was bound to {node}: {text}")

    def _check_status_patch(self, name: str, pod: str, status: Json) -> None:
        """Check that the status of an attempt is written to the tried pod."""
        types = {each.get("type") for each in status.get("conditions", ())}
        if "PodScheduled" not in types and not status.get("nominatedNodeName"):
            return  # such as the condition of a victim
        record = self._store().find("pods", f"default/{pod}")
        if record is None:
            return
        uid, process = record["metadata"]["uid"], self._process_of(name)
        if (name, uid) not in self._tried:
            self._report(f"{name} writes the outcome of an attempt to {pod}, and has not tried it")
        node = status.get("nominatedNodeName")
        if node and process is not None and (uid, node) not in process.nominations:
            self._report(f"{name} nominates {pod} to {node}, and did not choose that node")

    # Decisions

    def on_group_attempt(self, process: ReplicaProcess, pod: Pod) -> None:
        """Record that a process tries a pod together with others of its group."""
        process.attempted_pods.pop(pod.metadata.name, None)
        process.attempted_pods[pod.metadata.name] = pod
        self._tried.add((process.identity, pod.metadata.uid))

    def is_member(self, name: str) -> bool:
        """Whether a pod belongs to a group."""
        record = self._store().find("pods", f"default/{name}")
        return record is not None and "schedulingGroup" in record["spec"]

    def _gang_violations(self, name: str, pod: Json) -> Iterator[str]:
        """Report a gang of which too few pods have a node."""
        group_name = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        group = self._store().find("podgroups.scheduling.k8s.io", f"default/{group_name}")
        gang = {} if group is None else group["spec"]["schedulingPolicy"].get("gang") or {}
        placed = sum(
            (name, uid) in self._decisions or uid in self.node_of
            for uid, other in self._groups.items()
            if other == group_name
        )
        if placed < gang.get("minCount", 0):
            yield f"{placed} pods of its gang had a node, and {gang['minCount']} are required"

    def on_attempt(self, process: ReplicaProcess, pod: Pod) -> None:
        """Check an attempt: it is no retry without a reason, and no more important pod is ready."""
        self._tried.add((process.identity, pod.metadata.uid))
        process.attempted_pods.pop(pod.metadata.name, None)
        process.attempted_pods[pod.metadata.name] = pod
        second = process.machine.clock.monotonic_ns() // SECOND
        self._attempts[process.identity, pod.metadata.uid, second] += 1
        if self._attempts[process.identity, pod.metadata.uid, second] == _MOST_ATTEMPTS:
            self._report(f"{pod.metadata.name} is tried {_MOST_ATTEMPTS} times in a second")
        if process.scheduler._extender_tasks is not None:
            return  # the queue passes over pods that need a busy extender
        for other in process.scheduler.queue.active_pods:
            if pod_priority(other) > pod_priority(pod):
                names = f"{pod.metadata.name} is tried before {other.metadata.name}"
                self._report(f"{names}, which is more important")

    def on_decision(self, process: ReplicaProcess, pod: Pod) -> None:
        """Check a decision against the objects that the process has at this moment."""
        name, node = pod.metadata.name, pod.spec.node_name
        # Nothing is awaited between the pop of the pod and this call, also with extenders.
        # Therefore the pod must be the current one of the process's informer, and must not be
        # terminating.
        current = process.scheduler.informers.lister(Pod).get(name, "default")
        if current is None or current.metadata.uid != pod.metadata.uid or is_terminating(current):
            self._report(
                f"{process.identity} gives {name} a node, and its informer shows it deleted"
            )
        elif not current.spec.node_name:
            pod = _on(current, node)
        self._decisions[process.identity, pod.metadata.uid] = node
        process.nominations.add((pod.metadata.uid, node))
        if pod.spec.scheduling_group is not None and _has_faulty_plugin(process):
            return  # its node was found together with another member, which Reserve may reject
        nodes, placed = self.known_state(process)
        found = [*placement_violations(pod, node, nodes, placed)]
        if process.scheduler._extender_tasks is None:
            # The state cannot have changed since the filters were called.
            nominated = self._nominated(process, pod, node)
            found += [
                f"{text}, with the pods that are nominated there"
                for text in placement_violations(pod, node, nodes, [*placed, *nominated])
            ]
        elif _asks_extender(pod) and not is_accepted(name, node):
            found.append("the extender rejects it")
        for text in found:
            self._report(f"{process.identity} gives {name} node {node}: {text}")

    def on_no_fit(self, process: ReplicaProcess, pod: Pod) -> None:
        """Check a failed attempt: the oracle must not accept a node either."""
        if process.scheduler._extender_tasks is not None or _has_faulty_plugin(process):
            return
        if node := self.find_fitting_node(process, pod):
            self._report(f"{process.identity} finds no node for {pod.metadata.name}, and {node} is")

    def known_state(self, process: ReplicaProcess) -> tuple[dict[str, Node], list[Pod]]:
        """Return the nodes and the pods on nodes that a process has: watched, assumed, or bound."""
        listers = process.scheduler.informers
        nodes = {node.metadata.name: node for node in listers.lister(Node).list()}
        watched = {pod.metadata.uid: pod for pod in listers.lister(Pod).list()}
        placed = {uid: pod for uid, pod in watched.items() if pod.spec.node_name}
        cache = process.scheduler.cache
        for info in [each for node in cache.nodes.values() for each in node.pods]:
            if cache.is_assumed(info.pod):
                placed.setdefault(info.uid, info.pod)
        confirmed = self._confirmed_bindings.get(process.identity, {})
        for uid, name in list(confirmed.items()):
            if uid in placed:
                del confirmed[uid]
                continue
            record = self._store().find("pods", f"default/{name}")
            if record is None or record["metadata"]["uid"] != uid:
                del confirmed[uid]
            elif uid in watched:
                placed[uid] = convert(record, Pod)
        return nodes, list(placed.values())

    # Evictions

    def on_eviction(self, process: ReplicaProcess, name: str, uid: str) -> None:
        """Check an eviction: a preemptor must need the victim's room at this moment."""
        if not uid:
            self._report(f"{process.identity} deletes {name} without a uid")
        pods = process.scheduler.informers.lister(Pod)
        victim, task = pods.get(name, "default"), asyncio.current_task()
        assert task is not None
        found = re.match("preemption for default/([^:]+)", task.get_name())
        preemptor = None if found is None else pods.get(found[1], "default")
        if victim is None or victim.metadata.uid != uid:
            self._report(f"{process.identity} deletes {name}, which its informer shows deleted")
            return
        with contextlib.suppress(CacheError):  # it may be assumed and not bound yet
            victim = process.scheduler.cache.get_pod(victim)
        node = victim.spec.node_name
        who = "no preemptor" if preemptor is None else preemptor.metadata.name
        self._log(f"{process.identity} evicts {name} from {node} for {who}")
        self.evictions_by[process.identity] += 1
        if uid not in self._disruption_marked and self._exists(name, uid):
            self._report(f"pod {name} is evicted and has no DisruptionTarget condition")
        if preemptor is None:
            self._report(f"pod {name} on {node} is evicted without a preemptor")
            return
        self._evicted.setdefault((process.identity, preemptor.metadata.uid), set()).add(uid)
        for text in self._reasons_against_eviction(process, victim, preemptor):
            self._report(f"pod {name} on {node} is evicted, and {who} {text}")

    def on_eviction_failed(self, process: ReplicaProcess, uid: str) -> None:
        """Record a failed eviction: its preemptor must not count on the room."""
        for (identity, _), victims in self._evicted.items():
            if identity == process.identity:
                victims.discard(uid)

    def _exists(self, name: str, uid: str) -> bool:
        record = self._store().find("pods", f"default/{name}")
        return record is not None and record["metadata"]["uid"] == uid

    def _reasons_against_eviction(
        self, process: ReplicaProcess, victim: Pod, preemptor: Pod
    ) -> Iterator[str]:
        """Reasons why a preemptor does not need a victim's room."""
        if preemptor.spec.node_name or is_terminating(preemptor):
            yield "is assigned or terminating"
        if process.scheduler.cache.is_assumed(preemptor):
            yield "has a node"
        if pod_priority(preemptor) <= pod_priority(victim):
            yield "is not more important"
        if preemptor.spec.preemption_policy == "Never":
            yield "has the preemption policy Never"
        if preemptor.spec.scheduling_gates:
            yield "is gated"
        node = victim.spec.node_name
        if (
            nominated_node := process.scheduler.queue.nominator.node_of(preemptor.metadata.uid)
        ) != node:
            yield f"is nominated to {nominated_node or 'no node'}"
        if _asks_extender(preemptor) and not is_accepted(preemptor.metadata.name, node):
            yield "is rejected there by the extender"
        if not self._is_covered_by_oracle(preemptor) or _has_faulty_plugin(process):
            return
        if fits := self.find_fitting_node(process, preemptor):
            yield f"fits {fits}"
        nodes, placed = self.known_state(process)
        nominated = self._nominated(process, preemptor, node)
        gone = self._evicted[process.identity, preemptor.metadata.uid] - {victim.metadata.uid}
        left = [each for each in placed if each.metadata.uid not in gone]
        if not any(placement_violations(preemptor, node, nodes, [*left, *nominated])):
            yield "would fit without this eviction"
        kept = [
            each
            for each in placed
            if each.spec.node_name != node or pod_priority(each) >= pod_priority(preemptor)
        ]
        # Pods that its affinity requires may be less important, and are not evicted.
        near = [each for each in placed if each not in kept and has_affinity_to(preemptor, each)]
        if any(each for each in placed if each not in kept and is_terminating(each)):
            # As in the reference, the end of a terminating pod lowers a count that it was never
            # part of.
            spec = replace(preemptor.spec, topology_spread_constraints=())
            preemptor = replace(preemptor, spec=spec)
        if any(placement_violations(preemptor, node, nodes, [*kept, *near, *nominated])):
            for text in placement_violations(preemptor, node, nodes, [*kept, *nominated]):
                yield f"would not fit then: {text}"

    def _is_covered_by_oracle(self, pod: Pod) -> bool:
        """Whether the placement oracle checks every requirement of a pod."""
        spec = pod.spec
        is_alone = spec.scheduling_group is None
        has_devices = spec.resource_claims or _asks_for(pod, SERVED)
        return is_alone and not (spec.volumes or has_devices or _asks_extender(pod))

    def _nominated(self, process: ReplicaProcess, pod: Pod, node_name: str) -> list[Pod]:
        """Return the pods nominated to a node that are at least as important as the pod."""
        queue = process.scheduler.queue
        uids = {uid for uid, node in queue.nominator._node_of.items() if node == node_name}
        uids.discard(pod.metadata.uid)
        if not uids:
            return []
        return [
            _on(each, node_name)
            for each in queue.pending_pods()[0]
            if each.metadata.uid in uids and pod_priority(each) >= pod_priority(pod)
        ]

    def find_fitting_node(self, process: ReplicaProcess, pod: Pod) -> str:
        """Return a node that the oracle accepts for a pod; empty if there is none.

        Pods with requirements that the oracle does not check have none.
        """
        if not self._is_covered_by_oracle(pod):
            return ""
        nodes, placed = self.known_state(process)
        for node_name in nodes:
            # With the nominated pods, and without them, because they may never be bound.
            nominated = self._nominated(process, pod, node_name)
            if not any(placement_violations(pod, node_name, nodes, [*placed, *nominated])) and (
                not nominated or not any(placement_violations(pod, node_name, nodes, placed))
            ):
                return node_name
        return ""

    def false_statements(self, process: ReplicaProcess, pod: Pod, message: str) -> Iterator[str]:
        """Return the false parts of a pod's message, according to the oracle."""
        nodes, placed = self.known_state(process)
        nominated = {name: self._nominated(process, pod, name) for name in nodes}
        return false_statements(message, pod, nodes, placed, nominated)

    # Changes

    def on_change(self, change: StoredChange) -> None:
        """Check a change of the store by any client."""
        self._server_invariants.on_change(change)
        record = change.record
        old = None if change.previous is None else change.previous.data
        match record.resource.group_resource:
            case "pods":
                self._pod_changed(change, old, record.data)
            case "persistentvolumes":
                self._volume_changed(change, old, record.data)
            case "persistentvolumeclaims":
                self._volume_claim_changed(change, record.data)
            case "leases.coordination.k8s.io" if record.key == LEASE:
                self._leases.on_change(change.type, record.data["spec"], self._acting())
            case "resourceclaims.resource.k8s.io":
                self._claim_changed(change, old, record.key, record.data)

    def _pod_changed(self, change: StoredChange, old: Json | None, new: Json) -> None:
        uid, name = new["metadata"]["uid"], new["metadata"]["name"]
        self.uids[uid], self.schedulers[uid] = name, new["spec"]["schedulerName"]
        if group := new["spec"].get("schedulingGroup"):
            self._groups[uid] = group.get("podGroupName", "")
        if change.type == "DELETED":
            self._log(f"pod {name} is deleted")
            self.deleted += 1
            return
        node = new["spec"].get("nodeName", "")
        before = "" if old is None else old["spec"].get("nodeName", "")
        if before and node != before:
            self._report(f"pod {name} went from {before} to {node or 'nowhere'}")
        if node:
            self.node_of[uid] = node
        for condition in new.get("status", {}).get("conditions", ()):
            if condition["type"] == "DisruptionTarget":
                self._disruption_marked.add(uid)
        if old is not None and self._process_of(self._acting()) is not None:
            before, now = _status_by_others(old), _status_by_others(new)
            if before != now:
                self._report(f"{self._acting()} made {now} of {before} in {name}")

    def _volume_changed(self, change: StoredChange, old: Json | None, new: Json) -> None:
        if old is None or change.type == "DELETED":
            return
        before, now = old["spec"].get("claimRef"), new["spec"].get("claimRef")
        if before and now and before.get("uid") and before["uid"] != now.get("uid"):
            name = new["metadata"]["name"]
            self._report(f"volume {name} went from {before['name']} to {now['name']}")

    def _volume_claim_changed(self, change: StoredChange, new: Json) -> None:
        volume = new["spec"].get("volumeName")
        if not volume or change.type == "DELETED":
            return
        for other in self._store().all("persistentvolumeclaims"):
            if (
                other["spec"].get("volumeName") == volume
                and other["metadata"]["uid"] != new["metadata"]["uid"]
            ):
                names = f"{new['metadata']['name']} and {other['metadata']['name']}"
                self._report(f"volume {volume} was given to {names}")

    def _claim_changed(self, change: StoredChange, old: Json | None, key: str, new: Json) -> None:
        held = [device for device, holder in self._devices.items() if holder == key]
        for device in held:
            del self._devices[device]
        if change.type == "DELETED":
            return
        allocation = new.get("status", {}).get("allocation") or {}
        before = {} if old is None else old.get("status", {}).get("allocation") or {}
        # A change of the reservation gives no device, also if a race gave it to another claim.
        had = set(allocated_devices(before))
        for device in sorted({*allocated_devices(allocation)} - had):
            other = self._devices.get(device)
            is_own = other is not None and self._allocated_by.get(device) == self._acting()
            if other is not None and (is_own or self._has_seen_claim(other)):
                self._report(f"device {'/'.join(device)} was given to {other} and {key}")
            self._devices[device] = key
            # The same without a response: a process must assume that its write took effect.
            self._allocated_by[device] = self._acting()
        for device in had.intersection(held):
            self._devices.setdefault(device, key)

    def _has_seen_claim(self, claim: str) -> bool:
        """Whether the informer of the writing process had this version of the claim."""
        process = self._process_of(self._acting())
        if process is None:
            return True
        namespace, _, name = claim.partition("/")
        known = process.scheduler.informers.lister(ResourceClaim).get(name, namespace)
        return known is not None and known.status.allocation is not None


def _status_by_others(pod: Json) -> Json:
    """Return the part of a pod's status that other clients than schedulers write."""
    status = {**pod.get("status", {})}
    for key in _OF_SCHEDULERS:
        status.pop(key, None)
    conditions = [
        each
        for each in status.pop("conditions", ())
        if each["type"] not in ("PodScheduled", "DisruptionTarget")
    ]
    return {**status, "conditions": conditions}


def _is_readable(answer: ServerResponse) -> bool:
    """Whether a response is a JSON object. A page of a proxy counts as no response."""
    with contextlib.suppress(ValueError):
        return isinstance(json.loads(answer.body), dict)
    return False


def _has_faulty_plugin(process: ReplicaProcess) -> bool:
    return "Faulty" in next(iter(process.scheduler.profiles.values())).plugins.by_name


def _asks_extender(pod: Pod) -> bool:
    return _asks_for(pod, FOO)


def _asks_for(pod: Pod, prefix: str) -> bool:
    """Whether a pod requests a resource whose name begins with a prefix."""
    return any(
        name.startswith(prefix) for each in pod.spec.containers for name in each.resources.requests
    )


def _on(pod: Pod, node_name: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node_name))
