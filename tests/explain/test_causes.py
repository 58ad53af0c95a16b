"""An SRE's first question is answered by the first three lines."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubesched.api.kinds import by_api_version_kind
from kubesched.explain import Snapshot
from kubesched.explain.text import render
from kubesched.foundation.util.clock import ManualClock
from tests.explain.causes import CAUSES as USUAL
from tests.explain.causes import Cause
from tests.explain.device_causes import DEVICES
from tests.explain.domain_causes import DOMAINS
from tests.explain.unusual_causes import UNUSUAL

CAUSES = {**USUAL, **UNUSUAL, **DEVICES, **DOMAINS}
# Controllers complete these: volumes are provisioned, claims and pods are created from templates.
CONTROLLED = {"PersistentVolumeClaim", "ResourceClaimTemplate", "Deployment", "StatefulSet", "Job"}
PENDING_OR_NOT = {
    "its node cannot pull the image",
    "no scheduler has tried it",
    "a pod on a node that was deleted",
    "it is already running",
    "the default scheduler is down",
    "the room came free after the last attempt",
}


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_the_first_three_lines_state_the_cause_and_the_remedy(cause: Cause) -> None:
    answer = Snapshot([*cause.objects, cause.pod], clock=ManualClock()).explain(cause.pod)
    lines = render(answer, width=120).splitlines()
    head = " ".join(lines[:3])
    for part in cause.says:
        assert part.lower() in head.lower(), "\n".join(lines)
    changes = [each.change for each in answer.suggestions]
    assert all(each.verified for each in answer.suggestions)
    for wanted in cause.helps:
        assert any(change.startswith(wanted) for change in changes), (wanted, changes)


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_every_suggestion_holds_when_it_is_carried_out(cause: Cause) -> None:
    answer = Snapshot([*cause.objects, cause.pod], clock=ManualClock()).explain(cause.pod)
    for suggestion in answer.suggestions:
        if not suggestion.edits or any(each.kind in CONTROLLED for each in suggestion.edits):
            continue  # test_applied_suggestions.py has controllers
        objects = {key_of(each): each for each in (*cause.objects, cause.pod)}
        for edit in suggestion.edits:
            kind = by_api_version_kind(edit.api_version, edit.kind)
            assert kind is not None
            key = (kind.type, edit.namespace, edit.name)
            assert (key in objects) == (edit.action != "create"), edit
            if edit.action == "delete":
                del objects[key]
            else:
                objects[key] = msgspec.convert(edit.document, kind.type)
        changed = objects[key_of(cause.pod)]
        again = Snapshot(objects.values(), clock=ManualClock()).explain(changed)
        preempts = again.preemption is not None and again.preemption.possible
        assert again.verdict == "fits" or preempts, suggestion.change
        assert preempts == (again.verdict != "fits" and suggestion.kind == "preemption")


def key_of(each: Any) -> tuple[type[Any], str, str]:
    return type(each), each.metadata.namespace, each.metadata.name


@pytest.mark.parametrize("name", CAUSES)
def test_the_verdict_is_pending_unless_the_pod_fits(name: str) -> None:
    cause = CAUSES[name]
    answer = Snapshot([*cause.objects, cause.pod], clock=ManualClock()).explain(
        cause.pod, suggest=False
    )
    assert answer.verdict == ("fits" if name in PENDING_OR_NOT else "pending")


def test_no_change_is_proposed_that_the_runtime_class_undoes() -> None:
    cause = DOMAINS["the nodes of its runtime class are cordoned"]
    answer = Snapshot([*cause.objects, cause.pod], clock=ManualClock()).explain(cause.pod)
    assert not [each for each in answer.suggestions if "nodeSelector" in each.change]


def test_no_soft_constraint_has_min_domains() -> None:
    cause = DOMAINS["fewer zones than minDomains"]
    answer = Snapshot([*cause.objects, cause.pod], clock=ManualClock()).explain(cause.pod)
    (soft,) = [each for each in answer.suggestions if "ScheduleAnyway" in each.change]
    (edit,) = soft.edits
    (constraint,) = edit.document["spec"]["topologySpreadConstraints"]
    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
    assert "minDomains" not in constraint
