"""An oracle for preemption, from docs/reference/06 §3.3 to §3.8.

It works node by node and pod by pod, with lists and dictionaries, and shares only the filters of
the profile with the plugin. Property tests compare the plugin with it.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from kubesched.api import Pod, PodDisruptionBudget
from kubesched.api.labels import Selector
from kubesched.api.time import parse_time
from kubesched.errors import PluginError, SelectorError
from kubesched.framework import Code, CycleState, Diagnosis, NodeInfo, PodInfo, Status
from kubesched.scheduler.runtime.framework import Framework


class Victims(NamedTuple):
    pods: list[PodInfo]
    violations: int


class Answer(NamedTuple):
    node: str | None  # None: the nomination is unchanged
    victims: list[str]
    message: str


def priority(pod: Pod) -> int:
    return 0 if pod.spec.priority is None else pod.spec.priority


class Procedure:
    def __init__(
        self,
        framework: Framework,
        state: CycleState,
        preemptor: PodInfo,
        budgets: list[PodDisruptionBudget],
        percentage: int,
        absolute: int,
        now_ns: int,
        rng: random.Random,
    ) -> None:
        self.framework = framework
        self.state = state
        self.preemptor = preemptor
        self.budgets = budgets
        self.percentage = percentage
        self.absolute = absolute
        self.now_ns = now_ns
        self.rng = rng

    def run(self, diagnosis: Diagnosis, nodes: list[NodeInfo]) -> Answer:
        """Preempt; `nodes` are all nodes of the snapshot, in its order."""
        pod = self.preemptor.pod
        statuses = diagnosis.node_statuses()
        told = {n.name: statuses.get(n.name, diagnosis.absent_nodes_status) for n in nodes}
        if pod.spec.preemption_policy == "Never":
            return Answer(None, [], "not eligible due to preemptionPolicy=Never.")
        if self.has_terminating_victim(told, nodes):
            message = "not eligible due to a terminating pod on the nominated node."
            return Answer(None, [], message)
        potential = [n for n in nodes if told[n.name].code is Code.UNSCHEDULABLE]
        found, reasons, errors = self.dry_run(potential)
        if not found:
            if errors:
                distinct = list(dict.fromkeys(errors))
                text = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
                return Answer(None, [], text)
            return Answer("", [], self.no_candidates(reasons, len(nodes)))
        best = self.choose(found)
        return Answer(best, sorted(v.pod.metadata.name for v in found[best].pods), "")

    def has_terminating_victim(self, told: dict[str, Status], nodes: list[NodeInfo]) -> bool:
        pod = self.preemptor.pod
        name = pod.status.nominated_node_name
        if not name:
            return False
        status = told.get(name)
        if status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return False
        (node,) = [n for n in nodes if n.name == name]
        for other in node.pods:
            if priority(other.pod) >= priority(pod):
                continue
            if other.pod.metadata.deletion_timestamp is None:
                continue
            for condition in other.pod.status.conditions:
                if condition.type == "DisruptionTarget":
                    if condition.status == "True" and condition.reason == "PreemptionByScheduler":
                        return True
                    break
        return False

    # docs/reference/06 §3.5

    def dry_run(self, nodes: list[NodeInfo]) -> tuple[dict[str, Victims], list[str], list[str]]:
        count = len(nodes)
        wanted = count * self.percentage // 100
        wanted = max(wanted, self.absolute)
        wanted = min(wanted, count)
        offset = self.rng.randrange(count) if count else 0
        harmless: dict[str, Victims] = {}
        violating: dict[str, Victims] = {}
        reasons: list[str] = []
        errors: list[str] = []
        for i in range(count):
            node = nodes[(offset + i) % count]
            answer = self.select_victims(node)
            if isinstance(answer, Victims):
                place = violating if answer.violations else harmless
                if len(place) < wanted:
                    place[node.name] = answer
                if harmless and len(harmless) + len(violating) >= wanted:
                    break
                continue
            if answer.code is Code.ERROR:
                errors.append(answer.message)
            reasons += answer.all_reasons
        return {**harmless, **violating}, reasons, errors

    def no_candidates(self, reasons: list[str], count: int) -> str:
        counted: dict[str, int] = {}
        for reason in reasons:
            counted[reason] = counted.get(reason, 0) + 1
        silent = count - self.told_nodes
        if silent:
            counted["Preemption is not helpful for scheduling"] = silent
        parts = sorted(f"{number} {reason}" for reason, number in counted.items())
        return f"0/{count} nodes are available: {', '.join(parts)}."

    told_nodes = 0

    # docs/reference/06 §3.6

    def select_victims(self, original: NodeInfo) -> Victims | Status:
        self.told_nodes += 1
        node, state, preemptor = original.clone(), self.state.clone(), self.preemptor
        potential = [p for p in node.pods if priority(p.pod) < priority(preemptor.pod)]
        if not potential:
            return Status.unresolvable("No preemption victims found for incoming pod")
        framework = self.framework

        def remove(pod_info: PodInfo) -> None:
            node.remove_pod(pod_info.uid)
            framework.dry_run.remove_pod(state, preemptor.pod, pod_info, node)

        def fits() -> bool:
            try:
                return framework.dry_run.filter_node(state, preemptor, node).is_success
            except PluginError:
                return False

        try:
            for pod_info in potential:
                remove(pod_info)
            status = framework.dry_run.filter_node(state, preemptor, node)
            if not status.is_success:
                return status
            potential = self.sort(potential)
            violating, others = self.split(potential)
            victims = []
            violations = 0
            for pod_info in [*violating, *others]:
                node.add_pod(pod_info)
                framework.dry_run.add_pod(state, preemptor.pod, pod_info, node)
                if not fits():
                    remove(pod_info)
                    victims.append(pod_info)
                    if any(pod_info is each for each in violating):
                        violations += 1
        except PluginError as exc:
            return Status.failure(exc)
        if not victims:
            return Status.failure(f'expected at least one victim pod on node "{node.name}"')
        return Victims(self.sort(victims), violations)

    def start(self, pod: Pod) -> int:
        return self.now_ns if pod.status.start_time is None else parse_time(pod.status.start_time)

    def sort(self, pods: list[PodInfo]) -> list[PodInfo]:
        return sorted(pods, key=lambda each: (-priority(each.pod), self.start(each.pod)))

    def split(self, pods: list[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        left = [budget.status.disruptions_allowed for budget in self.budgets]
        violating, others = [], []
        for pod_info in pods:
            metadata = pod_info.pod.metadata
            is_violating = False
            for number, budget in enumerate(self.budgets):
                if not metadata.labels or budget.metadata.namespace != metadata.namespace:
                    continue
                try:
                    selector = Selector.from_label_selector(budget.spec.selector)
                except SelectorError:
                    continue
                if selector.is_empty or not selector.matches(metadata.labels):
                    continue
                if metadata.name in budget.status.disrupted_pods:
                    continue
                left[number] -= 1
                if left[number] < 0:
                    is_violating = True
            (violating if is_violating else others).append(pod_info)
        return violating, others

    # docs/reference/06 §3.8

    def choose(self, found: dict[str, Victims]) -> str:
        names = list(found)

        def keep_lowest(cost: dict[str, int]) -> None:
            lowest = min(cost[name] for name in names)
            names[:] = [name for name in names if cost[name] == lowest]

        def priorities(name: str) -> list[int]:
            return [priority(victim.pod) for victim in found[name].pods]

        def earliest_start_of_the_top(name: str) -> int:
            top = max(priorities(name))
            return min(
                self.start(victim.pod) for victim in found[name].pods if priority(victim.pod) == top
            )

        keep_lowest({name: found[name].violations for name in names})
        keep_lowest({name: priorities(name)[0] for name in names})
        keep_lowest({name: sum(each + 2**31 for each in priorities(name)) for name in names})
        keep_lowest({name: len(found[name].pods) for name in names})
        keep_lowest({name: -earliest_start_of_the_top(name) for name in names})
        return names[0]
