"""Tokens of service accounts: the server issues and verifies them.

A token is a JSON web token with its service account and its expiry time. It is valid while its
service account exists, and the pod that it is bound to.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.cluster.apiserver.http.request_bodies import check_types
from kubesched.cluster.apiserver.http.users import AUDIENCE, Requester, TokenIdentity
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import invalid
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import SECOND

__all__ = ["ServiceAccountTokens"]

Json = dict[str, Any]

_SHORTEST_SECONDS, _LONGEST_SECONDS, _USUAL_SECONDS = 600, 1 << 32, 3600
_CLAIMS = "kubernetes.io"


class ServiceAccountTokens:
    """Issues tokens for the service accounts of a store, signed with a key."""

    def __init__(self, store: Store, key: bytes, now_ns: Callable[[], int]) -> None:
        self._store, self._key, self._now_ns = store, key, now_ns
        self._accounts = store.catalog.by_url("", "v1", "serviceaccounts")
        self._pods = store.catalog.by_url("", "v1", "pods")

    def request(self, namespace: str, name: str, body: Json) -> Json:
        """Handle a TokenRequest.

        Raises:
            ApiError: 404 if the account does not exist, 409 or 422 if the request is invalid.
        """
        account = self._store.get(self._accounts, namespace, name).data["metadata"]
        spec = body.get("spec") or {}
        types = {"audiences": list, "boundObjectRef": dict}
        check_types(spec, "TokenRequest", types)
        check_types(
            spec.get("boundObjectRef") or {},
            "TokenRequest",
            dict.fromkeys(("kind", "name", "uid"), str),
        )
        seconds = spec.get("expirationSeconds") or _USUAL_SECONDS
        if not isinstance(seconds, int) or not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
            text = "may not specify a duration less than 10 minutes"
            problem = invalid("spec.expirationSeconds", seconds, text)
            raise api_errors.invalid("TokenRequest.authentication.k8s.io", name, [problem])
        audiences = spec.get("audiences") or [AUDIENCE]
        claims: Json = {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": account["uid"]},
        }
        bound = spec.get("boundObjectRef") or {}
        if bound and bound.get("kind") != "Pod":
            version = bound.get("apiVersion", "")
            text = f"cannot bind token to object of type {version}, Kind={bound.get('kind', '')}"
            raise api_errors.bad_request(text)
        if bound:
            pod = self._store.get(self._pods, namespace, bound.get("name") or "").data["metadata"]
            if bound.get("uid") not in (None, "", pod["uid"]):
                text = f"the UID in the bound object reference ({bound['uid']}) does not match"
                raise api_errors.conflict("pods", pod["name"], text)
            claims["pod"] = {"name": pod["name"], "uid": pod["uid"]}
        now_ns = self._now_ns()
        expiry_ns = now_ns + seconds * SECOND
        token = self._signed(
            {
                "aud": audiences,
                "exp": expiry_ns // SECOND,
                "iat": now_ns // SECOND,
                "iss": AUDIENCE,
                _CLAIMS: claims,
                "nbf": now_ns // SECOND,
                "sub": f"system:serviceaccount:{namespace}:{name}",
            }
        )
        shown = {"audiences": audiences, "expirationSeconds": seconds}
        if bound:
            shown["boundObjectRef"] = bound
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "creationTimestamp": format_timestamp(now_ns),
            },
            "spec": shown,
            "status": {"token": token, "expirationTimestamp": format_timestamp(expiry_ns)},
        }

    def identify(self, token: str) -> TokenIdentity | None:
        """Return the user and the audiences of a token; None if it is invalid or expired."""
        content, dot, signature = token.rpartition(".")
        if not dot or not hmac.compare_digest(self._signature(content), signature.encode()):
            return None
        claims = msgspec.json.decode(_decoded(content.rpartition(".")[2]))
        bound = claims[_CLAIMS]
        if claims["exp"] * SECOND <= self._now_ns() or not self._exist(bound):
            return None
        account, namespace = bound["serviceaccount"], bound["namespace"]
        extra: dict[str, tuple[str, ...]] = {}
        if "pod" in bound:
            prefix = "authentication.kubernetes.io/pod-"
            extra = {f"{prefix}{field}": (bound["pod"][field],) for field in ("name", "uid")}
        user = Requester(
            f"system:serviceaccount:{namespace}:{account['name']}",
            account["uid"],
            ("system:serviceaccounts", f"system:serviceaccounts:{namespace}"),
            extra,
        )
        return TokenIdentity(user, tuple(claims["aud"]))

    def _exist(self, claims: Json) -> bool:
        """Whether the service account and the pod of a token still exist."""
        for resource, field in ((self._accounts, "serviceaccount"), (self._pods, "pod")):
            if (named := claims.get(field)) is None:
                continue
            record = self._store.find_record(resource, claims["namespace"], named["name"])
            if record is None or record.data["metadata"]["uid"] != named["uid"]:
                return False
        return True

    def _signed(self, claims: Json) -> str:
        head = _encoded(b'{"alg":"HS256","typ":"JWT"}')
        content = f"{head}.{_encoded(msgspec.json.encode(claims))}"
        return f"{content}.{self._signature(content).decode()}"

    def _signature(self, content: str) -> bytes:
        digest = hmac.digest(self._key, content.encode(errors="replace"), hashlib.sha256)
        return _encoded(digest).encode()


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
