"""The main reason in the text of a pod's condition."""

from __future__ import annotations

from kubesched.dashboard.condition_reasons import main_reason


def test_the_reason_of_most_nodes_is_the_reason() -> None:
    message = (
        "0/6 nodes are available: 1 node(s) had untolerated taint(s), 5 Insufficient cpu. "
        "preemption: 0/6 nodes are available: 6 No preemption victims found for incoming pod."
    )
    assert main_reason(message) == "Insufficient cpu"
    assert (
        main_reason("no nodes available to schedule pods") == "no nodes available to schedule pods"
    )
    of_all = (
        '0/6 nodes are available: persistentvolumeclaim "data" not found. no new claims to '
        "deallocate, preemption: 0/6 nodes are available: 6 Preemption is not helpful for "
        "scheduling."
    )
    assert main_reason(of_all) == 'persistentvolumeclaim "data" not found'
