"""Binding through the API."""

from __future__ import annotations

import asyncio

from kubesched.api import ApiError, Pod
from kubesched.api.meta import Status as ApiStatus
from kubesched.framework import SUCCESS, Code, CycleState, Status
from kubesched.scheduler.plugins.default_binder import DefaultBinder
from kubesched.testing import FakeHandle, check_plugin, make_pod


def bind(handle: FakeHandle, pod: Pod) -> Status:
    return asyncio.run(DefaultBinder(handle=handle).bind(CycleState(), pod, "n1"))


def test_the_pod_is_bound() -> None:
    pod = make_pod("p", namespace="team")
    handle = FakeHandle([pod])
    assert bind(handle, pod) == SUCCESS
    [call] = handle.fake_api.calls
    assert (call.verb, call.namespace, call.name) == ("bind", "team", "p")
    bound = handle.objects.get(Pod, "p", "team")
    assert bound is not None
    assert bound.spec.node_name == "n1"


def test_the_uid_guards_against_a_pod_of_the_same_name() -> None:
    handle = FakeHandle([make_pod("p", uid="new")])
    assert bind(handle, make_pod("p", uid="old")).code is Code.ERROR


def test_a_refusal_is_an_error_with_the_servers_words() -> None:
    refusal = ApiError(ApiStatus(status="Failure", code=409, reason="Conflict", message="taken"))
    handle = FakeHandle([make_pod("p")])
    handle.fake_api.failures["bind"] = refusal
    status = bind(handle, make_pod("p"))
    assert (status.code, status.error, status.message) == (Code.ERROR, refusal, "taken")


def test_contract() -> None:
    check_plugin(DefaultBinder)
