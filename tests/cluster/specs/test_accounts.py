"""Specs of service accounts and of the objects that every namespace has."""

from __future__ import annotations

from base64 import b64encode
from functools import cache

import pytest

from kubesched.foundation.http.self_signed import self_signed_certificate
from tests.cluster.specs.spec_runner import Json, Spec, SpecSteps, play, pod
from tests.integration.certificates import make_request

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
AUTHORITY = "kube-root-ca.crt"


async def _authority(spec: Spec) -> None:
    """Every namespace has the root certificates, and they are restored after changes."""
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


async def _tokens(spec: Spec) -> None:
    spec.create("serviceaccounts", {"metadata": {"name": "e2e-sa"}})
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": 3600},
    }
    path = spec.path("serviceaccounts", "e2e-sa", "token")
    token = spec.send("POST", path, body)["status"]["token"]
    review = spec.create("tokenreviews", {"spec": {"token": token}})
    assert review["status"]["authenticated"] is True
    assert not review["status"].get("error")
    username = f"system:serviceaccount:{spec.namespace}:e2e-sa"
    assert review["status"]["user"]["username"] == username
    spec.delete("serviceaccounts", "e2e-sa")
    review = spec.create("tokenreviews", {"spec": {"token": token}})
    assert not review["status"].get("authenticated")


async def _reviews(spec: Spec) -> None:
    held = spec.create("selfsubjectreviews", {})
    assert held["status"]["userInfo"]["username"]
    asked = {"verb": "list", "resource": "configmaps", "version": "v1", "namespace": spec.namespace}
    user = f"system:serviceaccount:{spec.namespace}:default"
    body = {"spec": {"resourceAttributes": asked, "user": user}}
    assert "allowed" in spec.create("subjectaccessreviews", body)["status"]
    body["metadata"] = {"namespace": spec.namespace}
    assert "allowed" in spec.create("localsubjectaccessreviews", body)["status"]
    body = {"spec": {"resourceAttributes": asked}}
    assert spec.create("selfsubjectaccessreviews", body)["status"]["allowed"] is True


async def _certificates(spec: Spec) -> None:
    plural, signer = "certificatesigningrequests", f"example.com/e2e-{spec.namespace}"
    request = b64encode(make_request("e2e.example.com", "tests")[1]).decode()
    wanted = {
        "request": request,
        "signerName": signer,
        "expirationSeconds": 3600,
        "usages": ["digital signature", "key encipherment", "server auth"],
    }
    for _ in range(3):
        metadata = {"generateName": "e2e-example-csr-"}
        created = spec.create(plural, {"metadata": metadata, "spec": wanted})
    name = created["metadata"]["name"]
    mine = f"{spec.path(plural)}?fieldSelector=spec.signerName%3D{signer}"
    assert len(spec.send("GET", mine)["items"]) == 3
    note = {"metadata": {"annotations": {"patched": "true"}}}
    assert spec.patch(plural, name, note, kind="merge")["metadata"]["annotations"]
    spec.change(plural, name, lambda csr: csr["metadata"]["annotations"].update(updated="true"))
    uid = created["metadata"]["uid"]
    assert spec.get(plural, name, "approval")["metadata"]["uid"] == uid
    approved = {
        "type": "Approved",
        "status": "True",
        "reason": "E2E",
        "message": "Set from an e2e test",
    }
    body = {"metadata": {"annotations": {"patchedapproval": "true"}}}
    body["status"] = {"conditions": [{**approved, "type": "ApprovalPatch"}]}
    patched = spec.patch(plural, name, body, "approval", kind="merge")
    assert patched["status"]["conditions"][0]["type"] == "ApprovalPatch"

    def approve(csr: Json) -> None:
        csr["status"].setdefault("conditions", []).append(approved)

    updated = spec.change(plural, name, approve, "approval")
    assert [each["type"] for each in updated["status"]["conditions"]][-1] == "Approved"
    assert spec.get(plural, name, "status")["metadata"]["uid"] == uid
    body = {"metadata": {"annotations": {"patchedstatus": "true"}}}
    certificate = b64encode(self_signed_certificate(["e2e.example.com"], 0).certificates).decode()
    body["status"] = {"certificate": certificate}
    patched = spec.patch(plural, name, body, "status", kind="merge")
    assert patched["status"]["certificate"] == certificate

    def more(csr: Json) -> None:
        csr["status"]["conditions"].append({**approved, "type": "StatusUpdate"})

    updated = spec.change(plural, name, more, "status")
    assert updated["status"]["conditions"][-1]["type"] == "StatusUpdate"
    spec.delete(plural, name)
    assert not spec.exists(plural, name)
    assert len(spec.send("GET", mine)["items"]) == 2
    spec.send("DELETE", mine)
    assert not spec.send("GET", mine)["items"]


async def _mounts(spec: Spec) -> None:
    """Token mounts can be disabled.

    The field of the pod has precedence over that of the account.
    """
    for name, automount in (("mount", True), ("nomount", False)):
        body = {"metadata": {"name": name}, "automountServiceAccountToken": automount}
        spec.create("serviceaccounts", body)
    given = {"default": None, "mount": True, "nomount": False}
    for account, of_account in given.items():
        for of_pod in (None, True, False):
            made = pod(f"{account}-{of_pod}".lower(), serviceAccountName=account)
            if of_pod is not None:
                made["spec"]["automountServiceAccountToken"] = of_pod
            held = spec.create("pods", made)["spec"]
            wanted = of_pod if of_pod is not None else of_account is not False
            mounts = held["containers"][0].get("volumeMounts", [])
            assert [each["mountPath"] for each in mounts] == ([TOKEN_PATH] if wanted else [])
            assert [each["name"] for each in held.get("volumes", ())] == [
                each["name"] for each in mounts
            ]
    unnamed = spec.create("pods", pod("none"))["spec"]
    assert unnamed["serviceAccountName"] == "default"
    assert [each["mountPath"] for each in unnamed["containers"][0]["volumeMounts"]] == [TOKEN_PATH]
    await spec.until(lambda: len(spec.running()) == 10)


SCENARIOS: dict[str, SpecSteps] = {
    "the authority is known everywhere": _authority,
    "service accounts are managed": _accounts,
    "tokens are given and recognized": _tokens,
    "tokens are mounted unless the pod or the account opts out": _mounts,
    "reviews are answered": _reviews,
    "certificates are asked for, approved and given": _certificates,
}


@cache
def played() -> dict[str, BaseException | None]:
    return play(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_accounts(scenario: str) -> None:
    if (error := played()[scenario]) is not None:
        raise error
