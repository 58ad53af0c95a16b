"""The JSON that the page gets, as types.

`ui/src/wire.ts` is generated from this module and from the results of explain
(`python -m tests.dashboard.wire_typescript`). Tests compare the answers of a page with these types,
and the generated file with this module. Times are milliseconds, CPU is in thousandths of a core,
memory is in MiB.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

__all__ = [
    "Counts",
    "Decision",
    "DecisionPage",
    "Frame",
    "GroupRow",
    "GroupView",
    "HistoryStep",
    "NodeDetail",
    "NodeShape",
    "Outline",
    "PageNode",
    "PlanMove",
    "PlanOutline",
    "PodRow",
    "PodVerdicts",
    "PodView",
    "QueueLengths",
    "QueuePlace",
    "QueueView",
    "ReadLimits",
    "Run",
    "RunSummary",
    "ScalableWorkload",
    "SearchHit",
]

Amount = tuple[int, int]  # used, total
# Name, CPU, memory and pods; then extended resources, if there are any.
Usage = tuple[str, int, int, int] | tuple[str, int, int, int, dict[str, int]]
# The index of a shape in the frame, then the usage.
ShapedNode = tuple[int, str, int, int, int] | tuple[int, str, int, int, int, dict[str, int]]


class PageNode(TypedDict):
    """A node with the used and the total amounts of its resources."""

    name: str
    labels: dict[str, str]
    cpu: Amount
    memory: Amount
    pods: Amount
    extended: NotRequired[dict[str, Amount]]
    cordoned: NotRequired[bool]
    notReady: NotRequired[bool]
    stopped: NotRequired[bool]
    taints: NotRequired[list[str]]


class NodeShape(TypedDict):
    """What equal nodes have in common: everything except name and usage."""

    labels: dict[str, str]
    cpu: int
    memory: int
    pods: int
    extended: NotRequired[dict[str, int]]
    cordoned: NotRequired[bool]
    notReady: NotRequired[bool]
    stopped: NotRequired[bool]
    taints: NotRequired[list[str]]


class QueuePlace(TypedDict):
    """Where a pod is in the scheduling queue."""

    place: str
    since: int
    attempts: int
    rejectedBy: list[str]
    waitsFor: list[str]
    gatedBy: NotRequired[str]
    nominatedTo: NotRequired[str]
    until: NotRequired[int]
    flushed: NotRequired[int]


class PodRow(TypedDict):
    """A pod in lists."""

    key: str
    node: str
    phase: str
    cpu: int
    memory: int
    priority: int
    created: str
    extended: NotRequired[dict[str, int]]
    leaving: NotRequired[bool]
    owner: NotRequired[str]
    group: NotRequired[str]  # namespace/name of its PodGroup
    reason: NotRequired[str]
    queue: NotRequired[QueuePlace]


class Decision(TypedDict):
    """A decision about a pod; `took` is in microseconds."""

    number: int
    at: int
    pod: str
    what: str
    node: NotRequired[str]
    reason: NotRequired[str]
    attempt: NotRequired[int]
    took: NotRequired[int]
    best: NotRequired[list[tuple[str, int]]]


class DecisionPage(TypedDict):
    """Some decisions, and the numbers of the first and the last one in the log."""

    first: int
    last: int
    decisions: list[Decision]


class Counts(TypedDict):
    nodes: int
    pods: int
    placed: int
    waiting: int


class DecisionTotals(TypedDict):
    placed: int
    failed: int
    preempted: int


class QueueLengths(TypedDict):
    active: int
    backoff: int
    unschedulable: int
    gated: int


class ReadLimits(TypedDict):
    """The parts of the cluster that the server of the page may not read."""

    unknown: list[str]
    partial: list[str]
    namespace: str


class Frame(TypedDict):
    """One event of the stream: everything (`all`), or what has changed since the last one."""

    all: NotRequired[bool]
    number: NotRequired[int]
    at: int
    title: NotRequired[str]
    writable: NotRequired[bool]
    shadow: NotRequired[bool]  # the page has the ledger of a shadow
    panels: NotRequired[bool]  # plugins show something of their own
    counts: Counts
    limits: NotRequired[ReadLimits]
    shapes: NotRequired[list[NodeShape]]
    nodes: NotRequired[list[ShapedNode]]
    gone: NotRequired[list[str]]
    used: NotRequired[list[Usage]]
    decisions: list[Decision]
    totals: DecisionTotals
    latency: NotRequired[tuple[float, float]]  # median and 99th percentile
    queue: NotRequired[QueueLengths]


class Run(TypedDict):
    """A timeline; `moments` are the only selectable times, if there are any."""

    name: str
    start: int
    end: int
    moments: list[int]
    marks: list[int]
    series: dict[str, list[float]]


class RunSummary(TypedDict):
    """The result of one run of a simulation."""

    configuration: str
    seed: int
    counts: dict[str, int]
    pending: dict[str, int]
    timeToBind: dict[str, float]
    averages: dict[str, float]


PlanMove = TypedDict("PlanMove", {"pod": str, "from": str, "to": str, "wave": int})


class PlanOutline(TypedDict):
    """A plan for fewer nodes; the first moment of its run is before the first wave."""

    nodes: int
    planned: int
    bound: int
    verified: bool
    moves: list[PlanMove]
    emptied: list[list[str]]  # by moment
    kept: dict[str, str]  # nodes that stay in use, and why
    problems: list[str]


class Outline(TypedDict):
    """The timelines of a page that is not live."""

    title: str
    runs: list[Run]
    isReport: NotRequired[bool]
    hasObjects: NotRequired[bool]
    comparisons: NotRequired[list[str]]
    summaries: NotRequired[list[RunSummary]]
    plan: NotRequired[PlanOutline]


class NodeDevice(TypedDict):
    driver: str
    pool: str
    name: str
    facts: list[str]
    taints: list[str]
    usedBy: list[str]


NodeVolume = TypedDict(
    "NodeVolume",
    {
        "name": str,
        "usedBy": list[str],
        "phase": str,
        "class": NotRequired[str],
        "size": NotRequired[str],
        "volume": NotRequired[str],
    },
)


class VolumeLimit(TypedDict):
    driver: str
    limit: int


class NodeDetail(PageNode):
    """A node with its pods, devices and volumes."""

    created: str
    devices: list[NodeDevice]
    volumes: list[NodeVolume]
    volumeLimits: list[VolumeLimit]
    list: list[PodRow]  # the last field, since its name hides the type


class HistoryStep(TypedDict):
    """One step in the history of a pod."""

    at: int
    what: str
    text: str
    node: NotRequired[str]
    reason: NotRequired[str]
    event: NotRequired[str]
    then: NotRequired[str]
    attempt: NotRequired[int]


class PodView(TypedDict):
    """A pod with its history and its place in the queue."""

    pod: PodRow
    labels: dict[str, str]
    history: list[HistoryStep]
    queue: NotRequired[QueuePlace]


class WaitingReason(TypedDict):
    reason: str
    message: str
    count: int
    example: str


class BlamedPlugin(TypedDict):
    plugin: str
    count: int


class GroupRow(TypedDict):
    """A pod group in lists; the policy is gang, basic or missing."""

    key: str
    policy: str
    needed: int  # how many pods must be placed together
    pods: int
    placed: int
    status: str  # Pending, Scheduled, or the reason of the condition
    message: NotRequired[str]
    topology: NotRequired[str]
    priority: NotRequired[int]


class GroupView(TypedDict):
    """A pod group with its pods."""

    group: GroupRow
    pods: list[PodRow]


class QueueView(TypedDict):
    """The waiting pods, and the reasons why they wait."""

    total: int
    shown: int
    lengths: NotRequired[QueueLengths]
    reasons: list[WaitingReason]
    groups: NotRequired[list[GroupRow]]  # with pods that wait
    blamed: list[BlamedPlugin]
    pods: list[PodRow]


class PodVerdicts(TypedDict):
    """The nodes that a pod fits on, and the reasons of the other nodes."""

    fits: list[str]
    rejected: dict[str, str]


class SearchHit(TypedDict):
    kind: str
    name: str


class ScalableWorkload(TypedDict):
    kind: str
    namespace: str
    name: str
    replicas: int
