"""Service accounts and what every namespace has, as the official suite asks for them."""

from __future__ import annotations

from functools import cache

import pytest

from tests.cluster.specs.world import Json, Spec, Story, play

AUTHORITY = "kube-root-ca.crt"


async def _authority(spec: Spec) -> None:
    """Whom to trust is known in every namespace, whatever becomes of it."""
    held = await spec.until(lambda: spec.get("configmaps", AUTHORITY))
    spec.delete("configmaps", AUTHORITY)
    again = await spec.until(
        lambda: spec.exists("configmaps", AUTHORITY) and spec.get("configmaps", AUTHORITY)
    )
    assert again["metadata"]["uid"] != held["metadata"]["uid"]

    def spoil(found: Json) -> None:
        found["data"] = {"ca.crt": "spoilt"}

    spec.change("configmaps", AUTHORITY, spoil)
    await spec.until(lambda: spec.get("configmaps", AUTHORITY)["data"] == held["data"])


async def _accounts(spec: Spec) -> None:
    assert [each["metadata"]["name"] for each in spec.list("serviceaccounts")] == ["default"]
    assert not spec.list("secrets"), "tokens are asked for, not kept"
    metadata = {"name": "testserviceaccount", "labels": {"test-serviceaccount-static": "true"}}
    watch = spec.watch("serviceaccounts", labels="test-serviceaccount-static=true")
    spec.create("serviceaccounts", {"metadata": metadata})
    patched = spec.patch(
        "serviceaccounts", "testserviceaccount", {"automountServiceAccountToken": False}
    )
    assert patched["automountServiceAccountToken"] is False

    def change(found: Json) -> None:
        found["automountServiceAccountToken"] = True

    updated = spec.change("serviceaccounts", "testserviceaccount", change)
    assert updated["automountServiceAccountToken"] is True
    label = "test-serviceaccount-static=true"
    assert len(spec.list("serviceaccounts", label, everywhere=True)) == 1
    spec.delete_all("serviceaccounts", label)
    assert [each["type"] for each in watch.read()] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    spec.delete("serviceaccounts", "default")
    await spec.until(lambda: spec.exists("serviceaccounts", "default"))


STORIES: dict[str, Story] = {
    "the authority is known everywhere": _authority,
    "service accounts are managed": _accounts,
}


@cache
def played() -> dict[str, BaseException | None]:
    return play(STORIES)


@pytest.mark.parametrize("story", STORIES)
def test_accounts(story: str) -> None:
    if (error := played()[story]) is not None:
        raise error
