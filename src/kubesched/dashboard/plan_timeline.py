"""The timeline of a plan: the cluster before the first wave, and after each wave.

The moments of the timeline are the waves, one millisecond apart, because a plan has no times. A
moved pod has the same name before and after, so that it can be followed; on a real cluster its
owner creates a pod with another name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from kubesched.api import Node, Pod, PodStatus
from kubesched.api.base import ApiObject
from kubesched.api.pod_facts import pod_key
from kubesched.dashboard.timeline import Timeline, TimelineChange, Timelines
from kubesched.dashboard.wire_types import PlanMove, PlanOutline
from kubesched.errors import ConfigError
from kubesched.plan.applying.plan_document import PlanDocument, read_plan
from kubesched.plan.moving.planned_waves import PlannedMove, cordoned_after
from kubesched.plan.reading.pinned_pods import follows_node
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = ["timeline_of_plan"]

_ENDED: Final = ("Succeeded", "Failed")


class _Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What only a consolidation has."""

    nodes: int
    planned_nodes: int
    lower_bound: int
    verified: bool
    uncordon: tuple[str, ...] = ()
    kept_nodes: dict[str, str] = {}
    problems: tuple[str, ...] = ()


def timeline_of_plan(
    path: Path,
    objects: Sequence[ApiObject],
    taken: int,
    configuration: KubeSchedulerConfiguration | None = None,
) -> Timelines:
    """Build the timeline of a file of `kubesched plan consolidate -o json`.

    `objects` are those of the cluster that the plan was made for, `taken` is their time in
    milliseconds.

    Raises:
        PlanFileError: the file is not a plan.
        ConfigError: it is another kind of plan, or the plan of another cluster.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    plan = read_plan(text, str(path))
    try:
        numbers = msgspec.json.decode(text, type=_Numbers)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{path}: not a plan of `kubesched plan consolidate`, the only one with waves that the "
            f"page shows: {error}"
        ) from error
    _check_fits(plan, objects, path)
    last = len(plan.waves)
    run = Timeline(
        "plan",
        _changes(plan, numbers.uncordon, objects, taken),
        start=taken,
        end=taken + last,
        moments=[taken + wave for wave in range(last + 1)],
        configuration=configuration,
    )
    outline = PlanOutline(
        nodes=numbers.nodes,
        planned=numbers.planned_nodes,
        bound=numbers.lower_bound,
        verified=numbers.verified,
        moves=[_row(move) for move in plan.moves],
        emptied=_emptied_by_wave(plan, objects),
        kept=numbers.kept_nodes,
        problems=list(numbers.problems),
    )
    return Timelines([run], {"plan": outline})


def _check_fits(plan: PlanDocument, objects: Sequence[ApiObject], path: Path) -> None:
    """Raise an error if a pod or node of the plan is not among the objects."""
    nodes = {each.metadata.name for each in objects if isinstance(each, Node)}
    pods = {pod_key(each): each for each in objects if isinstance(each, Pod)}
    hint = "make the plan from the same capture or files"
    if missing := sorted(plan.nodes - nodes):
        raise ConfigError(f"{path}: there is no node {missing[0]} in this cluster; {hint}")
    for move in plan.moves:
        pod = pods.get(move.pod)
        if pod is None or pod.spec.node_name != move.source:
            raise ConfigError(f"{path}: pod {move.pod} is not on node {move.source}; {hint}")
        if move.uid and pod.metadata.uid and move.uid != pod.metadata.uid:
            raise ConfigError(f"{path}: pod {move.pod} was created again since; {hint}")


def _changes(
    plan: PlanDocument, uncordon: Sequence[str], objects: Sequence[ApiObject], taken: int
) -> Iterator[TimelineChange]:
    for each in objects:
        yield TimelineChange(taken, None, each)
    nodes = {each.metadata.name: each for each in objects if isinstance(each, Node)}
    pods = {pod_key(each): each for each in objects if isinstance(each, Pod)}
    for number, cordoned in enumerate(_cordoned_by_wave(plan, uncordon, nodes), start=1):
        for name in sorted(plan.nodes):
            node, is_cordoned = nodes[name], name in cordoned
            if is_cordoned != node.spec.unschedulable:
                nodes[name] = replace(node, spec=replace(node.spec, unschedulable=is_cordoned))
                yield TimelineChange(taken + number, node, nodes[name])
        for move in plan.moves:
            if move.wave == number:
                yield from _moved(pods[move.pod], move, taken + number)


def _cordoned_by_wave(
    plan: PlanDocument, uncordon: Sequence[str], nodes: Mapping[str, Node]
) -> Iterator[set[str]]:
    """Yield the nodes that are cordoned during each wave; the last wave uncordons `uncordon`."""
    closed = {name for name, node in nodes.items() if node.spec.unschedulable}
    for number, wave in enumerate(plan.waves, start=1):
        closed -= {*wave.uncordon, *wave.relief, *(step.node for step in wave.steps)}
        cordoned = cordoned_after(plan.waves[:number])
        if number == len(plan.waves):
            cordoned = cordoned.difference(uncordon)
            closed.difference_update(uncordon)
        yield {*cordoned, *closed}


def _moved(pod: Pod, move: PlannedMove, at: int) -> Iterator[TimelineChange]:
    """Yield an eviction, a new pod, and its placement."""
    waiting = replace(pod, spec=replace(pod.spec, node_name=""), status=PodStatus(phase="Pending"))
    placed = replace(pod, spec=replace(pod.spec, node_name=move.target))
    yield TimelineChange(at, pod, None)
    yield TimelineChange(at, None, waiting)
    yield TimelineChange(at, waiting, placed)


def _emptied_by_wave(plan: PlanDocument, objects: Sequence[ApiObject]) -> list[list[str]]:
    """Return the nodes without pods that keep them in use: those before, and those of each wave."""
    counts = {each.metadata.name: 0 for each in objects if isinstance(each, Node)}
    for each in objects:
        if isinstance(each, Pod) and _keeps_in_use(each, counts):
            counts[each.spec.node_name] += 1
    waiting = {name for name in plan.emptied if name in counts}
    emptied = []
    for number in range(len(plan.waves) + 1):
        for move in plan.moves:
            if move.wave == number:
                counts[move.source] -= 1
                counts[move.target] += 1
        found = sorted(name for name in waiting if not counts[name])
        waiting.difference_update(found)
        emptied.append(found)
    return emptied


def _keeps_in_use(pod: Pod, nodes: Mapping[str, int]) -> bool:
    has_ended = pod.status.phase in _ENDED
    return pod.spec.node_name in nodes and not has_ended and not follows_node(pod)


def _row(move: PlannedMove) -> PlanMove:
    return {"pod": move.pod, "from": move.source, "to": move.target, "wave": move.wave}
