"""NodePorts: only one pod of a node can use a host port."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kubesched.api import ContainerPort, Pod
from kubesched.framework import SKIP, SUCCESS, Code, CycleState, PodInfo, QueueingHint, Status
from kubesched.framework.causes import HostPortInUse
from kubesched.scheduler.plugins.node_ports import NodePorts
from kubesched.testing import (
    check_plugin,
    make_container,
    make_node,
    make_pod,
    make_port,
    make_view,
    run_filter,
)
from kubesched.testing.objects.views import filter_each, filter_together

TAKEN = Status.unschedulable(
    "node(s) didn't have free ports for the requested pod ports", causes=(HostPortInUse(),)
)


def port(text: str) -> ContainerPort:
    """Parse a port from `PROTOCOL/ip/number`."""
    protocol, ip, number = text.split("/")
    return make_port(int(number), protocol=protocol, host_ip=ip)


CASES: dict[str, tuple[list[str], list[str], Status]] = {
    "nothing in use": (["TCP//80"], [], SUCCESS),
    "the same port": (["TCP//80"], ["TCP//80"], TAKEN),
    "another port": (["TCP//80"], ["TCP//81"], SUCCESS),
    "another protocol": (["UDP//80"], ["TCP//80"], SUCCESS),
    "no protocol means TCP": (["//80"], ["TCP//80"], TAKEN),
    "all addresses against one": (["TCP/0.0.0.0/80"], ["TCP/127.0.0.1/80"], TAKEN),
    "one address against all": (["TCP/127.0.0.1/80"], ["TCP//80"], TAKEN),
    "different addresses": (["TCP/127.0.0.1/80"], ["TCP/127.0.0.2/80"], SUCCESS),
    "the same address": (["TCP/127.0.0.1/80"], ["TCP/127.0.0.1/80"], TAKEN),
    "one of several ports": (["TCP//79", "TCP//80"], ["UDP//79", "TCP//80"], TAKEN),
    "the IPv6 wildcard is an address like others": (["TCP/::/80"], ["TCP/10.0.0.1/80"], SUCCESS),
    "UDP on one address against TCP on all": (["UDP/127.0.0.1/80"], ["TCP/0.0.0.0/80"], SUCCESS),
}


@pytest.mark.parametrize(("wanted", "used", "want"), CASES.values(), ids=CASES)
def test_filter(wanted: list[str], used: list[str], want: Status) -> None:
    running = make_pod("r", host_ports=map(port, used), node_name="busy")
    nodes = make_view(make_node("free"), make_node("busy"), pods=[running])
    pod = make_pod("p", host_ports=map(port, wanted))
    assert run_filter(NodePorts(), pod, nodes) == [SUCCESS, want]


def with_init_port(restart_policy: str | None) -> Pod:
    init = make_container("init", ports=[80], restart_policy=restart_policy)
    return make_pod("p", init_containers=[init])


def test_ports_of_plain_init_containers_do_not_count() -> None:
    nodes = make_view(make_node("n"))
    assert NodePorts().pre_filter(CycleState(), PodInfo(with_init_port(None)), nodes) == SKIP


def test_ports_of_sidecars_count() -> None:
    nodes = make_view(make_node("n"), pods=[make_pod("r", host_ports=[80], node_name="n")])
    assert run_filter(NodePorts(), with_init_port("Always"), nodes) == [TAKEN]


def test_a_pod_without_host_ports_is_skipped() -> None:
    nodes = make_view(make_node("n"))
    assert NodePorts().pre_filter(CycleState(), PodInfo(make_pod("p")), nodes) == SKIP


def test_filtering_without_pre_filter_is_an_error() -> None:
    nodes, pod = make_view(make_node("a"), make_node("b")), make_pod("p", host_ports=[80])
    for answers in (
        filter_each(NodePorts(), CycleState(), pod, nodes),
        filter_together(NodePorts(), CycleState(), pod, nodes),
    ):
        assert [answer.code for answer in answers] == [Code.ERROR] * 2
        assert answers[0].message == 'reading "PreFilterNodePorts" from cycleState: not found'


def freed(ports: Iterable[int], **where: str) -> Pod:
    return make_pod("gone", host_ports=ports, **where)


HINT_CASES = {
    "an assigned pod with the port went away": (freed([80], node_name="n"), QueueingHint.QUEUE),
    "a nominated pod with the port went away": (
        freed([80], nominated_node_name="n"),
        QueueingHint.QUEUE,
    ),
    "a waiting pod with the port went away": (freed([80]), QueueingHint.SKIP),
    "a pod with another port went away": (freed([81], node_name="n"), QueueingHint.SKIP),
    "a pod without ports went away": (freed([], node_name="n"), QueueingHint.SKIP),
}


@pytest.mark.parametrize(("deleted", "want"), HINT_CASES.values(), ids=HINT_CASES)
def test_delete_hint(deleted: Pod, want: QueueingHint) -> None:
    on_delete, on_node = NodePorts().events_to_register()
    assert on_delete.event.label == "PodDelete"
    assert on_delete.hint is not None
    assert on_delete.hint(make_pod("p", host_ports=[80]), deleted, None) is want
    assert (on_node.event.label, on_node.hint) == ("NodeAdd", None)


def test_contract() -> None:
    check_plugin(NodePorts)
