"""Old certificate signing requests are deleted."""

from __future__ import annotations

import asyncio
import base64
import random
from typing import Any

import pytest

from kubesched.api.plain_kinds import plain_type
from kubesched.cluster.apiserver import Store
from kubesched.cluster.certificate_expiry import CertificateRequestExpiry
from kubesched.foundation.http.client_authority import ClientAuthority, read_request
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MINUTE, current_clock
from kubesched.foundation.util.components import running
from tests.integration.certificates import make_request

REQUESTS = plain_type("certificates.k8s.io/v1", "CertificateSigningRequest")


def condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "Test"}


@pytest.mark.parametrize(
    ("kind", "issued_for_minutes", "lasts_minutes"),
    [
        ("", 0, 24 * 60),
        ("Approved", 0, 60),
        ("Denied", 0, 60),
        ("Failed", 0, 60),
        ("Approved", 24 * 60, 60),
        ("Approved", 10, 0),
    ],
)
def test_when_requests_end(kind: str, issued_for_minutes: int, lasts_minutes: int) -> None:
    async def main() -> None:
        clock = current_clock()
        now_ns = clock.now_ns()
        store = Store(random.Random(0), now_ns=now_ns)
        resource = store.catalog.by_type(REQUESTS)
        pem = make_request("ann", "devs")[1]
        spec = {
            "request": base64.b64encode(pem).decode(),
            "signerName": "example.com/s",
            "usages": ["client auth"],
        }
        body: dict[str, Any] = {"metadata": {"name": "r"}, "spec": spec}
        stored = store.create(resource, None, body, now_ns).data
        if kind:
            part = "status" if kind == "Failed" else "approval"
            body = {**stored, "status": {"conditions": [condition(kind)]}}
            stored = store.update(resource, None, "r", body, now_ns, subresource=part).data
        if issued_for_minutes:
            authority = ClientAuthority(ClientAuthority.create("ca", now_ns, days=1))
            seconds = issued_for_minutes * 60
            signed = authority.sign(read_request(pem), ["client auth"], now_ns, seconds)
            status = {**stored["status"], "certificate": base64.b64encode(signed).decode()}
            body = {**stored, "status": status}
            store.update(resource, None, "r", body, now_ns, subresource="status")
        objects = store.collection(resource).objects
        # The requests are examined once an hour.
        examined_ns = (lasts_minutes // 60 + 1) * 60 * MINUTE
        async with running(CertificateRequestExpiry(store, clock)):
            await clock.sleep(examined_ns - MINUTE)
            assert objects, "deleted too early"
            await clock.sleep(2 * MINUTE)
            await asyncio.sleep(0)
            assert not objects

    virtual_loop.run(main())
