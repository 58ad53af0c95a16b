"""Certificate requests that are approved are signed, and the certificates identify users."""

from __future__ import annotations

import asyncio
import base64
import datetime
import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kubesched.testing import Cluster

Json = Any
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"


class Sender:
    """Sends requests with a token, or with a client certificate."""

    def __init__(self, cluster: Cluster, pair: Path | None = None) -> None:
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


def make_request(name: str, group: str, *sans: x509.GeneralName) -> tuple[bytes, bytes]:
    """Return a key and a certificate request in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [
        x509.NameAttribute(NameOID.COMMON_NAME, name),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName(sans), critical=False)
    signed = builder.sign(key, hashes.SHA256())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret, signed.public_bytes(Encoding.PEM)


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
        wrong = "PEM block type must be CERTIFICATE REQUEST"
        assert await failure("no-pem", SIGNER, b"x", "client auth") == ("Failed", wrong)
        # Other signers have controllers of their own.
        assert (await failure("other", "example.com/s", request, "client auth"))[0] == "Approved"
