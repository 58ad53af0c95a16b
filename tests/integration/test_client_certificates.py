"""Certificate requests that are approved are signed, and the certificates identify users."""

from __future__ import annotations

import asyncio
import base64
import datetime
import http.client
import json
import random
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509

from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.components import running
from kubesched.testing import Cluster
from tests.integration.certificates import make_request

Json = Any
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"


class Sender:
    """Sends requests with a token, or with a client certificate."""

    def __init__(self, cluster: Cluster | EmbeddedCluster, pair: Path | None = None) -> None:
        self._address = urlsplit(cluster.url).netloc
        self.headers = {"Content-Type": "application/json"}
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        if pair is None:
            self.headers["Authorization"] = f"Bearer {cluster.token}"
        else:
            self._context.load_cert_chain(pair)

    async def send(self, method: str, path: str, body: Json = None) -> tuple[int, Json]:
        return await asyncio.to_thread(self._send, method, path, body)

    async def read(self, path: str) -> bytes:
        """Return the whole body of a response that ends."""
        return (await asyncio.to_thread(self._exchange, "GET", path, None))[1]

    def _send(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        code, text = self._exchange(method, path, body)
        return code, json.loads(text)

    def _exchange(self, method: str, path: str, body: Json) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(self._address, context=self._context)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, self.headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


async def approve(sender: Sender, name: str, **spec: Json) -> Json:
    """Create and approve a request; return its status when the signer has handled it."""
    code, made = await sender.send("POST", REQUESTS, {"metadata": {"name": name}, "spec": spec})
    assert code == 201, made
    condition = {"type": "Approved", "status": "True", "reason": "Test"}
    made["status"] = {"conditions": [condition]}
    code, answer = await sender.send("PUT", f"{REQUESTS}/{name}/approval", made)
    assert code == 200, answer
    for _ in range(50):
        _, shown = await sender.send("GET", f"{REQUESTS}/{name}")
        if "certificate" in shown["status"] or len(shown["status"]["conditions"]) > 1:
            return shown["status"]
    return shown["status"]


def test_an_issued_certificate_identifies_the_user_of_the_request(tmp_path: Path) -> None:
    asyncio.run(check_certificates(tmp_path))


async def check_certificates(tmp_path: Path) -> None:
    secret, request = make_request("ann", "devs")
    async with Cluster(nodes=0, serve=True) as cluster:
        sender = Sender(cluster)
        usages = ["client auth", "digital signature", "key encipherment"]
        status = await approve(
            sender,
            "good",
            request=base64.b64encode(request).decode(),
            signerName=SIGNER,
            usages=usages,
            expirationSeconds=3600,
        )
        certificate = base64.b64decode(status["certificate"])
        parsed = x509.load_pem_x509_certificate(certificate)
        lasts = parsed.not_valid_after_utc - parsed.not_valid_before_utc
        assert lasts == datetime.timedelta(hours=1, minutes=5)
        pair = tmp_path / "pair.pem"
        pair.write_bytes(secret + certificate)
        review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        code, answer = await Sender(cluster, pair).send("POST", review, {})
        assert code == 201
        user = answer["status"]["userInfo"]
        assert (user["username"], user["groups"]) == ("ann", ["devs", "system:authenticated"])
        assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA")
        # The token still identifies the administrator.
        code, answer = await sender.send("POST", review, {})
        assert answer["status"]["userInfo"]["username"] == "admin"

        async def failure(name: str, signer: str, pem: bytes, *usages: str) -> Json:
            encoded = base64.b64encode(pem).decode()
            status = await approve(
                sender, name, request=encoded, signerName=signer, usages=list(usages)
            )
            assert "certificate" not in status
            return [(each["type"], each.get("message")) for each in status["conditions"]][-1]

        wrong = "invalid usage for client certificate: server auth"
        assert await failure("usage", SIGNER, request, "server auth") == ("Failed", wrong)
        kubelet = f"{SIGNER}-kubelet"
        wrong = "subject organization is not system:nodes"
        assert await failure("group", kubelet, request, "client auth") == ("Failed", wrong)
        _, named = make_request("system:node:a", "system:nodes", x509.DNSName("a"))
        wrong = "DNS subjectAltNames are not allowed"
        assert await failure("names", kubelet, named, "client auth") == ("Failed", wrong)
        # Other signers have controllers of their own.
        assert (await failure("other", "example.com/s", request, "client auth"))[0] == "Approved"


def test_what_a_request_may_contain() -> None:
    asyncio.run(check_requests())


async def check_requests() -> None:
    _, pem = make_request("ann", "devs")
    _, masters = make_request("ann", "system:masters")
    valid = {
        "request": base64.b64encode(pem).decode(),
        "signerName": SIGNER,
        "usages": ["client auth"],
    }

    async with Cluster(nodes=0, serve=True) as cluster:
        sender = Sender(cluster)

        async def message(**changed: Json) -> str:
            body = {"metadata": {"name": "wrong"}, "spec": {**valid, **changed}}
            code, answer = await sender.send("POST", REQUESTS, body)
            assert code >= 400, answer
            return str(answer["message"]).partition(": ")[2] or answer["message"]

        shown = base64.b64encode(b"x").decode()
        assert await message(request=shown) == (
            f'spec.request: Invalid value: "{shown}": PEM block type must be CERTIFICATE REQUEST'
        )
        assert await message(usages=[]) == "spec.usages: Required value"
        text = await message(usages=["client auth", "client auth", "lunch"])
        assert text.startswith('[spec.usages[2]: Unsupported value: "lunch": supported values: ')
        assert 'spec.usages[1]: Duplicate value: "client auth"' in text
        assert await message(signerName="x") == (
            'spec.signerName: Invalid value: "x": must be a fully qualified domain and path of '
            "the form 'example.com/signer-name'"
        )
        assert await message(signerName="kubernetes.io/legacy-unknown") == (
            'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy '
            "signerName is not allowed via this API version"
        )
        assert await message(expirationSeconds=599) == (
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than "
            "600 seconds (10 minutes)"
        )
        assert await message(request=base64.b64encode(masters).decode()) == (
            f"use of {SIGNER} signer with system:masters group is not allowed"
        )


def test_which_writes_may_change_which_part_of_a_request() -> None:
    asyncio.run(check_writes())


async def check_writes() -> None:
    _, pem = make_request("ann", "devs")
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": "example.com/signer",
        "usages": ["client auth"],
    }
    async with Cluster(nodes=0, serve=True) as cluster:
        sender = Sender(cluster)
        path = f"{REQUESTS}/r"
        _, made = await sender.send("POST", REQUESTS, {"metadata": {"name": "r"}, "spec": spec})
        wanted = {**made, "spec": {**spec, "usages": ["server auth"]}}
        code, answer = await sender.send("PUT", path, wanted)
        assert (code, answer["spec"]["usages"]) == (200, ["client auth"]), "the spec is immutable"

        async def message(part: str, status: Json) -> str:
            code, answer = await sender.send("PUT", f"{path}/{part}", {**made, "status": status})
            assert code == 422, answer
            return str(answer["message"])

        made["metadata"].pop("resourceVersion")
        approved = {"type": "Approved", "status": "True", "reason": "Test"}
        denied = {**approved, "type": "Denied"}
        text = 'updates may not add a condition of type "Approved"'
        assert text in await message("status", {"conditions": [approved]})
        text = 'status.conditions[0].status: Unsupported value: "False": supported values: "True"'
        assert text in await message("approval", {"conditions": [{**approved, "status": "False"}]})
        text = "Approved and Denied conditions are mutually exclusive"
        assert text in await message("approval", {"conditions": [approved, denied]})
        body = {**made, "status": {"conditions": [approved], "certificate": "eA=="}}
        code, answer = await sender.send("PUT", f"{path}/approval", body)
        assert code == 200, answer
        assert "certificate" not in answer["status"], "only `status` writes certificates"
        (condition,) = answer["status"]["conditions"]
        assert condition["lastUpdateTime"] == condition["lastTransitionTime"] != ""
        text = 'updates may not remove a condition of type "Approved"'
        assert text in await message("approval", {"conditions": []})
        text = "must contain at least one CERTIFICATE PEM block"
        status = {"conditions": [approved], "certificate": base64.b64encode(b"x").decode()}
        assert text in await message("status", status)
        text = 'only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"'
        status["certificate"] = spec["request"]
        assert text in await message("status", status)


def test_approval_and_signing_need_permissions_for_the_signer(tmp_path: Path) -> None:
    asyncio.run(check_permissions(tmp_path))


async def check_permissions(tmp_path: Path) -> None:
    secret, pem = make_request("ann", "devs")
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": SIGNER,
        "usages": ["client auth"],
    }
    cluster = EmbeddedCluster(RealClock(), random.Random(0), listen=Listen(), rbac=True)
    async with cluster, running(*cluster.parts):
        admin = Sender(cluster)
        status = await approve(admin, "first", **spec)
        pair = tmp_path / "pair.pem"
        pair.write_bytes(secret + base64.b64decode(status["certificate"]))
        ann = Sender(cluster, pair)
        rights = "/apis/rbac.authorization.k8s.io/v1"

        async def grant(name: str, *rules: Json) -> None:
            role = {"metadata": {"name": name}, "rules": rules}
            code, answer = await admin.send("POST", f"{rights}/clusterroles", role)
            assert code == 201, answer
            binding = {
                "metadata": {"name": name},
                "roleRef": {"kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "User", "name": "ann"}],
            }
            code, answer = await admin.send("POST", f"{rights}/clusterrolebindings", binding)
            assert code == 201, answer

        group = {"apiGroups": ["certificates.k8s.io"]}
        requests = "certificatesigningrequests"
        parts = [requests, f"{requests}/approval", f"{requests}/status"]
        await grant("requests", {**group, "resources": parts, "verbs": ["*"]})
        _, made = await admin.send("POST", REQUESTS, {"metadata": {"name": "r"}, "spec": spec})
        made["metadata"].pop("resourceVersion")
        condition = {"type": "Denied", "status": "True", "reason": "Test"}
        made["status"] = {"conditions": [condition]}
        path = f"{REQUESTS}/r"
        refused = f'{requests}.certificates.k8s.io "r" is forbidden: user not permitted to '
        code, answer = await ann.send("PUT", f"{path}/approval", made)
        text = f'{refused}approve requests with signerName "{SIGNER}"'
        assert (code, answer["message"]) == (403, text)
        failed = {**made, "status": {"conditions": [{**condition, "type": "Failed"}]}}
        code, answer = await ann.send("PUT", f"{path}/status", failed)
        text = f'{refused}sign requests with signerName "{SIGNER}"'
        assert (code, answer["message"]) == (403, text)
        names = {"resources": ["signers"], "resourceNames": ["kubernetes.io/*"]}
        await grant("signers", {**group, **names, "verbs": ["approve"]})
        code, answer = await ann.send("PUT", f"{path}/approval", made)
        assert code == 200, answer
