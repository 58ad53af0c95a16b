"""Host ports of pods, and conflicts between them (docs/reference/05 §4.5)."""

from __future__ import annotations

import pytest

from kubesched.api import Container, ContainerPort, Pod, PodSpec
from kubesched.api.host_ports import HostPort, host_ports, ports_conflict


def container(*ports: ContainerPort, restart_policy: str | None = None) -> Container:
    return Container(ports=ports, restart_policy=restart_policy)


def test_ports_of_sidecars_come_before_those_of_containers() -> None:
    pod = Pod(
        spec=PodSpec(
            init_containers=(
                container(ContainerPort(host_port=1)),
                container(ContainerPort(host_port=2), restart_policy="Always"),
            ),
            containers=(
                container(
                    ContainerPort(container_port=80),
                    ContainerPort(host_port=3, protocol="UDP", host_ip="127.0.0.1"),
                ),
            ),
        )
    )
    assert host_ports(pod) == (
        HostPort("0.0.0.0", "TCP", 2),
        HostPort("127.0.0.1", "UDP", 3),
    )


def test_most_pods_have_no_host_ports() -> None:
    assert host_ports(Pod(spec=PodSpec(containers=(container(),)))) == ()


CASES = {
    "all addresses against one": (("0.0.0.0", "TCP", 8001), ("127.0.0.1", "TCP", 8001), True),
    "one address against all": (("127.0.0.1", "TCP", 8001), ("0.0.0.0", "TCP", 8001), True),
    "the same address": (("127.0.0.1", "TCP", 1), ("127.0.0.1", "TCP", 1), True),
    "different addresses": (("127.0.0.1", "TCP", 1), ("127.0.0.2", "TCP", 1), False),
    "another protocol": (("127.0.0.1", "UDP", 8001), ("0.0.0.0", "TCP", 8001), False),
    "another port": (("0.0.0.0", "TCP", 1), ("0.0.0.0", "TCP", 2), False),
    "no wildcard but the one of IPv4": (("::", "TCP", 1), ("::1", "TCP", 1), False),
}


@pytest.mark.parametrize(("wanted", "used", "want"), CASES.values(), ids=CASES)
def test_conflicts(wanted: tuple[str, str, int], used: tuple[str, str, int], want: bool) -> None:
    assert ports_conflict([HostPort(*wanted)], {HostPort(*used)}) is want


def test_each_requested_port_can_conflict() -> None:
    wanted = [HostPort("0.0.0.0", "TCP", 1), HostPort("0.0.0.0", "TCP", 2)]
    assert ports_conflict(wanted, {HostPort("10.0.0.1", "TCP", 2)})
    assert not ports_conflict(wanted, set())
    assert not ports_conflict([], {HostPort("10.0.0.1", "TCP", 2)})
