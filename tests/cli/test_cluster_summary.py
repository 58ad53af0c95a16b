"""The summary that `kubesched up` prints."""

from __future__ import annotations

from kubesched.api import ObjectMeta, Pod, PodSpec, PodStatus
from kubesched.cli.cluster_summary import ClusterSummary, NodeRow, PendingPod, render, summarize

GIB = 1 << 30


def row(number: int, zone: str, cpu: int = 4) -> NodeRow:
    return NodeRow(f"n{number}", zone, number, 10, number * 100, cpu * 1000, GIB, 4 * GIB)


def pending(name: str, message: str) -> PendingPod:
    return PendingPod("default", name, "Unschedulable", message)


def lines(summary: ClusterSummary) -> list[list[str]]:
    return [line.split() for line in render(summary).splitlines()]


def test_pods_that_are_pending_for_one_reason_are_one_line() -> None:
    waiting = (pending("a", "no cpu"), pending("b", "no gpu"), pending("c", "no cpu"))
    text = render(ClusterSummary(total=3, bound=0, finished=0, pending=waiting, nodes=()))
    assert "default/a and 1 more   Unschedulable   no cpu\n" in text
    assert "default/b              Unschedulable   no gpu\n" in text
    assert "default/c" not in text
    assert text.endswith("0 of 3 pods bound, 3 pending")


def test_few_nodes_are_listed_and_many_summed_up_by_zone_and_size() -> None:
    few = ClusterSummary(0, 0, 0, (), tuple(row(number, "z") for number in range(20)))
    assert len(lines(few)) == 1 + 20 + 2
    many = [row(number, "ab"[number % 2]) for number in range(20)] + [row(9, "a", cpu=8)]
    got = lines(ClusterSummary(0, 0, 0, (), tuple(many)))
    # Each even node has as many pods as its number, with 100m each.
    assert got[1] == ["10", "a", "4", "cpu,", "4", "GiB", "90/100", "22%", "25%", "n18", "180%"]
    assert [each[:2] for each in got[2:4]] == [["1", "a"], ["10", "b"]]
    assert len(got) == 4 + 2


def test_undecided_workloads_and_remarks_are_listed() -> None:
    summary = ClusterSummary(
        total=2,
        bound=2,
        finished=1,
        pending=(),
        nodes=(),
        undecided={"Deployment default/a": "0 of 1 pods made"},
        remarks={"CronJob default/b": "next Job at noon"},
    )
    text = render(summary)
    assert "NOT DECIDED YET        WHY\nDeployment default/a   0 of 1 pods made\n" in text
    assert "ALSO                WHAT\nCronJob default/b   next Job at noon\n" in text
    assert text.endswith("2 of 2 pods bound (1 finished), 0 pending")


def test_evicted_and_failed_pods_are_counted_apart() -> None:
    def ended(phase: str, reason: str = "") -> Pod:
        return Pod(
            metadata=ObjectMeta(name=f"{phase}{reason}".lower(), namespace="default"),
            spec=PodSpec(node_name="" if reason == "Evicted" else "a"),
            status=PodStatus(phase=phase, reason=reason),
        )

    pods = [ended("Succeeded"), ended("Failed"), ended("Failed", "Evicted"), ended("Running")]
    summary = summarize((), pods, ())
    assert (summary.finished, summary.failed, summary.evicted) == (3, 2, 1)
    assert render(summary).endswith(
        "3 of 4 pods bound (1 finished, 1 failed, 1 evicted), 0 pending"
    )
