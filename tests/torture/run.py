"""One run: the plan's cluster, its storm, the calm after it, and what must hold.

Everything is real but sockets and time: schedulers, elections, HTTP clients, server and store. What
must hold is checked from outside, on the store's own history, and at the end by a recount of the
schedulers' state.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import random
from collections import Counter
from typing import Any

from msgspec import convert
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.api.access import ApiError
from kubesched.api.pod_requests import pod_requested
from kubesched.api.resource_amounts import Resources
from kubesched.apiserver import LocalApi
from kubesched.client.transport import Answer, Request, TransportError
from kubesched.cluster.controllers import Controllers
from kubesched.framework import CycleState, PodInfo
from kubesched.util import virtual_loop
from kubesched.util.clock import MILLISECOND, SECOND
from kubesched.util.components import running
from tests.client.wire_network import Network, Trouble
from tests.torture.cluster_plan import Plan, Step, make_cluster_node, make_cluster_pod
from tests.torture.odd_plugin import odd_plugin
from tests.torture.replica import Replica

__all__ = ["Outcome", "run_plan"]

CALM_S = 900  # watches that stall are noticed within ten minutes
LEASE = "kube-system/kube-scheduler"


class Outcome:
    """What came of a run: violations (none if all held), and a digest of where pods went."""

    def __init__(self, plan: Plan, violations: list[str], digest: str, story: list[str]) -> None:
        self.plan = plan
        self.violations = violations
        self.digest = digest
        self.story = story


def run_plan(plan: Plan) -> Outcome:
    logging.disable(logging.CRITICAL)
    try:
        return virtual_loop.run(lambda: Run(plan).main(), seed=plan.seed)
    finally:
        logging.disable(logging.NOTSET)


class Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.network = Network()
        self.calm = LocalApi(self.network.store, self.network.clock)
        self.is_storming = True
        options: dict[str, Any] = {}
        if plan.plugin:
            odd = odd_plugin(plan.plugin, plan.seed, lambda: self.is_storming)
            options = {
                "out_of_tree_registry": {"Odd": odd},
                "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Odd"}]}}}],
            }
        self.replicas = [Replica(self.network, number, options) for number in range(plan.replicas)]
        self.violations: list[str] = []
        self.story: list[str] = []
        self.bound: Counter[str] = Counter()
        self.nodes = 0
        self._most: dict[str, tuple[int, int]] = {}  # node -> most cpu and pods it ever allowed
        self.network.on_applied = self._saw

    async def main(self) -> Outcome:
        for number in range(self.plan.nodes):
            await self._create(make_cluster_node(self.plan, number))
        self.nodes = self.plan.nodes
        tasks = [asyncio.create_task(replica.run()) for replica in self.replicas]
        try:
            async with running(Controllers(self.calm, self.network.clock)):
                for step in self.plan.steps:
                    self._note_rooms()
                    await self._step(step)
                    self._note_rooms()
                    self._check_nodes()
                self._calm_down()
                await asyncio.sleep(CALM_S)
                await self._check_the_end()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for replica in self.replicas:
            self.violations += [f"a scheduler died: {death!r}" for death in replica.deaths]
        return Outcome(self.plan, self.violations, await self._digest(), self.story)

    # What users do

    async def _step(self, step: Step) -> None:
        self._tell(f"{step.what} {step.name}")
        with contextlib.suppress(ApiError):
            match step.what:
                case "create pod":
                    await self._create(make_cluster_pod(step.name, step.number))
                case "delete pod":
                    await self.calm.delete(Pod, step.name, "default", grace_period_seconds=0)
                case "remake pod":
                    await self._remake(step)
                case "relabel pod":
                    change = {"metadata": {"labels": {"app": "other"}}}
                    await self.calm.patch(Pod, step.name, "default", change, patch_type="merge")
                case "change node":
                    await self._change_node(step.number)
                case "replace node":
                    await self._replace_node(step.number)
                case _:
                    await self._storm(step)
        await asyncio.sleep(step.pause_s)

    async def _create(self, new: Node | Pod) -> None:
        await self.calm.create(
            replace(new, metadata=replace(new.metadata, resource_version="", uid=""))
        )

    async def _remake(self, step: Step) -> None:
        """A pod of the same name at once, perhaps on the same node: nobody may mix them up."""
        old = await self.calm.get(Pod, step.name, "default")
        await self.calm.delete(Pod, step.name, "default", grace_period_seconds=0)
        new = make_cluster_pod(step.name, step.number)
        if old.spec.node_name and step.number % 2:
            new = replace(new, spec=replace(new.spec, node_name=old.spec.node_name))
        await self._create(new)

    async def _change_node(self, number: int) -> None:
        dice = random.Random(number)
        node = await self.calm.get(Node, f"n{dice.randrange(self.nodes)}")
        match dice.randrange(4):
            case 0:
                spec = replace(node.spec, unschedulable=not node.spec.unschedulable)
                await self.calm.update(replace(node, spec=spec))
            case 1:
                labels = {**node.metadata.labels, "disk": dice.choice(["ssd", "hdd"])}
                await self.calm.update(
                    replace(node, metadata=replace(node.metadata, labels=labels))
                )
            case 2:
                amounts = {**node.status.allocatable, "cpu": dice.choice(["4", "8", "16"])}
                status = replace(node.status, allocatable=amounts)
                await self.calm.update(replace(node, status=status), subresource="status")
            case _:
                spec = replace(node.spec, taints=())
                await self.calm.update(replace(node, spec=spec))

    async def _replace_node(self, number: int) -> None:
        await self._create(make_cluster_node(self.plan, self.nodes))
        self.nodes += 1
        dice = random.Random(number)
        if dice.random() < 0.5:
            name = f"n{dice.randrange(self.nodes)}"
            await self.calm.delete(Node, name)
            for pod in (await self.calm.list(Pod)).items:
                if pod.spec.node_name == name:
                    await self.calm.delete(
                        Pod, pod.metadata.name, "default", grace_period_seconds=0
                    )

    # The weather

    async def _storm(self, step: Step) -> None:
        dice, network = random.Random(step.number), self.network
        network.trouble = lambda _: None
        network.mangle = lambda _, lines: lines
        match step.what:
            case "server down":
                network.go_down()
                await asyncio.sleep(step.pause_s)
                network.come_up(forgetful=dice.random() < 0.3)
            case "history gone":
                network.compact()
                network.break_streams()
            case "watches break":
                network.break_streams()
            case "watches end":
                network.end_streams()
            case "watches stall":
                network.stall_streams()
            case "requests lost":
                share = dice.choice([0.1, 0.5])
                network.trouble = lambda _: (
                    Trouble(lost=dice.random() < 0.5, answer_lost=True)
                    if dice.random() < share
                    else None
                )
            case "requests slow":
                longest = dice.randint(1, 20)
                network.trouble = lambda _: Trouble(
                    travel_ns=dice.randint(1, 500) * MILLISECOND,
                    server_ns=dice.randint(0, longest) * SECOND,
                    answer_ns=dice.randint(0, longest) * SECOND,
                )
            case "server errors" | "too many requests" | "conflicts":
                network.trouble = lambda request: _refusal(dice, step.what, request)
            case "truncated watches":
                network.mangle = lambda _, lines: (
                    TransportError("connection lost", "reset") if dice.random() < 0.3 else lines
                )
            case "replica crashes":
                dice.choice(self.replicas).crash()
            case "replica pauses":
                machine = dice.choice(self.replicas).machine
                machine.awake.clear()
                await asyncio.sleep(dice.choice([2, 12, 40, 180]))
                machine.awake.set()
            case "duplicates":
                network.trouble = lambda _: Trouble(answer_lost=dice.random() < 0.3)

    def _calm_down(self) -> None:
        self.is_storming = False
        self.network.trouble = lambda _: None
        self.network.mangle = lambda _, lines: lines
        if not self.network.is_up:
            self.network.come_up()
        for replica in self.replicas:
            replica.machine.awake.set()
        self._tell("the storm is over")

    # What must hold

    def _saw(self, name: str, request: Request, answer: Answer) -> None:
        """A request took effect: looked at from the server's side."""
        if name.startswith("lease ") or request.method == "GET":
            return
        lease = self.network.store.find("leases.coordination.k8s.io", LEASE)
        holder = None if lease is None else lease["spec"].get("holderIdentity")
        if answer.status < 300 and holder != name:
            self._violated(f"{request.method} {request.target} by {name}, lease held by {holder}")
        path = request.target.partition("?")[0]
        if path.endswith("/binding") and answer.status == 201:
            pod = path.split("/")[-2]
            record = self.network.store.find("pods", f"default/{pod}")
            uid = "" if record is None else record["metadata"]["uid"]
            self.bound[uid] += 1
            node = "" if record is None else record["spec"].get("nodeName")
            self._tell(f"{name} bound {pod} to {node}")
            self._note_rooms()
            self._check_room(node)
            if self.bound[uid] > 1:
                self._violated(f"pod {pod} was bound {self.bound[uid]} times")

    def _check_nodes(self) -> None:
        """No node holds more than it can by pods that a scheduler bound, and no port twice.

        A node whose allocatable shrank, or that a user put pods on, may hold more.
        """
        store = self.network.store
        ports: Counter[tuple[str, int]] = Counter()
        for document in store.all("pods"):
            if document["metadata"]["uid"] not in self.bound:
                continue
            for container in document["spec"]["containers"]:
                for port in container.get("ports", ()):
                    if port.get("hostPort"):
                        ports[document["spec"].get("nodeName", ""), port["hostPort"]] += 1
        for (node, port), count in ports.items():
            if count > 1 and not self._has_foreign_pods(node):
                self._violated(f"host port {port} on {node} was given {count} times")

    def _has_foreign_pods(self, node: str) -> bool:
        return any(
            document["spec"].get("nodeName") == node
            and document["metadata"]["uid"] not in self.bound
            for document in self.network.store.all("pods")
        )

    async def _check_the_end(self) -> None:
        pods = list((await self.calm.list(Pod)).items)
        leaders = [replica for replica in self.replicas if replica.is_leading]
        if len(leaders) != 1:
            self._violated(f"{len(leaders)} replicas lead after the storm")
            return
        scheduler = leaders[0].scheduler
        assert scheduler is not None
        for pod in pods:
            if not pod.spec.node_name:
                self._check_waiting(pod, scheduler)
        self._check_state(pods, scheduler)

    def _check_room(self, node_name: str) -> None:
        """Pods that schedulers bound to a node never ask for more than it ever had.

        What a node has may shrink while a decision is on its way, and users may put pods on a
        node themselves: neither is counted against the scheduler.
        """
        most = self._most.get(node_name)
        if most is None:
            return
        cpu = count = 0
        for document in self.network.store.all("pods"):
            if (
                document["spec"].get("nodeName") == node_name
                and document["metadata"]["uid"] in self.bound
            ):
                count += 1
                cpu += pod_requested(convert(document, Pod)).milli_cpu
        if cpu > most[0] or count > most[1]:
            self._violated(f"{node_name} holds {cpu}m cpu, {count} pods; it never had over {most}")

    def _note_rooms(self) -> None:
        for document in self.network.store.all("nodes"):
            node = convert(document, Node)
            amounts = node.status.allocatable
            cpu = Resources.from_resource_list(amounts).milli_cpu
            before = self._most.get(node.metadata.name, (0, 0))
            room = (max(cpu, before[0]), max(Resources.allowed_pods(amounts), before[1]))
            self._most[node.metadata.name] = room

    def _check_waiting(self, pod: Pod, scheduler: Any) -> None:
        """A pod that waits is known to the queue, and says truthfully why it waits."""
        name = pod.metadata.name
        place = scheduler.queue.describe(f"default/{name}", self.network.clock.now_ns())
        if place is None:
            self._violated(f"pod {name} waits and no queue knows it")
            return
        scheduler.cache.update_snapshot()
        if pod.spec.scheduling_gates:
            return
        framework = scheduler.profiles["default-scheduler"]
        fits = fitting_node(scheduler, framework, pod)
        if fits:
            self._violated(f"pod {name} fits {fits} and waits ({place.place})")
        condition = [each for each in pod.status.conditions if each.type == "PodScheduled"]
        if not condition or condition[0].status != "False" or not condition[0].message:
            self._violated(f"pod {name} waits and does not say why")

    def _check_state(self, pods: list[Pod], scheduler: Any) -> None:
        """The scheduler's own picture equals a recount of what the server has."""
        try:
            scheduler.cache.check_invariants()
            scheduler.queue.check_invariants()
        except Exception as error:
            self._violated(f"invariants: {error}")
        placed = {pod.metadata.uid: pod.spec.node_name for pod in pods if pod.spec.node_name}
        cached = {
            info.uid: name for name, node in scheduler.cache.nodes.items() for info in node.pods
        }
        if placed != cached:
            self._violated(f"the cache has {cached} where the server has {placed}")
        known = {name for name, node in scheduler.cache.nodes.items() if node.node is not None}
        served = {document["metadata"]["name"] for document in self.network.store.all("nodes")}
        if known != served:
            self._violated(f"the cache has nodes {sorted(known)}, the server {sorted(served)}")
        if scheduler.cache.assumed_count:
            self._violated(f"{scheduler.cache.assumed_count} pods are still assumed")
        table = scheduler.cache.update_snapshot().table
        for name, node in scheduler.cache.nodes.items():
            row = table.row_of.get(name)
            if node.node is None:
                continue
            if row is None:
                self._violated(f"node {name} has no row")
            elif int(table.pod_count[row]) != len(node.pods):
                self._violated(f"row of {name} counts {int(table.pod_count[row])} pods")

    def _violated(self, text: str) -> None:
        self._tell(f"VIOLATION: {text}")
        self.violations.append(text)

    def _tell(self, text: str) -> None:
        seconds = self.network.clock.monotonic_ns() / SECOND
        self.story.append(f"{seconds:9.3f} s  {text}")

    async def _digest(self) -> str:
        pods = sorted(
            (pod.metadata.name, pod.spec.node_name) for pod in (await self.calm.list(Pod)).items
        )
        text = json.dumps([pods, sorted(self.violations)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def fitting_node(scheduler: Any, framework: Any, pod: Pod) -> str:
    """A node that the pod fits right now, nominations counted; empty if there is none."""
    state, info = CycleState(), PodInfo(pod)
    outcome = framework.run_pre_filter(state, info)
    if not outcome.status.is_success:
        return ""
    for node in scheduler.cache.snapshot.nodes:
        if outcome.only_nodes is not None and node.name not in outcome.only_nodes:
            continue
        if framework.dry_run.fits_on(state, info, node):
            return str(node.name)
    return ""


def _refusal(dice: random.Random, what: str, request: Request) -> Trouble | None:
    if dice.random() < 0.6:
        return None
    code, reason, headers = 500, "InternalError", {}
    if what == "too many requests":
        code, reason, headers = 429, "TooManyRequests", {"Retry-After": "1"}
    elif what == "conflicts":
        if request.method in ("GET", "POST"):
            return None
        code, reason = 409, "Conflict"
    elif dice.random() < 0.3:
        code, reason = 503, "ServiceUnavailable"
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    text = json.dumps({**body, "reason": reason, "message": "stormy"}).encode()
    return Trouble(answer=Answer(code, text, headers))
