"""Registration of events and the evaluation of queueing hints (docs/reference/03 §7, §9, §10)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from kubesched.api import Pod
from kubesched.errors import ConfigError
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    NodeInfo,
    Plugin,
    QueuedPodInfo,
    QueueingHint,
    Status,
)
from kubesched.scheduler.backend.queue.queueing_hints import (
    EXTENDER,
    HintAnswer,
    HintTable,
    RegisteredHint,
    Strategy,
    ask_hint,
    matching_hints,
    register_hints,
    worth_requeuing,
)
from kubesched.testing.objects.builders import make_pod
from tests.scheduler.backend.queue.queue_harness import (
    NODE_ADD,
    NODE_LABEL,
    NODE_TAINT,
    POD_DELETE,
    PROFILE,
    always_queue,
    always_skip,
)

ACTION = ActionType


class FilterPlugin(Plugin):
    """Rejects at Filter, and registers the events of its arguments."""

    name = "A"

    def __init__(self, *events: ClusterEvent | ClusterEventWithHint) -> None:
        super().__init__()
        self._events = [
            event if isinstance(event, ClusterEventWithHint) else ClusterEventWithHint(event)
            for event in events
        ]

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._events


class SilentFilter(Plugin):
    name = "Silent"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS


class ScoreOnly(Plugin):
    name = "ScoreOnly"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        raise AssertionError("a plugin that cannot reject is not asked")


class UnreserveOnly(Plugin):
    name = "UnreserveOnly"

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


def labels(hints: Sequence[RegisteredHint]) -> list[str]:
    return [hint.event.label for hint in hints]


EVERYTHING = [
    resource + "All"
    for resource in (
        "Pod",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "storage.k8s.io/CSINode",
        "storage.k8s.io/CSIDriver",
        "storage.k8s.io/CSIStorageCapacity",
        "storage.k8s.io/StorageClass",
        "resource.k8s.io/ResourceClaim",
        "resource.k8s.io/DeviceClass",
    )
]


class Registration(NamedTuple):
    plugins: list[Plugin]
    want: list[str]


REGISTRATIONS = {
    "a plugin that waits for new nodes also hears of taints": Registration(
        [FilterPlugin(NODE_ADD)], ["NodeAdd", "NodeUpdateNodeTaint"]
    ),
    "it need not if it registered taints itself": Registration(
        [FilterPlugin(NODE_ADD, NODE_TAINT)], ["NodeAdd", "NodeUpdateNodeTaint"]
    ),
    "or with all updates of nodes": Registration(
        [FilterPlugin(ClusterEvent("Node", ACTION.ADD | ACTION.UPDATE))], ["Node"]
    ),
    "or if it does not wait for new nodes": Registration(
        [FilterPlugin(NODE_LABEL)], ["NodeUpdateNodeLabel"]
    ),
    "taints of anything but nodes do not count": Registration(
        [FilterPlugin(NODE_ADD, ClusterEvent("Pod", ACTION.ALL))],
        ["NodeAdd", "PodAll", "NodeUpdateNodeTaint"],
    ),
    "a plugin that says nothing hears everything": Registration([SilentFilter()], EVERYTHING),
    "a plugin that names no event hears nothing": Registration([FilterPlugin()], []),
    "a plugin that cannot reject is not asked": Registration([ScoreOnly()], []),
    "a plugin with Unreserve alone counts as one with Reserve": Registration(
        [UnreserveOnly()], EVERYTHING
    ),
}


@pytest.mark.parametrize("case", REGISTRATIONS.values(), ids=REGISTRATIONS)
def test_register_hints(case: Registration) -> None:
    assert labels(register_hints(case.plugins)) == case.want


def test_the_implied_taint_registration_always_means_a_retry() -> None:
    added, taint = register_hints([FilterPlugin(ClusterEventWithHint(NODE_ADD, always_skip))])
    assert ask_hint(added, make_pod("p"), None, None) is HintAnswer.SKIP
    assert ask_hint(taint, make_pod("p"), None, None) is HintAnswer.QUEUE


def test_extenders_get_the_events_of_a_plugin_without_registrations() -> None:
    hints = register_hints([], with_extenders=True)
    assert labels(hints) == EVERYTHING
    assert {hint.plugin for hint in hints} == {EXTENDER}
    for resource in (EventResource.RESOURCE_SLICE, EventResource.VOLUME_ATTACHMENT):
        assert not matching_hints(hints, ClusterEvent(resource, ACTION.ADD))


def test_a_plugin_whose_event_registration_fails_stops_the_start() -> None:
    class Broken(SilentFilter):
        def events_to_register(self) -> Sequence[ClusterEventWithHint]:
            raise RuntimeError("no events")

    with pytest.raises(ConfigError, match='of plugin "Silent": RuntimeError: no events'):
        register_hints([Broken()])


def test_failures_of_all_plugins_are_collected() -> None:
    class Broken(SilentFilter):
        def events_to_register(self) -> Sequence[ClusterEventWithHint]:
            raise RuntimeError("no events")

    problems: list[str] = []
    assert register_hints([Broken(), Broken()], problems) == ()
    assert problems == ['events_to_register of plugin "Silent": RuntimeError: no events'] * 2


class Match(NamedTuple):
    registered: tuple[str, ActionType]
    incoming: tuple[str, ActionType]
    want: bool


MATCHES = {
    "a general update does not reach a single sub-action": Match(
        ("Pod", ACTION.UPDATE_POD_LABEL), ("UnschedulablePod", ACTION.UPDATE), False
    ),
    "a sub-action reaches all updates": Match(
        ("Pod", ACTION.UPDATE), ("AssignedPod", ACTION.UPDATE_POD_LABEL), True
    ),
    "nor does it reach a sub-action of any resource": Match(
        ("*", ACTION.UPDATE_NODE_LABEL), ("Pod", ACTION.UPDATE), False
    ),
    "any resource is any resource": Match(
        ("*", ACTION.UPDATE), ("Pod", ACTION.UPDATE_NODE_LABEL), True
    ),
    "an incoming star is not any resource": Match(
        ("Pod", ACTION.UPDATE_NODE_LABEL), ("*", ACTION.UPDATE_NODE_LABEL), False
    ),
    "other resources do not match": Match(("Node", ACTION.ADD), ("Pod", ACTION.ADD), False),
    "a registered wildcard hears everything": Match(("*", ACTION.ALL), ("Node", ACTION.ADD), True),
}


@pytest.mark.parametrize("case", MATCHES.values(), ids=MATCHES)
def test_matching(case: Match) -> None:
    hints = (RegisteredHint(ClusterEvent(*case.registered), "A"),)
    assert bool(matching_hints(hints, ClusterEvent(*case.incoming))) is case.want
    assert bool(HintTable({PROFILE: hints}).interest_in(ClusterEvent(*case.incoming))) is case.want


def broken(pod: Pod, old: Any, new: Any) -> QueueingHint:
    raise TypeError("expected *v1.Node, but got *v1.Pod")


class HintCase(NamedTuple):
    rejectors: set[str]
    pending: set[str]
    hints: dict[str, Any]
    want: Strategy
    asked: list[str]


SKIP, LATER, NOW = Strategy.SKIP, Strategy.AFTER_BACKOFF, Strategy.IMMEDIATELY
JUDGEMENTS = {
    "the rejector sees a chance": HintCase({"A"}, set(), {"A": always_queue}, LATER, ["A Queue"]),
    "the rejector sees none": HintCase({"A"}, set(), {"A": always_skip}, SKIP, ["A QueueSkip"]),
    "one chance is enough, and ends the questions": HintCase(
        {"A", "B", "C"},
        set(),
        {"A": always_skip, "B": always_queue, "C": always_queue},
        LATER,
        ["A QueueSkip", "B Queue"],
    ),
    "others than the rejectors are not asked": HintCase({"A"}, set(), {"B": broken}, SKIP, []),
    "without a hint there is always a chance": HintCase(
        {"A"}, set(), {"A": None}, LATER, ["A Queue"]
    ),
    "a hint that fails counts as a chance": HintCase(
        {"A"}, set(), {"A": broken}, LATER, ["A Error"]
    ),
    "a pending plugin's chance needs no backoff": HintCase(
        {"A", "B"},
        {"B"},
        {"A": always_queue, "B": always_queue},
        NOW,
        ["A Queue", "B Queue"],
    ),
    "a pending plugin that is not among the rejectors counts too": HintCase(
        set(), {"B"}, {"B": always_queue}, NOW, ["B Queue"]
    ),
    "if only another plugin sees a chance, after the backoff": HintCase(
        {"A", "B"},
        {"A"},
        {"A": always_skip, "B": always_queue},
        LATER,
        ["A QueueSkip", "B Queue"],
    ),
    "a pod that no plugin rejected is requeued by every event": HintCase(
        set(), set(), {"A": always_skip}, LATER, []
    ),
}


@pytest.mark.parametrize("case", JUDGEMENTS.values(), ids=JUDGEMENTS)
def test_worth_requeuing(case: HintCase) -> None:
    queued = QueuedPodInfo(make_pod("p"), 0)
    queued.unschedulable_plugins, queued.pending_plugins = case.rejectors, case.pending
    hints = [RegisteredHint(NODE_ADD, plugin, hint) for plugin, hint in case.hints.items()]
    asked: list[str] = []
    strategy = worth_requeuing(
        queued,
        NODE_ADD,
        None,
        object(),
        hints,
        monotonic_ns=lambda: 0,
        observe=lambda hint, answer, _: asked.append(f"{hint.plugin} {answer.value}"),
    )
    assert strategy is case.want
    assert asked == case.asked
    assert worth_requeuing(queued, NODE_ADD, None, object(), hints) is case.want


def test_the_hint_receives_the_pod_and_both_objects() -> None:
    seen = []

    def hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
        seen.append((pod, old, new))
        return QueueingHint.QUEUE

    queued = QueuedPodInfo(make_pod("p"), 0)
    queued.unschedulable_plugins = {"A"}
    worth_requeuing(queued, NODE_ADD, "old", "new", [RegisteredHint(NODE_ADD, "A", hint)])
    assert seen == [(queued.pod, "old", "new")]


WILDCARD = ClusterEvent("*", ACTION.ALL, "ForceActivate")


def test_a_wildcard_concerns_every_pod_or_the_one_it_names() -> None:
    queued = QueuedPodInfo(make_pod("p", uid="1"), 0)
    queued.unschedulable_plugins = {"A"}
    assert worth_requeuing(queued, WILDCARD, None, None, ()) is LATER
    assert worth_requeuing(queued, WILDCARD, None, make_pod("p", uid="1"), ()) is LATER
    assert worth_requeuing(queued, WILDCARD, None, make_pod("p", uid="2"), ()) is SKIP
    assert worth_requeuing(queued, WILDCARD, None, "not a pod", ()) is SKIP


def test_a_pod_of_an_unknown_profile_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    queued = QueuedPodInfo(make_pod("p"), 0)
    queued.unschedulable_plugins = {"A"}
    with caplog.at_level(logging.ERROR, "kubesched"):
        assert worth_requeuing(queued, NODE_ADD, None, None, None) is LATER
    assert "pod=default/p" in caplog.text


def test_a_failing_hint_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "kubesched"):
        answer = ask_hint(RegisteredHint(NODE_ADD, "A", broken), make_pod("p"), None, None)
    assert answer is HintAnswer.ERROR
    assert "plugin=A" in caplog.text
    assert "expected *v1.Node, but got *v1.Pod" in caplog.text


def test_the_events_of_a_plugin_are_those_of_all_profiles() -> None:
    table = HintTable(
        {
            "one": (RegisteredHint(NODE_ADD, "A"), RegisteredHint(NODE_LABEL, "B")),
            "two": (RegisteredHint(POD_DELETE, "A"), RegisteredHint(NODE_ADD, "A")),
        }
    )
    assert table.events_of("A") == (NODE_ADD, POD_DELETE)
    assert table.events_of("C") == ()
